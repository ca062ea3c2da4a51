"""From scores to decisions: the threshold and the resume threshold.

The threshold is set to a false-reset rate and not to F1: wanted history that is lost hurts a user more than unwanted
history that is carried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def threshold_at(scores: Sequence[float], rate: float, highest: float = 1.0) -> float:
    """The least threshold at which at most ``rate`` of ``scores`` are at or above it, set halfway to the next score.

    Args:
        scores: of turns that should stay below the threshold, at least one.
        rate: share of them that may reach it.
        highest: what no score exceeds.
    """
    ranked = sorted(scores, reverse=True)
    allowed = math.floor(rate * len(ranked) + 1e-9)
    if allowed >= len(ranked):
        return ranked[-1]
    first_below = ranked[allowed]
    above = next((score for score in reversed(ranked[:allowed]) if score > first_below), highest)
    return max((first_below + above) / 2, math.nextafter(first_below, math.inf))


def resume_threshold_at(scores: Sequence[float], rate: float) -> float:
    """The greatest threshold below which at most ``rate`` of ``scores`` fall.

    Args:
        scores: p(PIVOT) of true pivots against the closed thread that each comes nearest to; none: nothing is resumed.
        rate: share of them that may be taken for returns.
    """
    return -threshold_at([-score for score in scores], rate, highest=0.0) if scores else 0.0
