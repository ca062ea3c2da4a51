"""Figures of model handoffs, of fallbacks and of what is known of histories, beside those of ``serving.metrics``."""

from __future__ import annotations

from collections.abc import Collection

from prometheus_client import CollectorRegistry, Counter, Histogram

from guard.handoff import ModelHandoff
from serving.metrics import Series
from serving.record import RequestRecord

OTHER = "other"
"""Label of every model that the settings do not name: names come from clients, and a label must be bounded."""
NOBODY = "none"
"""Prefix label of a handoff in which nothing foreign is forwarded any more."""

_RISK = (-0.5, -0.2, -0.1, -0.05, -0.02, -0.01, 0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


class HandoffMetrics:
    """An observer; ``models`` are the names that may be labels."""

    def __init__(self, registry: CollectorRegistry, models: Collection[str]) -> None:
        self._models = frozenset(models)
        self._handoffs = Counter(
            "guard_handoffs",
            "Answers by another model than wrote turns of the history",
            ["prefix_model", "suffix_model", "reason"],
            registry=registry,
        )
        self._foreign = Counter(
            "guard_foreign_turns", "Assistant messages by other models that were forwarded", registry=registry
        )
        self._risk = Histogram(
            "guard_handoff_risk", "Expected change of score, negative is harm", buckets=_RISK, registry=registry
        )
        self._mitigated = Counter(
            "guard_mitigated_handoffs", "Handoffs whose request was edited", ["policy"], registry=registry
        )
        self._turns = Counter("guard_history_turns", "Assistant messages of histories", ["author"], registry=registry)
        attempts = "Tries at backends by class of status, or fault"
        self._attempts = Series(Counter("guard_attempts", attempts, ["backend", "result"], registry=registry))
        self._fallbacks = Counter(
            "guard_fallbacks", "Requests answered by another target than the preferred one", registry=registry
        )
        self.ledger_errors = Counter("guard_ledger_errors", "Failures of the ledger's store", registry=registry)
        for author in ("known", "unknown"):
            self._turns.labels(author)

    def finish(self, record: RequestRecord) -> None:
        """Count a finished request."""
        for attempt in record.attempts:
            result = f"{attempt.result[0]}xx" if attempt.result.isdigit() else attempt.result
            self._attempts[attempt.backend, result].inc()
        if record.fell_back:
            self._fallbacks.inc()
        if record.handoff is not None:
            self._handed_over(record.handoff)

    def attributed(self, known: int, unknown: int) -> None:
        """Count the assistant messages of a history by whether their author is known."""
        self._turns.labels("known").inc(known)
        self._turns.labels("unknown").inc(unknown)

    def _handed_over(self, handoff: ModelHandoff) -> None:
        prefix = NOBODY if handoff.cleared else self._label(handoff.prefix_model)
        self._handoffs.labels(prefix, self._label(handoff.model), handoff.reason.value).inc()
        self._foreign.inc(handoff.foreign)
        for policy in handoff.mitigations:
            self._mitigated.labels(policy).inc()
        if handoff.risk is not None:
            self._risk.observe(handoff.risk)

    def _label(self, model: str) -> str:
        return model if model in self._models else OTHER
