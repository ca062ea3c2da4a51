"""Prometheus metrics. Every label is bounded: by the settings, by an enumeration, or by this module."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from guard.controller import Label
from guard.policy import Mode
from serving.record import Outcome, RequestRecord

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FAST = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_SLOW = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_TENTHS = tuple(tenth / 10 for tenth in range(1, 11))


class Metrics:
    """One registry for each proxy, so that two in a process do not share figures."""

    def __init__(self, backends: Sequence[str]) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._requests = Counter(
            "guard_requests",
            "Requests by route, mode and how they ended",
            ["route", "mode", "outcome"],
            registry=registry,
        )
        self._responses = Counter("guard_responses", "Answers by class of HTTP status", ["status"], registry=registry)
        self._decisions = Counter("guard_decisions", "Decisions on live turns", ["label", "mode"], registry=registry)
        self._bypasses = Counter("guard_bypasses", "Requests forwarded undecided", ["reason"], registry=registry)
        self._gate = Histogram(
            "guard_gate_seconds", "Time a request waited for its decision", buckets=_FAST, registry=registry
        )
        self._overhead = Histogram(
            "guard_overhead_seconds",
            "Time from a request's end to the request upstream",
            buckets=_FAST,
            registry=registry,
        )
        self._probability = Histogram(
            "guard_pivot_probability", "p(PIVOT) of live turns", buckets=_TENTHS, registry=registry
        )
        self._messages = Counter("guard_dropped_messages", "Messages left out of prompts", registry=registry)
        self._tokens = Counter("guard_dropped_tokens", "Estimated tokens left out of prompts", registry=registry)
        self._upstream = Histogram(
            "guard_upstream_seconds",
            "Time a backend took for its whole answer",
            ["backend"],
            buckets=_SLOW,
            registry=registry,
        )
        self._first = Histogram(
            "guard_time_to_first_token_seconds",
            "Time a backend took for the first byte of its answer's body",
            ["backend"],
            buckets=_SLOW,
            registry=registry,
        )
        self._up = Gauge(
            "guard_backend_up", "1 when the last contact with the backend went well", ["backend"], registry=registry
        )
        self.log_dropped = Counter("guard_log_dropped", "Handoff log rows lost to a full queue", registry=registry)
        self.log_errors = Counter("guard_log_errors", "Failed writes to the handoff log", registry=registry)
        self._log_queue = Gauge("guard_log_queue", "Handoff log rows that wait to be written", registry=registry)
        # Series exist from the start: a rate over a series that appears with its first event misses that event.
        for backend in backends:
            self._up.labels(backend)
        for label in Label:
            for mode in (Mode.ENFORCE, Mode.SHADOW):
                self._decisions.labels(label.value, mode.value)

    def finish(self, record: RequestRecord) -> None:
        """Count a finished request."""
        decision = record.decision
        self._requests.labels(record.route, decision.mode.value if decision else "none", record.outcome.value).inc()
        if record.status:
            self._responses.labels(f"{record.status // 100}xx").inc()
        if record.first_byte_s:
            self._upstream.labels(record.backend).observe(record.upstream_s)
            self._first.labels(record.backend).observe(record.first_byte_s)
            self.backend_up(record.backend, up=True)
        elif record.outcome is Outcome.FAILED and record.backend:
            self.backend_up(record.backend, up=False)
        if decision is not None:
            self._overhead.observe(record.overhead_s)
            self._decided(record)

    def _decided(self, record: RequestRecord) -> None:
        decision = record.decision
        if decision is None or decision.mode is Mode.OFF:
            return
        if decision.bypass:
            self._bypasses.labels(decision.bypass).inc()
        if decision.verdict is None:
            return
        self._gate.observe(decision.seconds)
        live = decision.verdict.live
        if live and live.probability is not None:
            self._probability.observe(live.probability)
        if decision.label:
            self._decisions.labels(decision.label, decision.mode.value).inc()
        if decision.applied:
            self._messages.inc(len(decision.dropped))
            self._tokens.inc(record.tokens(decision.dropped))

    def backend_up(self, backend: str, *, up: bool) -> None:
        """Note whether a backend could be reached."""
        self._up.labels(backend).set(int(up))

    def watch_log_queue(self, length: Callable[[], int]) -> None:
        """Read the gauge of the log's queue from ``length``."""
        self._log_queue.set_function(length)

    def render(self) -> bytes:
        """The page that Prometheus reads."""
        return generate_latest(self.registry)
