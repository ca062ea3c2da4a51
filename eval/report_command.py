"""``guard-eval report``: write the report of a run again, or of several side by side."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from eval.pivots_report import write_reports
from eval.report import print_table
from models.arguments import natural

NAME = "report"
HELP = "write report.md and report.html from the records of runs"


def configure(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders")
    parser.add_argument("--out", type=Path, help="folder of the reports (default: the first run's)")
    parser.add_argument("--draws", type=natural, default=1000, help="resamples of the bootstrap")


def run(arguments: Namespace) -> int:
    """Write the reports and print the main tables."""
    out: Path = arguments.out or arguments.runs[0]
    for table in write_reports(arguments.runs, out, arguments.draws):
        print_table(table.caption, table.header, table.rows)
    return 0
