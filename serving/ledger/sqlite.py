"""The ledger in a SQLite file: one process, or several on one machine, and it survives a restart."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from guard.authorship import Author
from guard.errors import SettingsError, StoreError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS authorship (
    key BLOB NOT NULL, model TEXT NOT NULL, backend TEXT NOT NULL, requested TEXT NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (key, model)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS authorship_at ON authorship (at);
"""
_PRUNE_EVERY = 1000
"""Writes between two prunings: the file can exceed its bound by this many rows."""
_KEYS_A_QUERY = 500
T = TypeVar("T")


class SqliteLedger:
    """Authors by key in one file, at most ``capacity`` rows, each for ``ttl_s`` seconds; works on its own thread."""

    def __init__(self, path: str, capacity: int, ttl_s: float, clock: Callable[[], float] = time.time) -> None:
        """Open the file.

        Raises:
            SettingsError: it cannot be opened.
        """
        self._capacity = capacity
        self._ttl_s = ttl_s
        self._clock = clock
        self._writes = 0
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=2000"):
                self._connection.execute(f"PRAGMA {pragma}")
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise SettingsError(f"ledger.url: cannot open {path}: {error}") from None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="authorship")

    async def record(self, keys: Sequence[bytes], author: Author) -> None:
        await self._run(self._record, keys, author)

    async def lookup(self, keys: Sequence[bytes]) -> list[tuple[Author, ...]]:
        return await self._run(self._lookup, keys)

    async def close(self) -> None:
        self._thread.shutdown()
        self._connection.close()

    async def _run(self, function: Callable[..., T], *arguments: object) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)
        except sqlite3.Error as error:
            raise StoreError(f"authorship ledger: {type(error).__name__}") from error

    def _record(self, keys: Sequence[bytes], author: Author) -> None:
        rows = [(key, author.model, author.backend, author.requested, author.at) for key in keys]
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany("INSERT OR REPLACE INTO authorship VALUES (?, ?, ?, ?, ?)", rows)
            self._writes += len(rows)
            if self._writes >= _PRUNE_EVERY:
                self._writes = 0
                self._prune()
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _prune(self) -> None:
        self._connection.execute("DELETE FROM authorship WHERE at <= ?", (self._clock() - self._ttl_s,))
        (count,) = self._connection.execute("SELECT count(*) FROM authorship").fetchone()
        if count > self._capacity:
            self._connection.execute(
                "DELETE FROM authorship WHERE (key, model) IN (SELECT key, model FROM authorship ORDER BY at LIMIT ?)",
                (count - self._capacity,),
            )

    def _lookup(self, keys: Sequence[bytes]) -> list[tuple[Author, ...]]:
        found: dict[bytes, list[Author]] = {}
        oldest = self._clock() - self._ttl_s
        for start in range(0, len(keys), _KEYS_A_QUERY):
            some = keys[start : start + _KEYS_A_QUERY]
            marks = ",".join("?" * len(some))
            query = f"SELECT key, model, backend, at, requested FROM authorship WHERE at > ? AND key IN ({marks})"  # noqa: S608 - marks alone
            for key, *values in self._connection.execute(query, (oldest, *some)):
                found.setdefault(key, []).append(Author(*values))
        return [tuple(found.get(key, ())) for key in keys]
