"""From scores to decisions: the threshold, the resume threshold, and probabilities that can be read as such.

The threshold is set to a false-reset rate and not to F1: wanted history that is lost hurts a user more than unwanted
history that is carried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True)
class Scaling:
    """p = sigmoid(logit / temperature + bias)."""

    temperature: float = 1.0
    bias: float = 0.0


def fit_scaling(logits: Sequence[float], labels: Sequence[bool], steps: int = 200) -> Scaling:
    """Platt's scaling (1999) by Newton steps, with his smoothed targets, so that few or separable data do no harm.

    Where the fit would turn the order of the scores around, or there is one class alone, nothing is scaled.
    """
    pivots = sum(labels)
    others = len(labels) - pivots
    if not pivots or not others:
        return Scaling()
    targets = [(pivots + 1) / (pivots + 2) if label else 1 / (others + 2) for label in labels]
    slope, bias = 1.0, 0.0
    loss = _loss(logits, targets, slope, bias)
    for _ in range(steps):
        change = _newton(logits, targets, slope, bias)
        moved = _descend(logits, targets, (slope, bias), change, loss)
        if moved is None:
            break
        slope, bias, loss = moved
    sound = math.isfinite(slope) and math.isfinite(bias) and 0.01 < slope < 100
    return Scaling(1 / slope, bias) if sound else Scaling()


def _descend(
    logits: Sequence[float],
    targets: Sequence[float],
    start: tuple[float, float],
    change: tuple[float, float],
    loss: float,
) -> tuple[float, float, float] | None:
    """The greatest halving of a step that lessens the loss, with the new loss; None at the bottom."""
    for halvings in range(30):
        slope, bias = (value + step / 2**halvings for value, step in zip(start, change, strict=True))
        found = _loss(logits, targets, slope, bias)
        if found < loss - 1e-10:
            return slope, bias, found
    return None


def _loss(logits: Sequence[float], targets: Sequence[float], slope: float, bias: float) -> float:
    """Mean cross-entropy."""
    scaled = (slope * logit + bias for logit in logits)
    losses = (
        max(x, 0.0) - x * target + math.log1p(math.exp(-abs(x))) for x, target in zip(scaled, targets, strict=True)
    )
    return sum(losses) / len(targets)


def _newton(logits: Sequence[float], targets: Sequence[float], slope: float, bias: float) -> tuple[float, float]:
    """One step towards the least cross-entropy; the 1e-9 keeps the matrix regular."""
    gradient_slope = gradient_bias = 0.0
    slope_slope = slope_bias = bias_bias = 1e-9
    for logit, target in zip(logits, targets, strict=True):
        probability = 1 / (1 + math.exp(-max(-30.0, min(30.0, slope * logit + bias))))
        spread = probability * (1 - probability)
        gradient_slope += (probability - target) * logit
        gradient_bias += probability - target
        slope_slope += spread * logit * logit
        slope_bias += spread * logit
        bias_bias += spread
    determinant = slope_slope * bias_bias - slope_bias * slope_bias or 1e-9
    return (
        -(bias_bias * gradient_slope - slope_bias * gradient_bias) / determinant,
        -(slope_slope * gradient_bias - slope_bias * gradient_slope) / determinant,
    )
