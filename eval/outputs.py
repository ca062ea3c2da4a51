"""Places that a command writes to, found to be writable before any work is done."""

from __future__ import annotations

from pathlib import Path

from eval.errors import DataError


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
