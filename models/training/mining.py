"""Hard samples: what the gate of the last round still gets wrong, or nearly so, among freshly drawn ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

from models.training.samples import BETWEEN, Sample

NOISY = ("natural_chat", "middle", "parts", BETWEEN)
"""Recipes whose labels hold only mostly: their worst samples are as often mislabelled as hard, and are left out."""


def hard(samples: Sequence[Sample], logits: Sequence[float], threshold: float, margin: float = 1.5) -> list[int]:
    """Positions of refinements above, and pivots below, a band around the threshold; of noisy recipes the band alone.

    Args:
        samples: freshly drawn ones.
        logits: the gate's answers.
        threshold: logit from which a turn is a pivot.
        margin: half the width of the band.
    """
    return [
        position
        for position, (sample, logit) in enumerate(zip(samples, logits, strict=True))
        if sample.target in (0.0, 1.0) or sample.recipe.startswith(NOISY)
        if 0 < _wrong_by(sample, logit, threshold, margin) < _limit(sample, margin)
    ]


def _wrong_by(sample: Sample, logit: float, threshold: float, margin: float) -> float:
    return logit - (threshold - margin) if sample.target < 0.5 else (threshold + margin) - logit


def _limit(sample: Sample, margin: float) -> float:
    return 2 * margin if sample.recipe.startswith(NOISY) else math.inf
