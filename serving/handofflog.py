"""The handoff log's writer: a bounded queue and one thread, off the path of every request.

A row is handed over in a microsecond or lost in the open: a full queue counts and says so, and never blocks or fails a
request. A store that is down is tried again until it is back or the queue is full. A clean stop writes what is queued.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Engine, insert
from sqlalchemy.exc import SQLAlchemyError

from guard.errors import StoreError
from serving.handoffs import Row, handoff_rows, handoffs
from serving.migrate import migrate
from serving.record import RequestRecord

logger = logging.getLogger(__name__)

_BATCH = 256
_PAUSE_S = 0.5
_POLL_S = 0.1
_WARN_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class LogCounters:
    """Called once for each row lost and each failed write."""

    dropped: Callable[[], None]
    errors: Callable[[], None]


class HandoffLog:
    """Takes rows from the event loop and writes them. ``start`` before use, ``close`` at the end."""

    def __init__(self, engine: Engine, capacity: int, counters: LogCounters, *, content: bool = False) -> None:
        self._engine = engine
        self._queue: queue.Queue[Row] = queue.Queue(capacity)
        self._counters = counters
        self._content = content
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="handoff-log", daemon=True)
        self._warned = -_WARN_EVERY_S
        self._ready = False
        self._writing = 0
        self._give_up_at = math.inf

    def waiting(self) -> int:
        """How many rows are not written yet."""
        return self._queue.qsize() + self._writing

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def finish(self, record: RequestRecord) -> None:
        """Log the handoffs that a request was, if it was any."""
        for row in handoff_rows(record, content=self._content):
            self.put(row)

    def put(self, row: Row) -> None:
        """Hand over a row; never waits."""
        try:
            self._queue.put_nowait(row)
        except queue.Full:
            self._counters.dropped()
            self._warn("handoff log is full, rows are lost")

    def close(self, patience_s: float = 3.0) -> None:
        """Write what is queued; give up once nothing was written for ``patience_s``."""
        self._give_up_at = time.monotonic() + patience_s
        self._stop.set()
        before = -1
        while self._thread.is_alive() and self.waiting() != before:
            before = self.waiting()
            self._thread.join(patience_s + _PAUSE_S + _POLL_S)
        if lost := self.waiting():
            logger.error("handoff log rows lost at stop", extra={"fields": {"rows": lost}})
        self._engine.dispose()

    def _run(self) -> None:
        with suppress(SQLAlchemyError, StoreError):
            self._make_ready()  # so that the log can be read before its first row; else with that row
        while True:
            batch = self._next_batch()
            if not batch and self._stop.is_set():
                return
            while batch and not self._write(batch):
                time.sleep(_PAUSE_S)
                if time.monotonic() > self._give_up_at:
                    return

    def _next_batch(self) -> list[Row]:
        batch: list[Row] = []
        try:
            batch.append(self._queue.get(timeout=_POLL_S))
            while len(batch) < _BATCH:
                batch.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        self._writing = len(batch)
        return batch

    def _write(self, batch: list[Row]) -> bool:
        try:
            self._make_ready()
            with self._engine.begin() as connection:
                connection.execute(insert(handoffs), batch)
        except (SQLAlchemyError, StoreError) as error:
            self._counters.errors()
            self._warn("handoff log cannot be written", type(error).__name__)
            return False
        self._writing = 0
        return True

    def _make_ready(self) -> None:
        if not self._ready:
            migrate(self._engine)
            self._ready = True

    def _warn(self, message: str, error: str = "") -> None:
        """Say it, but not once a request."""
        now = time.monotonic()
        if now - self._warned >= _WARN_EVERY_S:
            self._warned = now
            logger.warning(message, extra={"fields": {"error": error, "queued": self.waiting()}})
