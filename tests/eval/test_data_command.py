from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from eval.cli import main
from eval.data_command import fetch
from eval.datasets.registry import RemoteFile
from eval.errors import DataError
from eval.sessions import read_sessions
from tests.backend import Received, Wire
from tests.eval.test_chat_client import served

BODY = b"a data set"
DIGEST = hashlib.sha256(BODY).hexdigest()


@asynccontextmanager
async def _remote(status: int = 200) -> AsyncIterator[RemoteFile]:
    async def script(request: Received, wire: Wire) -> None:
        await wire.answer(BODY, status)

    async with served(script) as backend:
        yield RemoteFile(f"http://127.0.0.1:{backend.port}/files/set.json")


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_a_file_with_the_right_digest_is_kept(tmp_path: Path) -> None:
    """A file whose digest is right is kept under its name, and not fetched again."""
    async with _remote() as remote:
        target = await fetch(remote, tmp_path, DIGEST)
    assert target.read_bytes() == BODY
    assert await fetch(remote, tmp_path, DIGEST) == target  # the server is gone


async def test_a_file_with_another_digest_is_not(tmp_path: Path) -> None:
    """A file that is not what was pinned leaves nothing behind."""
    async with _remote() as remote:
        with pytest.raises(DataError, match=f"its SHA-256 is {DIGEST}"):
            await fetch(remote, tmp_path, "0" * 64)
    assert _files(tmp_path) == []


async def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """A server that does not have it is named, and nothing is left behind."""
    async with _remote(404) as remote:
        with pytest.raises(DataError, match="404"):
            await fetch(remote, tmp_path, DIGEST)
    assert _files(tmp_path) == []


def test_nothing_is_trusted_unseen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no digest is pinned the user must bring one: status 2, and what to do."""
    assert main(["data", "get", "topiocqa", "--to", str(tmp_path)]) == 2
    assert "--sha256" in capsys.readouterr().err


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
