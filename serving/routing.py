"""Which backend a request goes to."""

from __future__ import annotations

from collections.abc import Sequence

from serving.settings import Settings
from serving.upstream import Backend


class Router:
    """Chooses among the configured backends; so far it is the first one, whatever the model."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self.backends = tuple(backends)

    @classmethod
    def of(cls, settings: Settings) -> Router:
        """From the settings."""
        return cls([Backend.of(backend) for backend in settings.backends])

    def pick(self, model: str) -> Backend:
        """The backend for a model name; empty where the request names none."""
        del model
        return self.backends[0]
