"""``guard-eval data``: what data sets there are, fetching them, and cutting sessions from them."""

from __future__ import annotations

import asyncio
import hashlib
import tarfile
from argparse import ArgumentParser, Namespace
from pathlib import Path

import aiohttp

from eval.datasets.registry import DATASETS, DataSet, RemoteFile, dataset
from eval.errors import DataError
from eval.records import file_digest
from eval.report import print_table
from eval.session_sets import add_session_arguments, session_sets, sources_of
from eval.sessions import write_sessions

NAME = "data"
HELP = "list and fetch data sets, write session files"
CHUNK = 1 << 20
TIMEOUT_S = 3600


def configure(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    commands = parser.add_subparsers(dest="data_command", required=True)
    commands.add_parser("list", help="names, licences and origins")
    get = commands.add_parser("get", help="fetch a data set's official files and check their digests")
    get.add_argument("name", choices=[one.name for one in DATASETS if one.files])
    get.add_argument("--to", type=Path, default=Path("data"), help="folder that gets them (default data)")
    get.add_argument(
        "--sha256", nargs="+", default=[], metavar="HEX", help="digests of the files, in order, where none is pinned"
    )
    sessions = commands.add_parser("sessions", help="cut sessions and write them as session files")
    add_session_arguments(sessions)
    sessions.add_argument("--to", type=Path, default=Path("sessions"), help="folder that gets them")


def run(arguments: Namespace) -> int:
    """List, fetch or cut."""
    {"list": _list, "get": _get, "sessions": _sessions}[arguments.data_command](arguments)
    return 0


async def fetch(remote: RemoteFile, folder: Path, sha256: str) -> Path:
    """Fetch a file into ``folder``, unless it is there with the right digest.

    Raises:
        DataError: it cannot be fetched, or its digest is another one; nothing of it stays.
    """
    target = folder / remote.name
    if target.exists() and file_digest(target) == sha256:
        return target
    part = target.with_name(target.name + ".part")
    try:
        found = await _download(remote.url, part)
        if found != sha256:
            raise DataError(f"{remote.url}: its SHA-256 is {found}, not {sha256}; the file was not kept")
        part.replace(target)
    except aiohttp.ClientError as error:
        raise DataError(f"{remote.url}: {error}") from None
    finally:
        part.unlink(missing_ok=True)
    return target


async def _download(url: str, part: Path) -> str:
    digest = hashlib.sha256()
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    with part.open("wb") as output:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, raise_for_status=True) as answer:
            async for chunk in answer.content.iter_chunked(CHUNK):
                digest.update(chunk)
                output.write(chunk)
    return digest.hexdigest()


def _list(_: Namespace) -> None:
    rows = [
        (
            one.name,
            one.title,
            one.licence,
            one.kind or "-",
            "\n".join(file.url for file in one.files) or "normalised files",
        )
        for one in DATASETS
    ]
    print_table("Data sets", ("name", "title", "licence of the texts", "kind", "from"), rows)


def _get(arguments: Namespace) -> None:
    known = dataset(arguments.name)
    folder: Path = arguments.to / known.name
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for file, digest in zip(known.files, _digests(known, arguments.sha256), strict=True):
        target = asyncio.run(fetch(file, folder, digest))
        if target.name.endswith(".tar.gz"):
            with tarfile.open(target) as archive:
                archive.extractall(folder, filter="data")
        rows.append((target.name, digest))
    print_table(f"{known.title}, licence of the texts: {known.licence}", ("file", "sha256"), rows)


def _digests(known: DataSet, given: list[str]) -> list[str]:
    pinned = [file.sha256 for file in known.files]
    if None not in pinned:
        return [digest for digest in pinned if digest is not None]
    if len(given) != len(known.files):
        names = ", ".join(file.name for file in known.files)
        raise DataError(
            f"no digest of {names} is pinned here, because none could be checked: "
            "give --sha256 with one for each file, from a source that you trust"
        )
    return [digest.lower() for digest in given]


def _sessions(arguments: Namespace) -> None:
    arguments.to.mkdir(parents=True, exist_ok=True)
    rows = []
    for source in sources_of(arguments):
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
