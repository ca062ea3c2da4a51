"""Which backends a request may go to, in which order, and which are left alone for a while.

A model name leads to a route (an alias, or a pattern) with an ordered list of targets, or else to the backends that
serve the name. The first target answers; the others are for when it cannot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache

from serving.errors import ApiError
from serving.settings import RoutingSettings, Settings, serves
from serving.settings import Target as TargetSettings
from serving.upstream import Backend

_REMEMBERED_MODELS = 1024


@dataclass(frozen=True, slots=True)
class Target:
    """A backend, and the model that it is asked for.

    Attributes:
        rank: 0 for what the route prefers; a request that is answered by another one fell back.
    """

    backend: Backend
    model: str
    rank: int = 0


class Router:
    """Finds targets and remembers which backends failed. Used from the event loop alone."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.backends = tuple(Backend.of(backend, settings.timeouts) for backend in settings.backends)
        self.budget = RetryBudget(settings.routing)
        self.policy = settings.routing
        self._settings = settings
        self._by_name = {backend.name: backend for backend in self.backends}
        self._breakers = {backend.name: Breaker(settings.routing, clock) for backend in self.backends}
        # Requests name few models, and matching their patterns is a tenth of the work on a request.
        self._ranked = lru_cache(_REMEMBERED_MODELS)(self._rank)

    @classmethod
    def of(cls, settings: Settings) -> Router:
        """From the settings."""
        return cls(settings)

    def targets(self, model: str) -> tuple[Target, ...]:
        """Where a request for ``model`` may go, best first; backends that rest come last.

        Raises:
            ApiError: no backend serves the model.
        """
        return self.available_first(self._ranked(model))

    def _rank(self, model: str) -> tuple[Target, ...]:
        if not model:
            return (Target(self.backends[0], ""),)
        found = [target for wanted in self._wanted(model) for target in self._resolve(wanted)]
        if not found:
            raise no_such_model(model)
        return tuple(replace(target, rank=rank) for rank, target in enumerate(dict.fromkeys(found)))

    def available_first(self, targets: Sequence[Target]) -> tuple[Target, ...]:
        """The targets in their order, those whose backend rests behind the others: asked only if all else fails."""
        if len(targets) == 1:
            return tuple(targets)
        return tuple(sorted(targets, key=lambda target: self._breakers[target.backend.name].is_open))

    @property
    def chooses(self) -> bool:
        """Whether it makes a difference which model a request names."""
        return len(self.backends) > 1 or bool(self._settings.routes)

    def succeeded(self, backend: Backend) -> None:
        """Note that a backend answered."""
        self._breakers[backend.name].succeeded()

    def failed(self, backend: Backend) -> None:
        """Note that a backend could not be reached, broke, or answered with a fault of its own."""
        self._breakers[backend.name].failed()

    def is_resting(self, backend: str) -> bool:
        """Whether a backend is left alone at the moment."""
        return self._breakers[backend].is_open

    @property
    def model_names(self) -> frozenset[str]:
        """Models that the settings name, patterns left out: what metrics may be labelled with."""
        listed = [name for backend in self._settings.backends for name in backend.models]
        routed = [target.model for targets in self._settings.routes.values() for target in targets]
        return frozenset(name for name in (*listed, *routed) if not _is_pattern(name))

    @property
    def offered(self) -> dict[str, tuple[Target, ...]]:
        """Names that the settings give to clients, patterns left out, and where each leads: aliases, then models."""
        listed = [name for backend in self._settings.backends for name in backend.models]
        return {name: self._ranked(name) for name in (*self._settings.routes, *listed) if not _is_pattern(name)}

    def serves(self, backend: Backend, model: str) -> bool:
        """Whether a backend serves a model, as far as the settings know."""
        return any(serves(one, model) for one in self._settings.backends if one.name == backend.name)

    def _wanted(self, model: str) -> Sequence[TargetSettings]:
        routes = self._settings.routes
        if model in routes:
            return routes[model]
        matching = (targets for pattern, targets in routes.items() if fnmatchcase(model, pattern))
        return next(matching, [TargetSettings(model=model)])

    def _resolve(self, wanted: TargetSettings) -> list[Target]:
        if wanted.backend is not None:
            return [Target(self._by_name[wanted.backend], wanted.model)]
        return [
            Target(self._by_name[backend.name], wanted.model)
            for backend in self._settings.backends
            if serves(backend, wanted.model)
        ]


class Breaker:
    """Leaves a backend alone after several failures in a row, then lets one request try."""

    def __init__(self, settings: RoutingSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._failures = 0
        self._until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the backend rests."""
        return self._failures >= self._settings.breaker_failures and self._clock() < self._until

    def succeeded(self) -> None:
        """Close again."""
        self._failures = 0

    def failed(self) -> None:
        """Count a failure; the one that follows a rest begins the next rest at once."""
        self._failures += 1
        self._until = self._clock() + self._settings.breaker_s


class RetryBudget:
    """Keeps second attempts a small share of requests, so that trouble is not multiplied."""

    def __init__(self, settings: RoutingSettings) -> None:
        self._share = settings.retry_share
        self._most = float(settings.retry_burst)
        self._tokens = self._most

    def earn(self) -> None:
        """Count a request."""
        self._tokens = min(self._most, self._tokens + self._share)

    def spend(self) -> bool:
        """Take one attempt, if there is one left."""
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def _is_pattern(name: str) -> bool:
    return bool(set(name) & set("*?["))


def no_such_model(model: str) -> ApiError:
    """No backend serves the model, by the operator's patterns."""
    shown = model.encode("ascii", "replace").decode()[:100]
    return ApiError(404, f"No backend serves the model '{shown}'.", code="model_not_found", param="model")
