"""Numbers on command lines: types for argparse that say what is wanted."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    """The argparse type of whole numbers from ``least`` on."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise ArgumentTypeError(f"a whole number of at least {least} is wanted, not {text!r}")
        return value

    return number


natural = at_least(0)
positive = at_least(1)


def positive_number(text: str) -> float:
    """A finite number above 0: a rate, a duration."""
    value = _number(text)
    if not 0 < value < math.inf:
        raise ArgumentTypeError(f"a number above 0 is wanted, not {text!r}")
    return value


def probability(text: str) -> float:
    """A number from 0 to 1."""
    value = _number(text)
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"a number from 0 to 1 is wanted, not {text!r}")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
