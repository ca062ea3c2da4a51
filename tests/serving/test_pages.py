"""Pages for orchestrators and operators."""

from __future__ import annotations

import json
import socket

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.backend import Backend
from tests.http import PIVOT, REFINE, ask, chat
from tests.servers import Proxy, running_app, running_proxy, wait_until


def test_health_needs_nothing(proxy: Proxy) -> None:
    """A process that runs says so."""
    assert (ask(proxy.port, "GET", "/healthz").status, ask(proxy.port, "GET", "/healthz").body) == (
        200,
        b'{"status":"ok"}',
    )


def test_ready_means_a_gate_and_a_backend(backend: Backend, proxy: Proxy) -> None:
    """Readiness opens a connection and asks the backend for nothing."""
    assert ask(proxy.port, "GET", "/readyz").status == 200
    assert backend.requests == []
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with running_proxy(f"http://127.0.0.1:{port}") as cut_off:
        answer = ask(cut_off.port, "GET", "/readyz")
        assert (answer.status, json.loads(answer.body)["backends"]) == (503, {"default": False})


def samples(page: bytes) -> dict[tuple[str, ...], float]:
    """The guard's figures by name and label values, in the order of the labels' names."""
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
        if sample.name.startswith("guard_")
    }


def test_metrics_tell_what_happened(backend: Backend, proxy: Proxy) -> None:
    """The page is Prometheus text with counts, times and savings."""
    for texts, mode in ((PIVOT, "enforce"), (REFINE, "enforce"), (PIVOT, "shadow"), (PIVOT, "off")):
        ask(proxy.port, body=chat(*texts), headers={"x-guard-mode": mode})
    wait_until(lambda: proxy.metric("guard_requests_total", {"route": "chat", "mode": "off", "outcome": "ok"}) == 1)
    answer = ask(proxy.port, "GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(answer.body)
    assert found["guard_requests_total", "enforce", "ok", "chat"] == 2
    assert found["guard_decisions_total", "PIVOT", "enforce"] == 1
    assert found["guard_decisions_total", "PIVOT", "shadow"] == 1
    assert found["guard_decisions_total", "REFINE", "enforce"] == 1
    assert found["guard_dropped_messages_total",] == 2
    assert found["guard_dropped_tokens_total",] > 0
    assert found["guard_gate_seconds_count",] == 3
    assert found["guard_overhead_seconds_count",] == 4
    assert found["guard_pivot_probability_count",] == 3
    assert found["guard_upstream_seconds_count", "default"] == 4
    assert found["guard_time_to_first_token_seconds_count", "default"] == 4
    assert found["guard_backend_up", "default"] == 1
    assert ("guard_log_queue",) in found


def test_labels_do_not_grow_with_requests(proxy: Proxy) -> None:
    """Model names, paths and users of requests are no labels."""
    ask(proxy.port, body=chat("hi", model="first", user="u1"))
    before = set(samples(ask(proxy.port, "GET", "/metrics").body))
    for number in range(5):
        ask(proxy.port, body=chat("hi", model=f"model-{number}", user=f"user-{number}"))
        ask(proxy.port, "GET", f"/v1/path-{number}")
    ask(proxy.port, "GET", "/v1/models")
    after = set(samples(ask(proxy.port, "GET", "/metrics").body))
    assert {labels for labels in after - before if "other" not in labels} == set()


@pytest.mark.parametrize("path", ["/metrics", "/handoffs"])
def test_an_admin_key_closes_operator_pages(backend: Backend, path: str) -> None:
    """With a key set, they need it; health does not."""
    with running_proxy(backend.url, auth__admin_key="sk-admin") as proxy:
        assert ask(proxy.port, "GET", path).status == 401
        assert ask(proxy.port, "GET", path, headers={"authorization": "Bearer sk-admin"}).status == 200
        assert ask(proxy.port, "GET", "/healthz").status == 200


@pytest.mark.parametrize("query", ["after=-1", "after=9223372036854775808", "limit=0"])
def test_numbers_beyond_the_log_are_refused(proxy: Proxy, query: str) -> None:
    """A number that no database holds is the client's error."""
    assert ask(proxy.port, "GET", f"/handoffs?{query}").status == 422


def test_operator_pages_can_have_a_port_of_their_own(backend: Backend) -> None:
    """Then the API's port has none of them."""
    with running_proxy(backend.url, admin__port=0) as proxy:
        assert proxy.app.admin is not None
        with running_app(proxy.app.admin, lifespan=False) as admin_port:
            assert ask(admin_port, "GET", "/metrics").status == 200
            assert ask(admin_port, "GET", "/healthz").status == 200
            assert ask(proxy.port, "GET", "/metrics").status == 404
            assert ask(proxy.port, body=chat("hi")).status == 200
