"""Memory in front of a store, so that the store is never in a request's way.

What this process relayed is known to it at once; the store hears of it in the background. The store is asked only for
what memory does not know, within a budget. A store that is down costs knowledge, counted, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from guard.authorship import Author
from guard.errors import StoreError
from guard.ports import AuthorshipLedger
from serving.ledger.memory import MemoryLedger

logger = logging.getLogger(__name__)

_FLUSH_S = 5.0


class LayeredLedger:
    """A ledger over two. Made inside a running event loop; ``close`` writes what is queued."""

    def __init__(
        self,
        front: MemoryLedger,
        store: AuthorshipLedger,
        *,
        budget_s: float,
        failed: Callable[[], None],
        queue: int = 10_000,
        rest_s: float = 5.0,
    ) -> None:
        """Put ``front`` before ``store``.

        Args:
            front: what this process knows.
            store: what all know, or what survives.
            budget_s: longest time that a request waits for the store.
            failed: called for every failure of the store.
            queue: messages that wait to be written; more are not written.
            rest_s: a store that failed is left alone for so long: to wait for it on every request would be a second
                failure.
        """
        self._front = front
        self._store = store
        self._budget_s = budget_s
        self._failed = failed
        self._rest_s = rest_s
        self._resting_until = 0.0
        self._queue: asyncio.Queue[tuple[Sequence[bytes], Author]] = asyncio.Queue(queue)
        self._writer = asyncio.get_running_loop().create_task(self._write())

    async def record(self, keys: Sequence[bytes], author: Author) -> None:
        await self._front.record(keys, author)
        try:
            self._queue.put_nowait((keys, author))
        except asyncio.QueueFull:
            self._note("authorship ledger is full, a message is not remembered")

    async def lookup(self, keys: Sequence[bytes]) -> list[tuple[Author, ...]]:
        known = await self._front.lookup(keys)
        missing = [key for key, authors in zip(keys, known, strict=True) if not authors]
        if not missing or time.monotonic() < self._resting_until:
            return known
        try:
            async with asyncio.timeout(self._budget_s):
                found = dict(zip(missing, await self._store.lookup(missing), strict=True))
        except (StoreError, TimeoutError) as error:
            self._rest(error)
            return known
        for key, authors in found.items():
            for author in authors:
                self._front.put(key, author)
        return [authors or found.get(key, ()) for key, authors in zip(keys, known, strict=True)]

    async def close(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_S):
                await self._queue.join()
        self._writer.cancel()
        with suppress(asyncio.CancelledError):
            await self._writer
        if lost := self._queue.qsize():
            logger.error("authorship lost at stop", extra={"fields": {"messages": lost}})
        await self._store.close()

    async def _write(self) -> None:
        while True:
            keys, author = await self._queue.get()
            try:
                await self._write_until_done(keys, author)
            finally:
                self._queue.task_done()

    async def _write_until_done(self, keys: Sequence[bytes], author: Author) -> None:
        while not await self._written(keys, author):  # noqa: ASYNC110 - nothing tells when a store is back
            await asyncio.sleep(self._rest_s)

    async def _written(self, keys: Sequence[bytes], author: Author) -> bool:
        try:
            await self._store.record(keys, author)
        except StoreError as error:
            self._rest(error)
            return False
        return True

    def _rest(self, error: Exception) -> None:
        if time.monotonic() < self._resting_until:
            self._failed()
            return
        self._resting_until = time.monotonic() + self._rest_s
        self._note("authorship ledger cannot be reached", type(error).__name__)

    def _note(self, message: str, error: str = "") -> None:
        self._failed()
        logger.warning(message, extra={"fields": {"error": error}})
