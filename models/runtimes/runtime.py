"""The port that every runtime implements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Pair = tuple[str, str]
"""(history window, current turn), both already cut to fit the encoder."""


class PairRuntime(Protocol):
    """Runs the cross-encoder. Thread-safe; deterministic up to the tolerance stated for the runtime."""

    def logits(self, pairs: Sequence[Pair]) -> list[float]:
        """Raw logits of PIVOT, one a pair.

        Raises:
            ScoringError: the runtime could not answer.
        """
        ...

    def close(self) -> None:
        """Free threads and connections."""
        ...
