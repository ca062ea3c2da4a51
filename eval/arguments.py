"""What the commands' arguments must be: numbers within bounds, and places that can be written to."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

from eval.errors import DataError


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


def output_folder(path: Path) -> Path:
    """The folder, made if it is not there.

    Raises:
        DataError: something else is there, or it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path}: not a folder that can be written to ({error.strerror}); name another") from None
    return path


def output_file(path: Path) -> Path:
    """A file to be written, in a folder that is made if it is not there.

    Raises:
        DataError: it is a folder, or its folder cannot be made.
    """
    if path.is_dir():
        raise DataError(f"{path}: this is a folder; name a file in it")
    output_folder(path.parent)
    return path


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
