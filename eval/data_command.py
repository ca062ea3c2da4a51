"""``guard-eval data``: what data sets there are, fetching them, and cutting sessions from them."""

from __future__ import annotations

import asyncio
import tarfile
import zlib
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from eval.datasets.registry import DATASETS, DataSet, dataset
from eval.download import fetch, pins
from eval.errors import DataError
from eval.outputs import output_folder
from eval.report import print_table
from eval.session_sets import add_session_arguments, session_sets, sources_of
from eval.sessions import write_sessions

NAME = "data"
HELP = "list and fetch data sets, write session files"


def configure(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    commands = parser.add_subparsers(dest="data_command", required=True)
    commands.add_parser("list", help="names, licences and origins")
    get = commands.add_parser("get", help="fetch a data set's official files and check their digests")
    get.add_argument("name", choices=[one.name for one in DATASETS if one.files])
    get.add_argument("--to", type=Path, default=Path("data"), help="folder that gets them (default data)")
    get.add_argument(
        "--sha256", nargs="+", default=[], metavar="HEX", help="digests of the files without a pinned one, in order"
    )
    get.add_argument(
        "--trust-first",
        action="store_true",
        help="fetch files of which no digest is known; what comes is recorded, and later fetches are held to it",
    )
    sessions = commands.add_parser("sessions", help="cut sessions and write them as session files")
    add_session_arguments(sessions)
    sessions.add_argument("--to", type=Path, default=Path("sessions"), help="folder that gets them")


def run(arguments: Namespace) -> int:
    """List, fetch or cut."""
    {"list": _list, "get": _get, "sessions": _sessions}[arguments.data_command](arguments)
    return 0


async def get(known: DataSet, folder: Path, given: Sequence[str], *, trust_first: bool) -> list[tuple[str, str, str]]:
    """Fetch and unpack a data set's files; returns name, digest, and whence the digest is known, of each.

    Raises:
        DataError: a file's digest is unknown or another one, or it cannot be fetched or unpacked.
    """
    held_to = pins(known, folder, given, trust_first=trust_first)
    output_folder(folder)
    rows = []
    for file, pin in zip(known.files, held_to, strict=True):
        digest = await fetch(file, folder, pin)
        if file.name.endswith(".tar.gz"):
            _unpack(folder / file.name)
        rows.append((file.name, digest, pin.origin))
    return rows


def _unpack(path: Path) -> None:
    try:
        with tarfile.open(path) as archive:
            archive.extractall(path.parent, filter="data")
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: cannot be unpacked ({error}); if it is no archive, delete it and its recorded digest, and "
            "fetch again"
        ) from None


def _list(_: Namespace) -> None:
    rows = [
        (
            one.name,
            one.title,
            one.licence,
            one.kind or "-",
            "\n".join(file.url for file in one.files) or "normalised files",
            "\n".join("pinned" if file.sha256 else "none known" for file in one.files) or "-",
        )
        for one in DATASETS
    ]
    print_table("Data sets", ("name", "title", "licence of the texts", "kind", "from", "digest"), rows)


def _get(arguments: Namespace) -> None:
    known = dataset(arguments.name)
    folder: Path = arguments.to / known.name
    rows = asyncio.run(get(known, folder, arguments.sha256, trust_first=arguments.trust_first))
    print_table(f"{known.title}, licence of the texts: {known.licence}", ("file", "sha256", "digest"), rows)


def _sessions(arguments: Namespace) -> None:
    sources = sources_of(arguments)
    output_folder(arguments.to)
    rows = []
    for source in sources:
        for one in session_sets(source, arguments):
            target = arguments.to / f"{one.source}-{one.variant}.jsonl.gz"
            write_sessions(target, one.sessions)
            facts = one.facts()
            keys = ("sessions", "user_turns", "mean", "least", "most", "pivots", "refines")
            rows.append((target.name, *(_short(facts[key]) for key in keys)))
    print_table(
        "Sessions: user turns in all, mean, least and most a session",
        ("file", "sessions", "user turns", "mean", "least", "most", "PIVOT", "REFINE"),
        rows,
    )


def _short(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
