"""What requests and answers say about guarding."""

from __future__ import annotations

import json
import threading
import time

import pytest

from guard.cache import LRURulingCache
from guard.errors import ScoringError
from guard.guard import Guard
from guard.ports import GateQuery
from tests.backend import Backend
from tests.fakes import CallableScorer, NoCache, WordRelevance
from tests.http import PIVOT, REFINE, ask, chat
from tests.servers import Proxy, running_proxy, wait_until


def texts_forwarded(backend: Backend) -> list[str]:
    return [message["content"] for message in json.loads(backend.last.body)["messages"]]


def test_a_pivot_is_applied_and_told(backend: Backend, proxy: Proxy) -> None:
    """Enforce drops the old topic, and the answer's headers say what was done."""
    answer = ask(proxy.port, body=chat(*PIVOT))
    told = {name: value for name, value in answer.headers.items() if name.startswith("x-guard-")}
    decision_id = told.pop("x-guard-decision-id")
    assert len(decision_id) == 16
    assert told == {
        "x-guard-status": "applied",
        "x-guard-label": "PIVOT",
        "x-guard-probability": "0.9000",
        "x-guard-kept": "1",
        "x-guard-dropped": "2",
    }
    assert texts_forwarded(backend) == [PIVOT[2]]


def test_a_refine_is_unchanged(proxy: Proxy) -> None:
    """A turn that continues its topic carries all of it."""
    headers = ask(proxy.port, body=chat(*REFINE)).headers
    assert (headers["x-guard-status"], headers["x-guard-label"]) == ("unchanged", "REFINE")


def test_shadow_tells_what_enforce_would_have_done(backend: Backend, proxy: Proxy) -> None:
    """Shadow decides, tells and forwards everything."""
    headers = ask(proxy.port, body=chat(*PIVOT), headers={"x-guard-mode": "shadow"}).headers
    assert (headers["x-guard-status"], headers["x-guard-label"], headers["x-guard-dropped"]) == (
        "unchanged",
        "PIVOT",
        "2",
    )
    assert len(texts_forwarded(backend)) == 3


def test_off_decides_nothing(proxy: Proxy) -> None:
    """Mode off has no label to tell."""
    headers = ask(proxy.port, body=chat(*PIVOT), headers={"x-guard-mode": "OFF"}).headers
    assert headers["x-guard-status"] == "bypassed:off"
    assert "x-guard-label" not in headers


def test_a_pin_protects_first_exchanges(backend: Backend, proxy: Proxy) -> None:
    """Pinned exchanges stay whatever the label."""
    ask(proxy.port, body=chat("shot one", "answer", *PIVOT), headers={"x-guard-pin": "1"})
    assert texts_forwarded(backend) == ["shot one", "answer", PIVOT[2]]


@pytest.mark.parametrize(
    ("header", "value", "allowed"),
    [
        ("x-guard-mode", "strict", "enforce, shadow, off"),
        ("x-guard-pin", "-1", "0 or more"),
        ("x-guard-pin", "", "number"),
    ],
)
def test_wrong_controls_are_refused(backend: Backend, proxy: Proxy, header: str, value: str, allowed: str) -> None:
    """A wrong header value is a 400 that names what is allowed, and nothing is forwarded."""
    answer = ask(proxy.port, body=chat("hi"), headers={header: value})
    assert (answer.status, answer.error["param"]) == (400, header)
    assert allowed in answer.error["message"]
    assert backend.requests == []


def test_controls_and_keys_of_the_guard_stay_here(backend: Backend, proxy: Proxy) -> None:
    """No header of the guard reaches a backend."""
    ask(proxy.port, body=chat("hi"), headers={"x-guard-mode": "off", "x-guard-pin": "1", "x-guard-key": "k"})
    assert [name for name, _ in backend.last.headers if name.lower().startswith("x-guard")] == []


def test_modes_differ_by_model(backend: Backend) -> None:
    """The configuration can leave a model alone."""
    with running_proxy(backend.url, modes='{"m*": "off"}') as proxy:
        assert ask(proxy.port, body=chat(*PIVOT)).headers["x-guard-status"] == "bypassed:off"
        assert ask(proxy.port, body=chat(*PIVOT, model="other")).headers["x-guard-status"] == "applied"


def test_a_slow_gate_is_not_waited_for_but_remembered(backend: Backend) -> None:
    """Past its budget a request goes through unguarded; the work is finished, and the next try is decided."""
    release = threading.Event()

    def slow(query: GateQuery) -> float:
        release.wait(5)
        return 0.9

    guard = Guard(CallableScorer(slow), WordRelevance(), LRURulingCache())
    with running_proxy(backend.url, guard, gate__budget_ms=50) as proxy:
        body = chat(*PIVOT)
        answer = ask(proxy.port, body=body)
        assert answer.headers["x-guard-status"] == "bypassed:timeout"
        assert backend.last.body == body
        wait_until(lambda: proxy.metric("guard_bypasses_total", {"reason": "timeout"}) == 1)
        release.set()
        wait_until(lambda: ask(proxy.port, body=body).headers["x-guard-status"] == "applied")


@pytest.mark.parametrize(
    ("error", "reason"), [(ScoringError("unavailable", "down"), "unavailable"), (KeyError("defect"), "error")]
)
def test_a_gate_that_fails_costs_no_answer(backend: Backend, error: Exception, reason: str) -> None:
    """Whatever goes wrong in the gate, the request is forwarded whole, marked and counted."""

    def fail(query: GateQuery) -> float:
        raise error

    guard = Guard(CallableScorer(fail), WordRelevance(), NoCache())
    with running_proxy(backend.url, guard) as proxy:
        answer = ask(proxy.port, body=chat(*PIVOT))
        assert (answer.status, answer.headers["x-guard-status"]) == (200, f"bypassed:{reason}")
        assert backend.last.body == chat(*PIVOT)
        wait_until(lambda: proxy.metric("guard_bypasses_total", {"reason": reason}) == 1)


def test_why_a_gate_fails_is_in_the_log_once_in_a_while(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """The operator reads what is wrong, and not once a request."""

    def fail(query: GateQuery) -> float:
        raise ScoringError("unavailable", "connection refused")

    with running_proxy(backend.url, Guard(CallableScorer(fail), WordRelevance(), NoCache())) as proxy:
        for _ in range(3):
            ask(proxy.port, body=chat(*PIVOT))
    found = [record.fields for record in caplog.records if record.name == "serving.decision"]  # type: ignore[attr-defined]
    assert found == [{"why": "connection refused"}]


def test_too_many_waiting_decisions_are_not_added_to(backend: Backend) -> None:
    """When decisions pile up, further requests go through at once."""
    release = threading.Event()

    def stuck(query: GateQuery) -> float:
        release.wait(5)
        return 0.1

    guard = Guard(CallableScorer(stuck), WordRelevance(), LRURulingCache())
    with running_proxy(backend.url, guard, gate__budget_ms=20, gate__backlog=2) as proxy:
        found = [ask(proxy.port, body=chat("a", "b", f"c{n}")).headers["x-guard-status"] for n in range(3)]
        release.set()
        assert found == ["bypassed:timeout", "bypassed:timeout", "bypassed:overloaded"]


def test_a_turn_without_text_is_labelled_by_nobody(backend: Backend, proxy: Proxy) -> None:
    """An image alone cannot be judged: everything is forwarded, marked."""
    headers = ask(proxy.port, body=chat("a", "b", "")).headers
    assert headers["x-guard-status"] == "bypassed:no_text"
    assert "x-guard-label" not in headers


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages": [{"role": "wizard", "content": "abra"}]}',
        chat("tell me of cats", "half an emoji \ud83d", "python lists?"),
        chat(*PIVOT, temperature=float("nan")),
        chat(*PIVOT, logit_bias={"5": float("-inf")}),
    ],
    ids=["role", "lone surrogate", "NaN", "-Infinity"],
)
def test_unreadable_chats_are_the_backends_to_judge(backend: Backend, proxy: Proxy, body: bytes) -> None:
    """What the guard cannot read, and a lenient backend perhaps can, is forwarded untouched, marked and counted."""
    assert ask(proxy.port, body=body).headers["x-guard-status"] == "bypassed:unreadable"
    assert backend.last.body == body
    wait_until(lambda: proxy.metric("guard_bypasses_total", {"reason": "unreadable"}) == 1)


def test_many_long_requests_do_not_hold_up_others(backend: Backend, proxy: Proxy) -> None:
    """A chat of two thousand messages is decided, and a small one beside it is answered soon."""
    large = chat(*(f"cats {number} " + "x" * 500 for number in range(2001)))
    thread = threading.Thread(target=ask, args=(proxy.port, "POST", "/v1/chat/completions", large))
    thread.start()
    started = time.monotonic()
    ask(proxy.port, body=chat("hi"))
    assert time.monotonic() - started < 2
    thread.join()
