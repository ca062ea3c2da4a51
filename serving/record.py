"""What is known of one request when it is over; metrics, logs and traces are all made from it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from guard.conversation import Conversation
from guard.handoff import ModelHandoff
from serving.decision import Decision


class Outcome(StrEnum):
    """How a request ended."""

    OK = "ok"
    """The backend's answer went through, whatever its status."""
    CUT = "cut"
    """The backend broke off its answer."""
    GONE = "client_gone"
    """The client left first."""
    FAILED = "failed"
    """The proxy answered with an error of its own."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a target, and its HTTP status or the slug of what went wrong."""

    backend: str
    model: str
    result: str


@dataclass(slots=True)
class RequestRecord:
    """Filled in while the request is served. Times are seconds; 0 where a stage was not reached.

    Attributes:
        route: ``chat`` or ``responses`` for what is guarded, else ``other``.
        path: part below ``/v1``; the query is left out, it may hold a key.
        model: as requested.
        backend: name of the backend it went to last.
        answered: the model that this backend was asked for; differs from ``model`` after an alias or a fallback.
        fell_back: whether another target than the preferred one answered.
        attempts: every try, in order; of guarded requests and of the list of models.
        handoff: set when another model than wrote the history answered.
        conversation: set for guarded requests that could be read.
        decision: set for guarded requests.
        status: HTTP status that the client got; 0 when it left before one.
        outcome: how it ended.
        overhead_s: from the end of the request's body to the request upstream.
        first_byte_s: from the request upstream to the first byte of the answer's body.
        upstream_s: from the request upstream to the end of its answer.
        total_s: all of it.
        traceparent: the trace that the client put the request in; empty: none.
    """

    method: str
    path: str
    route: str = "other"
    model: str = ""
    backend: str = ""
    answered: str = ""
    fell_back: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    handoff: ModelHandoff | None = None
    conversation: Conversation | None = None
    decision: Decision | None = None
    status: int = 0
    outcome: Outcome = Outcome.OK
    overhead_s: float = 0.0
    first_byte_s: float = 0.0
    upstream_s: float = 0.0
    total_s: float = 0.0
    traceparent: str = ""
    started: float = field(default_factory=time.perf_counter)

    def tokens(self, positions: Sequence[int]) -> int:
        """Estimated prompt tokens of some of its messages."""
        return self.conversation.tokens(positions) if self.conversation else 0


class Observer(Protocol):
    """Learns of every request at its end. Must be quick: it runs on the event loop."""

    def finish(self, record: RequestRecord) -> None:
        """Take note of a finished request."""
        ...
