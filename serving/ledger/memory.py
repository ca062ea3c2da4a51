"""The ledger in process: bounded, with time to live, least recently used goes first."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from guard.authorship import Author

MODELS_A_KEY = 8
"""Models remembered for the same words; more of them would tell nothing more."""


class MemoryLedger:
    """Authors by key, at most ``capacity`` keys, each for ``ttl_s`` seconds after it was last said.

    A key costs about 300 bytes.
    """

    def __init__(self, capacity: int, ttl_s: float, clock: Callable[[], float] = time.time) -> None:
        self._capacity = capacity
        self._ttl_s = ttl_s
        self._clock = clock
        self._entries: OrderedDict[bytes, tuple[Author, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: bytes, author: Author) -> None:
        """Remember an author of a key."""
        others = tuple(known for known in self._entries.get(key, ()) if known.model != author.model)
        self._entries[key] = (*others[-(MODELS_A_KEY - 1) :], author)
        self._entries.move_to_end(key)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def get(self, key: bytes) -> tuple[Author, ...]:
        """The authors of a key that have not expired."""
        entry = self._entries.get(key)
        if entry is None:
            return ()
        oldest = self._clock() - self._ttl_s
        alive = tuple(author for author in entry if author.at > oldest)
        if alive:
            self._entries.move_to_end(key)
        else:
            del self._entries[key]
        return alive

    async def record(self, keys: Sequence[bytes], author: Author) -> None:
        for key in keys:
            self.put(key, author)

    async def lookup(self, keys: Sequence[bytes]) -> list[tuple[Author, ...]]:
        return [self.get(key) for key in keys]

    async def close(self) -> None:
        pass
