"""What the operator and the request may choose about guarding."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """How far the guard goes."""

    ENFORCE = "enforce"
    """Decide, log, and forward only what belongs to the turn."""
    SHADOW = "shadow"
    """Decide and log, forward everything."""
    OFF = "off"
    """Forward everything, decide nothing."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Choices that decisions depend on; with the messages and the model they determine every decision.

    Attributes:
        mode: enforce, shadow or off.
        threshold: p(PIVOT) from which a turn is a PIVOT; None: the gate's calibrated one.
        resume: whether a PIVOT that refines a closed thread gets that thread back.
        resume_depth: how many closed threads, most recently used first, are asked about.
        standing: whether standing instructions given in earlier topics stay.
        pin: number of first exchanges that always stay (few-shot examples).
        budget: estimated tokens of history that a REFINE may carry; None: no limit.
        recent: exchanges that a budget never cuts, counted from the newest.
    """

    mode: Mode = Mode.ENFORCE
    threshold: float | None = None
    resume: bool = True
    resume_depth: int = 4
    standing: bool = True
    pin: int = 0
    budget: int | None = None
    recent: int = 4
