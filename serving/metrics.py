"""Prometheus metrics. Every label is bounded: by the settings, by an enumeration, or by this module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
from serving.decision import Decision
from serving.record import Outcome, RequestRecord

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FAST = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_SLOW = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_TENTHS = tuple(tenth / 10 for tenth in range(1, 11))


class Series(dict[tuple[str, ...], Any]):
    """The series of a metric by their labels: a dictionary is four times as fast as the library's own look-up."""

    def __init__(self, metric: Counter | Gauge | Histogram) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: tuple[str, ...]) -> Any:  # noqa: ANN401 - a counter, gauge or histogram
        series = self[labels] = self._metric.labels(*labels)
        return series


class Metrics:
    """One registry for each proxy, so that two in a process do not share figures."""

    def __init__(self, backends: Sequence[str]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._requests = self._counters("requests", "Requests by how they ended", "route", "mode", "outcome")
        self._responses = self._counters("responses", "Answers by class of HTTP status", "status")
        self._decisions = self._counters("decisions", "Decisions on live turns", "label", "mode")
        self._bypasses = self._counters("bypasses", "Requests forwarded undecided", "reason")
        self._gate = self._histogram("gate_seconds", "Time a request waited for its decision", _FAST)
        self._overhead = self._histogram("overhead_seconds", "From a request's end to the request upstream", _FAST)
        self._probability = self._histogram("pivot_probability", "p(PIVOT) of live turns", _TENTHS)
        self._messages = self._counter("dropped_messages", "Messages left out of prompts")
        self._tokens = self._counter("dropped_tokens", "Estimated tokens left out of prompts")
        self._upstream = self._times("upstream_seconds", "Time a backend took for its whole answer")
        self._first = self._times("time_to_first_token_seconds", "Time to the first byte of an answer's body")
        self._up = Series(
            Gauge("guard_backend_up", "1: the last contact went well", ["backend"], registry=self.registry)
        )
        self.log_dropped = self._counter("log_dropped", "Handoff log rows lost to a full queue")
        self.log_errors = self._counter("log_errors", "Failed writes to the handoff log")
        self._log_queue = Gauge("guard_log_queue", "Handoff log rows not written yet", registry=self.registry)
        # Series exist from the start: a rate over a series that appears with its first event misses that event.
        for backend in backends:
            self._up[(backend,)].set(1)
        for label in Label:
            for mode in (Mode.ENFORCE, Mode.SHADOW):
                self._decisions[label.value, mode.value].inc(0)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"guard_{name}", text, registry=self.registry)

    def _counters(self, name: str, text: str, *labels: str) -> Series:
        return Series(Counter(f"guard_{name}", text, labels, registry=self.registry))

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(f"guard_{name}", text, buckets=buckets, registry=self.registry)

    def _times(self, name: str, text: str) -> Series:
        return Series(Histogram(f"guard_{name}", text, ["backend"], buckets=_SLOW, registry=self.registry))

    def finish(self, record: RequestRecord) -> None:
        """Count a finished request."""
        decision = record.decision
        self._requests[record.route, decision.mode.value if decision else "none", record.outcome.value].inc()
        if record.status:
            self._responses[(f"{record.status // 100}xx",)].inc()
        if record.first_byte_s:
            self._upstream[(record.backend,)].observe(record.upstream_s)
            self._first[(record.backend,)].observe(record.first_byte_s)
            self.backend_up(record.backend, up=True)
        elif record.outcome is Outcome.FAILED and record.backend:
            self.backend_up(record.backend, up=False)
        if decision is not None:
            self._overhead.observe(record.overhead_s)
            if decision.mode is not Mode.OFF:
                self._count_decision(decision, record)

    def _count_decision(self, decision: Decision, record: RequestRecord) -> None:
        if decision.bypass:
            self._bypasses[(decision.bypass,)].inc()
        if decision.verdict is None:
            return
        self._gate.observe(decision.seconds)
        live = decision.verdict.live
        if live and live.probability is not None:
            self._probability.observe(live.probability)
        if decision.label:
            self._decisions[decision.label, decision.mode.value].inc()
        if decision.applied:
            self._messages.inc(len(decision.dropped))
            self._tokens.inc(record.tokens(decision.dropped))

    def backend_up(self, backend: str, *, up: bool) -> None:
        """Note whether a backend could be reached."""
        self._up[(backend,)].set(int(up))

    def watch_log_queue(self, length: Callable[[], int]) -> None:
        """Read the gauge of the log's queue from ``length``."""
        self._log_queue.set_function(length)

    def render(self) -> bytes:
        """The page that Prometheus reads."""
        return generate_latest(self.registry)
