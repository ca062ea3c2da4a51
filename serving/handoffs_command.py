"""``guard-serve handoffs``: list, filter, follow and export the handoff log."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TextIO

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from guard.errors import SettingsError, StoreError
from guard.handoff import EventKind, Reason
from serving.handoffs import Row, Wanted, as_json, handoffs, read_handoffs, sqlite_file
from serving.migrate import migrate

FORMATS = ("text", "jsonl", "csv")
_POLL_S = 0.5
_ALL = "all"
_DIGITS = 18
"""Longer numbers are beyond a database's."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--limit", type=_limit, default=50, help="newest rows to show, or all (default 50)")
    parser.add_argument("--kind", choices=[kind.value for kind in EventKind], help="rows of one kind")
    parser.add_argument("--reason", choices=[reason.value for reason in Reason], help="why the model changed")
    parser.add_argument("--model", help="rows that this model answered")
    parser.add_argument("--prefix-model", help="rows in which this model wrote most of the foreign history")
    parser.add_argument("--decision", metavar="ID", help="rows of one decision")
    parser.add_argument("--since", type=_time, help="rows from this time on, e.g. 2026-11-30 or 2026-11-30T12:00")
    parser.add_argument("--follow", action="store_true", help="go on with new rows as they come")
    parser.add_argument("--format", choices=FORMATS, default="text", help="text, JSON Lines or CSV (default text)")
    parser.add_argument("--json", action="store_const", const="jsonl", dest="format", help="short for --format jsonl")
    parser.add_argument("--export", metavar="FILE", help="write there; the ending .jsonl or .csv says how")


def run(arguments: argparse.Namespace, engine: Engine) -> int:
    """Print or write the rows that are asked for.

    Raises:
        SettingsError: the file's ending is unknown.
        StoreError: the log cannot be read.
    """
    wanted = Wanted(
        kind=arguments.kind,
        reason=arguments.reason,
        suffix_model=arguments.model,
        prefix_model=arguments.prefix_model,
        decision_id=arguments.decision,
        since=arguments.since,
    )
    stored = sqlite_file(str(engine.url))
    if stored is not None and not stored.exists():
        raise StoreError(f"log.url: the handoff log cannot be read: there is no file {stored}")
    form = _format_of(arguments.export) if arguments.export else arguments.format
    try:
        migrate(engine)
        rows = _rows(engine, wanted, arguments.limit, follow=arguments.follow)
        if arguments.export:
            with open(arguments.export, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123 - as the shell has it
                _write(rows, form, file)
        else:
            _write(rows, form, sys.stdout)
    except BrokenPipeError:  # whoever reads has seen enough, as head does
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - what is left is flushed at the end
    except OSError as error:
        raise SettingsError(f"--export: cannot write {arguments.export}: {error.strerror}") from None
    except SQLAlchemyError as error:
        raise StoreError(f"log.url: the handoff log cannot be read: {_why(error)}") from None
    return 0


def _why(error: SQLAlchemyError) -> str:
    said = str(getattr(error, "orig", "")) or type(error).__name__
    return f"{said.splitlines()[0]}; is it another program's file, or in use? log.url names the log"


def _rows(engine: Engine, wanted: Wanted, limit: int | None, *, follow: bool) -> Iterator[Row]:
    last = 0
    for row in read_handoffs(engine, limit=limit, wanted=wanted):
        last = row["id"]
        yield row
    while follow:
        time.sleep(_POLL_S)
        for row in read_handoffs(engine, limit=None, after=last, wanted=wanted):
            last = row["id"]
            yield row


def _write(rows: Iterable[Row], form: str, file: TextIO) -> None:
    formats: dict[str, Callable[[Row], str]] = {"text": _line, "jsonl": as_json, "csv": _CsvLines()}
    for row in rows:
        file.write(formats[form](row) + "\n")
        file.flush()


class _CsvLines:
    """Rows as lines of CSV, the header before the first."""

    def __init__(self) -> None:
        self._begun = False

    def __call__(self, row: Row) -> str:
        text = io.StringIO()
        writer = csv.DictWriter(text, [column.name for column in handoffs.columns], lineterminator="\n")
        if not self._begun:
            writer.writeheader()
            self._begun = True
        authors = row["prefix_authors"]
        writer.writerow(row | {"prefix_authors": None if authors is None else json.dumps(authors)})
        return text.getvalue().removesuffix("\n")


def _line(row: Row) -> str:
    what = _context(row) if row["kind"] == "context" else _model(row)
    return f"{row['time']:%Y-%m-%d %H:%M:%S}  {row['decision_id']}  {what}  {row['mode']}"


def _context(row: Row) -> str:
    odds = "" if row["probability"] is None else f"  p={row['probability']:.3f}"
    return (
        f"context/{row['event']}  turn {row['turn']}{odds}  "
        f"kept {row['kept_messages']}  dropped {row['dropped_messages']} (about {row['dropped_tokens']} tokens)  "
        f"{row['suffix_model']} at {row['backend']}"
    )


def _model(row: Row) -> str:
    authors = ", ".join(f"{model} {turns}" for model, turns in (row["prefix_authors"] or {}).items())
    prefix = "cleared: nothing foreign is forwarded" if row["cleared"] else f"prefix by {authors}"
    risk = "" if row["risk"] is None else f"  risk {row['risk']:+.3f}"
    mitigated = f"  mitigated by {row['mitigations']}" if row["mitigations"] else ""
    to = f"{row['suffix_model']} at {row['backend']}"
    return f"model/{row['reason']}  turn {row['turn']}  {prefix}  -> {to}{risk}{mitigated}"


def _format_of(file: str) -> str:
    for form in ("jsonl", "csv"):
        if file.endswith(f".{form}"):
            return form
    raise SettingsError("--export: want a file that ends in .jsonl or .csv")


def _limit(value: str) -> int | None:
    if value == _ALL:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < _DIGITS) or not int(value):
        raise argparse.ArgumentTypeError("a number of rows, or all")
    return int(value)


def _time(value: str) -> datetime:
    try:
        given = datetime.fromisoformat(value)
    except ValueError:
        raise argparse.ArgumentTypeError("a time such as 2026-11-30 or 2026-11-30T12:00") from None
    return given if given.tzinfo else given.replace(tzinfo=UTC)
