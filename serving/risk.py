"""The fitted risk of a change of model, as ``guard-eval switch-matrix`` writes it."""

from __future__ import annotations

import json
from pathlib import Path

from guard.errors import SettingsError
from guard.risk import Risk


def read_risk(file: str | None) -> Risk | None:
    """The decomposition in a file; None where no file is configured.

    Raises:
        SettingsError: it cannot be read, or is no decomposition.
    """
    if not file:
        return None
    try:
        tree = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"risk.file: cannot read {file}: {error.strerror}") from None
    except ValueError:
        raise SettingsError(f"risk.file: {file} is not JSON") from None
    if not isinstance(tree, dict):
        raise SettingsError(f"risk.file: {file} holds no decomposition")
    return Risk.from_dict(tree)
