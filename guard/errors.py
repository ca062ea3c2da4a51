"""Errors of the guard, grouped by what the caller can do about them.

    GuardError
    ├── SettingsError      the operator must correct a setting
    ├── ArtifactError      the operator must supply another gate artifact
    ├── UnreadableChat     the request goes to the backend untouched; the backend judges it
    ├── StoreError         the request goes on without what the store would have known
    └── ScoringError       the request goes through unguarded, marked with ``reason``

Messages never quote chat text or keys.
"""

from __future__ import annotations


class GuardError(Exception):
    """Base of every error the project raises on purpose."""


class SettingsError(GuardError):
    """A setting is missing or out of range; the message names the key and what is allowed."""


class ArtifactError(GuardError):
    """A gate artifact is missing, damaged or of an unknown format; the message says what to do."""


class UnreadableChat(GuardError):  # noqa: N818 - reads as the state of the request
    """Valid JSON that is not a chat the guard understands.

    Attributes:
        reason: bounded slug for headers and metrics.
    """

    def __init__(self, message: str, reason: str = "unreadable") -> None:
        super().__init__(message)
        self.reason = reason


class StoreError(GuardError):
    """A store of remembered things cannot be reached, or does not answer in time."""


class ScoringError(GuardError):
    """The gate could not score a turn that it should have been able to score.

    Attributes:
        reason: bounded slug for headers and metrics, e.g. ``error``, ``timeout``, ``unavailable``.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
