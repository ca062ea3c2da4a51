"""What a trace of a request says."""

from __future__ import annotations

import pytest

from serving.record import RequestRecord
from tests.backend import Backend
from tests.collector import running_collector
from tests.http import PIVOT, ask, chat
from tests.servers import running_proxy

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the otel extra")

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_a_request_is_a_span_under_the_clients(backend: Backend) -> None:
    """The collector gets a span by the conventions for generative AI, with the decision below it, and no text."""
    traceparent = f"00-{TRACE}-{PARENT}-01"
    with running_collector() as collector:
        with running_proxy(backend.url, otel__endpoint=collector.url) as proxy:
            ask(proxy.port, body=chat(*PIVOT, model="llama"), headers={"traceparent": traceparent})
            ask(proxy.port, "GET", "/v1/models")
        spans = {span.name: span for span in collector.spans()}
    assert set(spans) == {"chat llama", "guard.decide"}
    request, decision = spans["chat llama"], spans["guard.decide"]
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    assert decision.parent_span_id == request.span_id
    found = {item.key: item.value.string_value or item.value.int_value for item in request.attributes}
    assert (found["gen_ai.operation.name"], found["gen_ai.request.model"]) == ("chat", "llama")
    assert found["http.response.status_code"] == 200
    told = {item.key: item.value.string_value or item.value.int_value for item in decision.attributes}
    assert (told["guard.label"], told["guard.dropped_messages"]) == ("PIVOT", 2)
    assert b"cats" not in collector.received
    assert backend.requests[0].header("traceparent") == traceparent


def test_without_an_endpoint_nothing_is_traced() -> None:
    """A proxy that was not asked to trace does not load the libraries' exporter."""
    from serving.tracing import open_tracing

    assert open_tracing(None) is None
    assert RequestRecord("GET", "").traceparent == ""
