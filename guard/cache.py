"""The in-process ruling cache: bounded, least recently used goes first."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from guard.ports import Ruling


class LRURulingCache:
    """Rulings by prefix digest, at most ``capacity`` of them (about 200 bytes each)."""

    def __init__(self, capacity: int = 100_000) -> None:
        self._capacity = capacity
        self._rulings: OrderedDict[bytes, Ruling] = OrderedDict()
        self._lock = Lock()

    def get(self, key: bytes) -> Ruling | None:
        with self._lock:
            ruling = self._rulings.get(key)
            if ruling is not None:
                self._rulings.move_to_end(key)
            return ruling

    def put(self, key: bytes, ruling: Ruling) -> None:
        with self._lock:
            self._rulings[key] = ruling
            self._rulings.move_to_end(key)
            if len(self._rulings) > self._capacity:
                self._rulings.popitem(last=False)
