"""Fetching a data set's files, each held to the digest that is known of it.

A digest is pinned in the registry, given by the user, or recorded beside the file when it was first fetched (in the
format of ``sha256sum``, so that ``sha256sum --check`` reads it). A file of which none is known is fetched only when the
user says that what comes first is to be trusted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from eval.datasets.registry import DataSet, RemoteFile
from eval.errors import DataError
from eval.records import file_digest

CHUNK = 1 << 20
TIMEOUT_S = 3600
DIGEST = re.compile("[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True)
class Pin:
    """The digest that a file is held to, None if there is none, and whence it is known, in words."""

    sha256: str | None
    origin: str


def pins(known: DataSet, folder: Path, given: Sequence[str], *, trust_first: bool) -> list[Pin]:
    """What each file of a data set is held to.

    Args:
        known: the data set.
        folder: where its files are, or will be.
        given: digests by the user for the files without a pinned one, in order; or none.
        trust_first: whether a file of which no digest is known may be fetched.

    Raises:
        DataError: what is given or recorded is no digest or fits nothing, or a file has none; the message says what can
            be done.
    """
    unpinned = [file for file in known.files if file.sha256 is None]
    if given and len(given) != len(unpinned):
        wanted = ", ".join(file.name for file in unpinned) or "no file: all are pinned"
        raise DataError(f"--sha256: {len(given)} given; wanted is one for each of {wanted}")
    if not all(DIGEST.fullmatch(digest) for digest in given):
        raise DataError("--sha256: a digest is 64 hexadecimal digits")
    by_user = dict(zip((file.name for file in unpinned), given, strict=False))
    found = [_pin(file, folder, by_user.get(file.name)) for file in known.files]
    unknown = [file for file, pin in zip(known.files, found, strict=True) if pin.sha256 is None]
    if unknown and not trust_first:
        raise DataError(_unknown(known, unknown, folder))
    return found


async def fetch(remote: RemoteFile, folder: Path, pin: Pin) -> str:
    """Fetch a file into ``folder``, unless it is there with the right digest, and return its digest.

    Where the registry pins none, the digest is recorded beside the file.

    Raises:
        DataError: it cannot be fetched, or its digest is another one; nothing of it stays.
    """
    target = folder / remote.name
    found = pin.sha256
    if found is None or not target.exists() or file_digest(target) != found:
        found = await _fetched(remote, target, pin)
    if remote.sha256 is None:
        _record(target).write_text(f"{found}  {target.name}\n", encoding="utf-8")
    return found


async def _fetched(remote: RemoteFile, target: Path, pin: Pin) -> str:
    part = target.with_name(target.name + ".part")
    try:
        found = await _download(remote.url, part)
        if pin.sha256 not in (None, found):
            raise DataError(
                f"{remote.url}: its SHA-256 is {found}, not {pin.sha256} ({pin.origin}); the file was not kept"
            )
        part.replace(target)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise DataError(f"{remote.url}: {str(error) or 'no answer in time'}") from None
    finally:
        part.unlink(missing_ok=True)
    return found


async def _download(url: str, part: Path) -> str:
    part.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    with part.open("wb") as output:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, raise_for_status=True) as answer:
            async for chunk in answer.content.iter_chunked(CHUNK):
                digest.update(chunk)
                output.write(chunk)
    return digest.hexdigest()


def _pin(file: RemoteFile, folder: Path, given: str | None) -> Pin:
    if file.sha256 is not None:
        return Pin(file.sha256, "pinned by guard-eval")
    if given is not None:
        return Pin(given.lower(), "given with --sha256")
    record = _record(folder / file.name)
    if record.exists():
        return Pin(
            _recorded(record), f"recorded in {record} when it was first fetched: delete that to accept a new version"
        )
    return Pin(None, "first seen, checked by nobody")


def _recorded(record: Path) -> str:
    first = record.read_text(encoding="utf-8", errors="replace").split(maxsplit=1)[:1]
    if not first or not DIGEST.fullmatch(first[0]):
        raise DataError(f"{record}: holds no digest as sha256sum writes it; delete it to accept a new version")
    return first[0].lower()


def _record(target: Path) -> Path:
    return target.with_name(target.name + ".sha256")


def _unknown(known: DataSet, files: Sequence[RemoteFile], folder: Path) -> str:
    return (
        f"no digest is known of {', '.join(file.name for file in files)}: none could be had when guard-eval was "
        "written, so nothing would notice a changed or damaged file. Nothing was fetched. Either\n"
        "  --sha256 HEX ...   holds the files to digests that you have from a source you trust, or\n"
        f"  --trust-first      takes what {files[0].host} sends now, prints the digests, records them in "
        f"{folder}/*.sha256\n"
        "                     and holds every later fetch to them. Run cards name them too: compare with others'.\n"
        f"Files that you have already need no fetching: --data {known.name}=FILE"
    )
