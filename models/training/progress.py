"""How far training is, and how long it will take."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)


class Progress:
    """Counts steps over all rounds and logs the time left now and then.

    Args:
        total: steps of the whole run.
        every: steps between two lines.
        clock: seconds, from anywhere.
    """

    def __init__(self, total: int, every: int = 25, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._every = every
        self._clock = clock
        self._done = 0
        self._worked = 0
        self._began = clock()

    def skip(self, steps: int) -> None:
        """Count steps that an earlier run made; they say nothing about the pace."""
        self._done += steps

    def step(self, loss: float) -> None:
        """Count a step."""
        self._done += 1
        self._worked += 1
        if self._done % self._every == 0 or self._done == self._total:
            log.info("step %d/%d, loss %.4f, %s left", self._done, self._total, loss, self.left())

    def left(self) -> str:
        """Time left at the pace so far, everything that was waited for included."""
        if not self._worked:
            return "unknown time"
        seconds = (self._clock() - self._began) / self._worked * (self._total - self._done)
        return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
