from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from eval.cli import main
from eval.data_command import get
from eval.datasets.registry import DATASETS, DataSet, RemoteFile, dataset, load_source
from eval.download import Pin, fetch, pins
from eval.errors import DataError
from eval.sessions import read_sessions
from tests.backend import Received, Wire
from tests.eval.test_chat_client import served

BODY = b"a data set"
DIGEST = hashlib.sha256(BODY).hexdigest()
OTHER = "0" * 64
PINNED = Pin(DIGEST, "pinned")


@asynccontextmanager
async def _remote(status: int = 200, body: bytes = BODY, name: str = "set.json") -> AsyncIterator[RemoteFile]:
    async def script(request: Received, wire: Wire) -> None:
        await wire.answer(body, status)

    async with served(script) as backend:
        yield RemoteFile(f"http://127.0.0.1:{backend.port}/files/{name}")


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_a_file_with_the_right_digest_is_kept(tmp_path: Path) -> None:
    """A file whose digest is right is kept under its name, and not fetched again."""
    async with _remote() as remote:
        assert await fetch(remote, tmp_path, PINNED) == DIGEST
    assert (tmp_path / remote.name).read_bytes() == BODY
    assert await fetch(remote, tmp_path, PINNED) == DIGEST  # the server is gone


async def test_a_file_with_another_digest_is_not(tmp_path: Path) -> None:
    """A file that is not what was pinned leaves nothing behind, and the message says whence the digest is."""
    async with _remote() as remote:
        with pytest.raises(DataError, match=f"its SHA-256 is {DIGEST}, not {OTHER} .given by hand"):
            await fetch(remote, tmp_path, Pin(OTHER, "given by hand"))
    assert _files(tmp_path) == []


async def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """A server that does not have it is named, and nothing is left behind."""
    async with _remote(404) as remote:
        with pytest.raises(DataError, match="404"):
            await fetch(remote, tmp_path, PINNED)
    assert _files(tmp_path) == []


async def test_what_was_trusted_first_is_held_to_later(tmp_path: Path) -> None:
    """A first fetch on trust records its digest as sha256sum does; another content is refused until that is deleted."""
    async with _remote() as remote:
        known = DataSet("d", "D", "MIT", files=(remote,))
        (unknown,) = pins(known, tmp_path, [], trust_first=True)
        assert await fetch(remote, tmp_path, unknown) == DIGEST
    record = tmp_path / f"{remote.name}.sha256"
    assert record.read_text() == f"{DIGEST}  {remote.name}\n"
    (recorded,) = pins(known, tmp_path, [], trust_first=False)
    assert recorded.sha256 == DIGEST
    (tmp_path / remote.name).unlink()
    async with _remote(body=b"changed") as changed:
        with pytest.raises(DataError, match="delete that to accept a new version"):
            await fetch(changed, tmp_path, recorded)
        record.unlink()
        (unknown,) = pins(known, tmp_path, [], trust_first=True)
        await fetch(changed, tmp_path, unknown)
    assert (tmp_path / remote.name).read_bytes() == b"changed"


async def test_an_archive_is_unpacked(tmp_path: Path) -> None:
    """An archive of MSC's session files is fetched, unpacked, and loads under its name."""
    line = {"dialog": [{"id": "Speaker 1", "text": "hi"}], "metadata": {"initial_data_id": "valid_0"}}
    member = tarfile.TarInfo("msc/msc_dialogue/session_3/valid.txt")
    text = json.dumps(line).encode()
    member.size = len(text)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.addfile(member, io.BytesIO(text))
    body = archive.getvalue()
    async with _remote(body=body, name="msc.tar.gz") as remote:
        known = replace(dataset("msc"), files=(replace(remote, sha256=hashlib.sha256(body).hexdigest()),))
        rows = await get(known, tmp_path / "msc", [], trust_first=False)
    assert [(name, origin) for name, _, origin in rows] == [("msc.tar.gz", "pinned by guard-eval")]
    (loaded,) = load_source("msc", tmp_path / "msc").conversations
    assert loaded.exchanges[0].user == "hi"


def test_digests_given_fill_what_is_not_pinned(tmp_path: Path) -> None:
    """Digests of the command line are for the files without a pinned one, in order, and go before a record."""
    files = (RemoteFile("http://h/a"), RemoteFile("http://h/b", OTHER), RemoteFile("http://h/c"))
    known = DataSet("d", "D", "MIT", files=files)
    (tmp_path / "a.sha256").write_text(f"{OTHER}  a\n")
    held_to = pins(known, tmp_path, [DIGEST.upper(), OTHER], trust_first=False)
    assert [pin.sha256 for pin in held_to] == [DIGEST, OTHER, OTHER]
    for wrong in ([DIGEST], ["abc", DIGEST], ["z" * 64, DIGEST]):
        with pytest.raises(DataError, match="--sha256"):
            pins(known, tmp_path, wrong, trust_first=False)


@pytest.mark.parametrize("content", [b"", b"\n", b"garbage", b"\xff\xfe", OTHER[:-1].encode()])
def test_a_damaged_record_is_an_error_before_anything_is_fetched(tmp_path: Path, content: bytes) -> None:
    """A record without a digest is named, and what can be done."""
    known = DataSet("d", "D", "MIT", files=(RemoteFile("http://h/a"),))
    (tmp_path / "a.sha256").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.sha256: holds no digest .* delete it"):
        pins(known, tmp_path, [], trust_first=True)


async def test_an_archive_that_is_none_is_an_error(tmp_path: Path) -> None:
    """What was fetched under an archive's name and is none is named."""
    async with _remote(name="set.tar.gz") as remote:
        known = DataSet("d", "D", "MIT", files=(replace(remote, sha256=DIGEST),))
        with pytest.raises(DataError, match=r"set\.tar\.gz: cannot be unpacked"):
            await get(known, tmp_path, [], trust_first=False)


def test_nothing_is_trusted_unseen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no digest is known nothing is fetched: status 2, and what can be done."""
    assert main(["data", "get", "topiocqa", "--to", str(tmp_path / "data")]) == 2
    said = capsys.readouterr().err
    assert all(word in said for word in ("topiocqa_valid.jsonl", "--sha256", "--trust-first", "--data topiocqa=FILE"))
    assert _files(tmp_path) == []


def test_digests_are_pinned_where_one_is_known() -> None:
    """MSC and CoQA are pinned, so that getting them needs no word of trust."""
    assert {one.name for one in DATASETS if one.files and all(f.sha256 for f in one.files)} == {"msc", "coqa"}


def test_the_list_names_licences(capsys: pytest.CaptureFixture[str]) -> None:
    """The list shows what each data set may be used for."""
    assert main(["data", "list"]) == 0
    assert "CC BY-NC-SA 4.0" in capsys.readouterr().out


def test_sessions_are_written_as_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sessions can be had as files without a gate, with the statistics of the paper's table."""
    words = ["data", "sessions", "--sample", "--variants", "v1", "v3", "--pivot-turns", "2", "--sessions", "5"]
    assert main([*words, "--to", str(tmp_path)]) == 0
    assert len(list(read_sessions(tmp_path / "mtrag_un-v1.jsonl.gz"))) == 5
    assert "mtrag_un-v3.jsonl.gz" in capsys.readouterr().out
