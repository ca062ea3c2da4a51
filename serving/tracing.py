"""OpenTelemetry traces of guarded requests, named by the conventions for generative AI.

A request is one span, with a child for the guard's decision; it hangs under the client's span where the request has a
``traceparent``. No message text: the conventions' content attributes are left out.
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from guard.errors import SettingsError
from serving.record import Outcome, RequestRecord

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_NANO = 1_000_000_000
_OPERATIONS = {"chat": "chat", "responses": "chat"}


class Tracing:
    """Makes spans from finished requests and exports them in the background. ``close`` sends the last ones."""

    def __init__(self, exporter: SpanExporter) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = TracerProvider(resource=Resource.create({"service.name": "pivot-guard"}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("pivot-guard")
        self._propagator = TraceContextTextMapPropagator()

    def finish(self, record: RequestRecord) -> None:
        """Trace a finished request."""
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        if record.route not in _OPERATIONS:
            return
        end = time.time_ns()
        start = end - int(record.total_s * _NANO)
        parent = self._propagator.extract({"traceparent": record.traceparent}) if record.traceparent else None
        name = f"{_OPERATIONS[record.route]} {record.model}".rstrip()
        span = self._tracer.start_span(name, parent, SpanKind.CLIENT, _attributes(record), start_time=start)
        if error := _error(record):
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        if record.decision is not None:
            inner = set_span_in_context(span)
            child = self._tracer.start_span("guard.decide", inner, attributes=_judgement(record), start_time=start)
            child.end(start + int(record.overhead_s * _NANO))
        span.end(end)

    def close(self) -> None:
        """Export what is left."""
        self._provider.shutdown()


def open_tracing(endpoint: str | None) -> Tracing | None:
    """Tracing to an OTLP/HTTP collector; None without an endpoint.

    Raises:
        SettingsError: the libraries are not installed.
    """
    if endpoint is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise SettingsError("otel.endpoint: OpenTelemetry is not installed; pip install 'pivot-guard[otel]'") from None
    return Tracing(OTLPSpanExporter(endpoint.rstrip("/").removesuffix("/v1/traces") + "/v1/traces"))


def _attributes(record: RequestRecord) -> dict[str, str | int | float]:
    attributes: dict[str, str | int | float] = {
        "gen_ai.operation.name": _OPERATIONS[record.route],
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": record.model,
        "guard.backend": record.backend,
        "guard.outcome": record.outcome.value,
    }
    if record.status:
        attributes["http.response.status_code"] = record.status
    if record.first_byte_s:
        attributes["gen_ai.response.time_to_first_chunk"] = record.first_byte_s
    return attributes


def _judgement(record: RequestRecord) -> dict[str, str | int | float]:
    decision = record.decision
    if decision is None:
        return {}
    return {
        "guard.decision_id": decision.id,
        "guard.mode": decision.mode.value,
        "guard.status": decision.status,
        "guard.label": decision.label,
        "guard.kept_messages": len(decision.kept),
        "guard.dropped_messages": len(decision.dropped),
        "guard.dropped_tokens": record.tokens(decision.dropped),
    }


def _error(record: RequestRecord) -> str:
    """The conventions' low-cardinality name of what went wrong; empty: nothing did."""
    if record.outcome is not Outcome.OK:
        return record.outcome.value
    return str(record.status) if record.status >= 400 else ""
