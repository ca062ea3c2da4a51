"""``guard-eval``: the benchmarks."""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Protocol, cast

from eval import data_command, pivots, report_command, score, verify
from eval.switch import command as switch_matrix
from guard.errors import GuardError


class Command(Protocol):
    """What a module offers to be a subcommand."""

    NAME: str
    HELP: str

    def configure(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        ...

    def run(self, arguments: Namespace) -> int:
        """Do it and return the exit status."""
        ...


COMMANDS = cast("tuple[Command, ...]", (score, pivots, switch_matrix, report_command, verify, data_command))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand: 0 is success, 1 a verdict that failed, 2 an error of input or use."""
    parser = ArgumentParser(prog="guard-eval", description="Benchmarks of pivot-guard.")
    subparsers = parser.add_subparsers(dest="command", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        command.configure(subparser)
        subparser.set_defaults(run=command.run)
    arguments = parser.parse_args(argv)
    # A stopped command unwinds as an interrupted one does, so that a proxy that it started does not outlive it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return int(arguments.run(arguments))
    except GuardError as error:
        print(f"guard-eval: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("guard-eval: interrupted; the same command resumes", file=sys.stderr)
        return 130
