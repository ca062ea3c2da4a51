"""Errors of training."""

from __future__ import annotations

from guard.errors import GuardError


class TrainingError(GuardError):
    """Data, base model or folder are not what training needs; the message says what to change."""
