"""Conversations that change hands: who is recognised, what falls back, what is logged, measured and edited."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from guard.risk import Risk
from serving.handoffs import Wanted, open_engine, read_handoffs
from tests.backend import Backend, Received, Script, Wire, completion, running_backend, stream_events
from tests.http import Answer, ask, chat, sent
from tests.servers import Proxy, running_proxy, wait_until
from tests.services import postgres_url, redis_url

Json = dict[str, Any]
RISK = Risk(-0.02, {"a": -0.03, "b": 0.01, "c": 0.02}, {"a": 0.0, "b": -0.04, "c": 0.04})


def says(text: str) -> Script:
    """A backend that answers with a text, streamed where it is asked to."""

    async def script(request: Received, wire: Wire) -> None:
        if request.method == "HEAD":
            await wire.answer(b"")
        elif json.loads(request.body).get("stream"):
            await wire.begin_stream()
            for event in stream_events(text[:3], text[3:]):
                await wire.chunk(event)
            await wire.end_stream()
        else:
            await wire.answer(completion(text))

    return script


def fails(status: int) -> Script:
    """A backend that answers with a status."""

    async def script(request: Received, wire: Wire) -> None:
        await wire.answer(b'{"error":{"message":"scripted"}}', status, [("x-from", "scripted")])

    return script


async def answers(request: Received, wire: Wire) -> None:
    """A backend that reads nothing of a request."""
    await wire.answer(completion("apples"))


async def breaks(request: Received, wire: Wire) -> None:
    """A backend that reads a request and goes away."""
    wire.cut()


@dataclass
class Shop:
    """Models a and b, each at a backend of its own, behind one proxy; the route ``chat`` leads to a, else to b."""

    a: Backend
    b: Backend
    proxy: Proxy
    log: str

    def ask(self, *texts: str, headers: dict[str, str] | None = None, **fields: object) -> Answer:
        return ask(self.proxy.port, body=chat(*texts, **{"model": "chat", **fields}), headers=headers)

    def rows(self, count: int) -> list[Json]:
        wait_until(lambda: len(self._read()) >= count)
        return self._read()

    def _read(self) -> list[Json]:
        page = ask(self.proxy.port, "GET", "/handoffs")
        return [row for row in json.loads(page.body) if row["kind"] == "model"] if page.status == 200 else []


@contextmanager
def shop(tmp_path: Path, log: str = "", **options: Any) -> Iterator[Shop]:  # noqa: ANN401
    url = log or f"sqlite:///{tmp_path}/log.sqlite3"
    with ExitStack() as stack:
        a = stack.enter_context(running_backend(says("apples by a")))
        b = stack.enter_context(running_backend(says("apples by b")))
        backends = [
            {"name": "one", "url": a.url, "models": ["a"]},
            {"name": "two", "url": b.url, "models": ["b", "c"]},
        ]
        given = {"backends": backends, "routes": {"chat": ["a", "b"]}, "log__url": url, **options}
        proxy = stack.enter_context(running_proxy(a.url, backend=None, **given))
        yield Shop(a, b, proxy, url)


def test_a_fallback_is_a_handoff(tmp_path: Path) -> None:
    """Turn 1 by a; a is down at turn 2, so b answers; the log, a header and the metrics say so, with the risk."""
    risk = tmp_path / "risk.json"
    risk.write_text(json.dumps(RISK.to_dict()))
    with shop(tmp_path, risk__file=str(risk)) as it:
        assert it.ask("red apples").headers.get("x-guard-handoff") is None
        it.a.script = fails(503)
        answer = it.ask("red apples", "apples by a", "green apples")
        assert answer.headers["x-guard-handoff"] == "fallback; from=a; to=b; foreign=1"
        assert answer.headers["x-guard-model"] == "b"
        it.a.script = says("apples by a")
        it.ask("red apples", "apples by a", "green apples", "apples by b", "more apples")
        first, second = it.rows(2)
        labels = {"prefix_model": "a", "suffix_model": "b", "reason": "fallback"}
        assert it.proxy.metric("guard_handoffs_total", labels) == 1
        wait_until(lambda: it.proxy.metric("guard_handoff_risk_bucket", {"le": "+Inf"}) == 2)
        assert it.proxy.metric("guard_handoff_risk_bucket", {"le": "-0.05"}) == 1
        assert it.proxy.metric("guard_handoff_risk_bucket", {"le": "0.0"}) == 2
        assert it.proxy.metric("guard_foreign_turns_total") == 2
        assert it.proxy.metric("guard_fallbacks_total") == 1
        assert it.proxy.metric("guard_attempts_total", {"backend": "one", "result": "5xx"}) == 1
    expected = {"reason": "fallback", "prefix_authors": {"a": 1}, "suffix_model": "b", "backend": "two", "turn": 1}
    expected |= {"requested_model": "chat", "prefix_model": "a", "foreign_messages": 1, "cleared": False, "status": 200}
    assert {key: first[key] for key in expected} == expected
    assert first["risk"] == pytest.approx(-0.09)
    assert (second["reason"], second["prefix_authors"], second["suffix_model"]) == ("route", {"a": 1, "b": 1}, "a")
    assert second["risk"] == pytest.approx(-0.01 / 2)


@pytest.mark.parametrize("stream", [False, True])
def test_answers_are_recognised_however_they_were_sent(tmp_path: Path, stream: bool) -> None:
    """Streamed or whole, trimmed by the client or turned into parts: the author is known."""
    with shop(tmp_path) as it:
        it.ask("red apples", model="a", stream=stream)
        messages = [
            {"role": "user", "content": "red apples"},
            {"role": "assistant", "content": [{"type": "text", "text": " apples by a\n"}], "refusal": None},
            {"role": "user", "content": "more apples"},
        ]
        answer = ask(it.proxy.port, body=json.dumps({"model": "b", "messages": messages}).encode())
        assert answer.headers["x-guard-handoff"] == "client; from=a; to=b; foreign=1"
        assert it.proxy.metric("guard_history_turns_total", {"author": "known"}) == 1


def test_a_compressed_answer_is_recognised(tmp_path: Path) -> None:
    """A client that asks for gzip gets it, and the words are read beside it."""

    async def packed(request: Received, wire: Wire) -> None:
        await wire.answer(gzip.compress(completion("apples by a")), headers=[("content-encoding", "gzip")])

    with shop(tmp_path) as it:
        it.a.script = packed
        assert gzip.decompress(it.ask("red apples").body) == completion("apples by a")
        answer = it.ask("red apples", "apples by a", "more apples", model="b")
        assert "from=a" in answer.headers["x-guard-handoff"]


def test_half_an_answer_is_recognised(tmp_path: Path) -> None:
    """A client that stops an answer keeps what it got; those words have an author too."""

    async def begins(request: Received, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(next(stream_events("apples by")))
        await wire.until_left()

    with shop(tmp_path) as it:
        it.a.script = begins
        with sent(it.proxy.port, chat("red apples", model="a", stream=True)) as connection:
            while b"apples by" not in connection.recv(4096):
                pass
        it.a.left.wait(5)

        def known() -> bool:
            answer = it.ask("red apples", "apples by", "more apples", model="b")
            return "from=a" in answer.headers.get("x-guard-handoff", "")

        wait_until(known)


def test_the_responses_api_has_its_handoffs(tmp_path: Path) -> None:
    """Items of an answer are recognised when they come back as input, to another model."""
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "apples by a"}]}

    async def respond(request: Received, wire: Wire) -> None:
        await wire.answer(json.dumps({"object": "response", "output": [item]}).encode())

    with shop(tmp_path) as it:
        it.a.script = it.b.script = respond
        first = {"role": "user", "content": "red apples"}
        body = json.dumps({"model": "a", "input": "red apples"}).encode()
        assert ask(it.proxy.port, path="/v1/responses", body=body).status == 200
        history = [first, item, {"role": "user", "content": "more apples"}]
        body = json.dumps({"model": "b", "input": history}).encode()
        answer = ask(it.proxy.port, path="/v1/responses", body=body, headers={"x-guard-mitigate": "drop,mark"})
        assert answer.headers["x-guard-handoff"] == "client; from=a; to=b; foreign=1"
        assert it.b.last.body == body


def test_every_choice_has_its_author(tmp_path: Path) -> None:
    """With n = 2 the client may go on with either choice."""

    async def two(request: Received, wire: Wire) -> None:
        choices = [
            {"index": i, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            for i, text in enumerate(("green apples", "red apples"))
        ]
        await wire.answer(json.dumps({"choices": choices}).encode())

    with shop(tmp_path) as it:
        it.a.script = two
        it.ask("which apples")
        for choice in ("green apples", "red apples"):
            assert "from=a" in it.ask("which apples", choice, "more apples", model="b").headers["x-guard-handoff"]


def test_edited_and_foreign_histories_are_unknown(tmp_path: Path) -> None:
    """Words that the client changed, or that never came through here, have no author and make no handoff."""
    with shop(tmp_path) as it:
        it.ask("red apples")
        for said in ("apples by a, edited", "apples from elsewhere"):
            assert "x-guard-handoff" not in it.ask("red apples", said, "more apples", model="b").headers
        assert it.proxy.metric("guard_history_turns_total", {"author": "unknown"}) == 2


def test_a_regenerated_answer_is_by_who_said_it_last(tmp_path: Path) -> None:
    """The same words in the same place, said again by b, are b's; under another question both could have said them."""
    with shop(tmp_path) as it:
        it.b.script = says("apples by a")
        it.ask("red apples")
        it.ask("red apples", model="b")
        assert "from=b" in it.ask("red apples", "apples by a", "more apples", model="c").headers["x-guard-handoff"]
        assert "x-guard-handoff" not in it.ask("which apples", "apples by a", "more apples", model="c").headers


def test_what_a_model_said_too_is_not_foreign_to_it(tmp_path: Path) -> None:
    """Two models gave the same answer in the same place: neither is handed anything when it goes on."""
    with shop(tmp_path) as it:
        it.b.script = says("apples by a")
        it.ask("red apples", model="a")
        it.ask("red apples", model="b")
        for model in ("a", "b"):
            answer = it.ask("red apples", "apples by a", "more apples", model=model)
            assert "x-guard-handoff" not in answer.headers


def test_a_branch_keeps_its_authors(tmp_path: Path) -> None:
    """A client that goes back and asks something else keeps what was said before the branch."""
    with shop(tmp_path) as it:
        it.ask("red apples")
        it.ask("red apples", "apples by a", "green apples", model="b")
        answer = it.ask("red apples", "apples by a", "yellow apples", model="b")
        assert "from=a; to=b; foreign=1" in answer.headers["x-guard-handoff"]


def test_a_pivot_clears_the_foreign_prefix(tmp_path: Path) -> None:
    """A turn on another topic is given nothing of a's, and the log says that nothing foreign is carried any more."""
    with shop(tmp_path) as it:
        it.ask("red apples")
        it.ask("red apples", "apples by a", "python lists?", model="b")
        (row,) = it.rows(1)
        assert (
            it.proxy.metric("guard_handoffs_total", {"prefix_model": "none", "suffix_model": "b", "reason": "client"})
            == 1
        )
    assert (row["cleared"], row["foreign_messages"], row["prefix_authors"], row["event"]) == (True, 0, {}, "pivot")
    assert row["dropped_messages"] == 2


def test_the_next_steps_of_a_turn_are_no_new_handoff(tmp_path: Path) -> None:
    """While b works through tool calls under one user message, its turn is logged once."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}

    async def calls(request: Received, wire: Wire) -> None:
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        await wire.answer(json.dumps({"choices": [{"index": 0, "message": message}]}).encode())

    with shop(tmp_path) as it:
        it.ask("red apples")
        it.b.script = calls
        history: list[Json] = json.loads(chat("red apples", "apples by a", "more apples"))["messages"]
        steps = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "7"}]
        for messages in (history, [*history, *steps]):
            ask(it.proxy.port, body=json.dumps({"model": "b", "messages": messages}).encode())
        wait_until(lambda: it.proxy.metric("guard_log_queue") == 0)
        assert len(it.rows(1)) == 1


def test_names_of_clients_are_no_labels() -> None:
    """Models that the settings do not name are one label, whatever clients ask for."""
    with running_backend(says("apples")) as backend, running_proxy(backend.url) as proxy:
        for number in range(5):
            ask(proxy.port, body=chat(f"apples {number}", model=f"old-{number}"))
            ask(proxy.port, body=chat(f"apples {number}", "apples", "more apples", model=f"new-{number}"))
        page = ask(proxy.port, "GET", "/metrics").body.decode()
    assert 'guard_handoffs_total{prefix_model="other",reason="client",suffix_model="other"} 5.0' in page
    assert "new-" not in page


def test_no_second_call_once_a_backend_may_have_accepted(tmp_path: Path) -> None:
    """A backend that read the request and broke is not replaced: its work may be billed; clients are told so."""
    with shop(tmp_path) as it:
        it.a.script = breaks
        answer = it.ask("red apples")
        assert (answer.status, answer.error["code"]) == (502, "backend_disconnected")
        assert answer.headers["x-should-retry"] == "false"
        assert it.b.requests == []


def test_a_second_call_may_be_allowed(tmp_path: Path) -> None:
    """An operator who prefers an answer to a bill gets the fallback."""
    with shop(tmp_path, routing__after_accept=True) as it:
        it.a.script = breaks
        assert it.ask("red apples").headers["x-guard-model"] == "b"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_refusals_fall_back(tmp_path: Path, status: int) -> None:
    """A backend that did no work is replaced by the next one, whose name is put into the request."""
    with shop(tmp_path) as it:
        it.a.script = fails(status)
        answer = it.ask("red apples", temperature=0.5)
        assert (answer.status, answer.headers["x-guard-model"]) == (200, "b")
        sent = json.loads(it.b.last.body)
        assert (sent["model"], sent["temperature"]) == ("b", 0.5)


@pytest.mark.parametrize("status", [400, 401, 404, 504])
def test_other_errors_are_the_clients(tmp_path: Path, status: int) -> None:
    """An error that another backend would repeat, or that may follow work done, goes to the client unchanged."""
    with shop(tmp_path) as it:
        it.a.script = fails(status)
        answer = it.ask("red apples")
        assert (answer.status, answer.body) == (status, b'{"error":{"message":"scripted"}}')
        assert it.b.requests == []


def test_the_last_error_is_relayed_unchanged(tmp_path: Path) -> None:
    """When nobody is left, the client gets what the last backend said."""
    with shop(tmp_path) as it:
        it.a.script, it.b.script = fails(503), fails(429)
        answer = it.ask("red apples")
        assert (answer.status, answer.headers["x-from"]) == (429, "scripted")
        assert it.proxy.metric("guard_handoffs_total") == 0


def test_a_backend_out_of_reach_falls_back_and_then_rests(tmp_path: Path) -> None:
    """A backend that refuses connections is replaced, and after some failures asked no more for a while."""
    with running_backend() as gone:
        url = gone.url
    with running_backend(says("apples by b")) as b:
        backends = [{"name": "one", "url": url, "models": ["a"]}, {"name": "two", "url": b.url, "models": ["b"]}]
        options: Json = {"backends": backends, "routes": {"chat": ["a", "b"]}, "routing__breaker_failures": 2}
        with running_proxy(url, backend=None, **options) as proxy:
            for _ in range(4):
                assert ask(proxy.port, body=chat("hi", model="chat")).status == 200
            wait_until(lambda: proxy.metric("guard_fallbacks_total") == 4)
            assert proxy.metric("guard_attempts_total", {"backend": "one", "result": "backend_unreachable"}) == 2


def test_second_attempts_come_out_of_a_budget(tmp_path: Path) -> None:
    """Without budget the first error is the answer, so that trouble is not multiplied."""
    with shop(tmp_path, routing__retry_burst=0, routing__retry_share=0) as it:
        it.a.script = fails(503)
        assert it.ask("red apples").status == 503
        assert it.b.requests == []


def test_the_same_target_may_be_tried_again(tmp_path: Path) -> None:
    """With retries a backend that was busy for a moment gets a second chance before the fallback."""
    busy = iter([429])

    async def busy_once(request: Received, wire: Wire) -> None:
        status = next(busy, 0)
        await (fails(status) if status else says("apples by a"))(request, wire)

    with shop(tmp_path, routing__retries=1) as it:
        it.a.script = busy_once
        answer = it.ask("red apples")
        assert (answer.status, len(it.a.requests), len(it.b.requests)) == (200, 2, 0)


def test_fallbacks_can_be_ordered_by_risk(tmp_path: Path) -> None:
    """Of two fallbacks the one comes first that is expected to suffer less from what a wrote."""
    risk = tmp_path / "risk.json"
    risk.write_text(json.dumps(RISK.to_dict()))
    options: Json = {"routes": {"chat": ["a", "b", "c"]}, "risk__file": str(risk), "routing__order": "risk"}
    with shop(tmp_path, **options) as it:
        it.ask("red apples")
        it.a.script = fails(503)
        answer = it.ask("red apples", "apples by a", "more apples")
        assert answer.headers["x-guard-model"] == "c"


def test_other_paths_follow_the_model_too(tmp_path: Path) -> None:
    """Embeddings of a model go to the backend that serves it, byte for byte but for an alias; the rest to the first."""
    body = b'{ "input": "x", "model": "b" }'
    headers = {"content-type": "application/json; charset=utf-8"}

    async def echo(request: Received, wire: Wire) -> None:
        await wire.answer(b"{}")

    with shop(tmp_path, routes={"embed": ["b"]}) as it:
        it.a.script = it.b.script = echo
        assert ask(it.proxy.port, path="/v1/embeddings", body=body, headers=headers).status == 200
        assert it.b.last.body == body
        alias = body.replace(b'"b"', b'"embed"')
        assert ask(it.proxy.port, path="/v1/embeddings", body=alias, headers=headers).status == 200
        assert json.loads(it.b.last.body) == json.loads(body)
        assert ask(it.proxy.port, "GET", path="/v1/models").status == 200
        assert ask(it.proxy.port, path="/v1/embeddings", body=b"{", headers=headers).status == 200
        assert [one.target for one in it.a.requests] == ["/v1/models", "/v1/embeddings"]


def test_without_mitigations_a_handoff_changes_no_byte(tmp_path: Path) -> None:
    """Another model goes on with exactly what the client sent, by default."""
    with shop(tmp_path) as it:
        it.ask("red apples")
        messages = json.loads(chat("red apples", "apples by a", "more apples"))["messages"]
        body = b'{ "messages" : ' + json.dumps(messages).encode() + b' ,"model":"b" }'
        answer = ask(it.proxy.port, body=body)
        assert "x-guard-handoff" in answer.headers
        assert it.b.last.body == body


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("drop", ["red apples", "more apples"]),
        (
            "mark",
            ["red apples", "[The following answer was written by another assistant.]\napples by a", "more apples"],
        ),
        (
            "restate",
            [
                "red apples",
                "apples by a",
                "more apples\n\nMy earlier requests in this conversation still apply:\n1. red apples",
            ],
        ),
        ("none", ["red apples", "apples by a", "more apples"]),
    ],
)
def test_mitigations_edit_what_they_say(tmp_path: Path, policy: str, expected: list[str]) -> None:
    """A policy, asked for by a header, edits the request of a handoff and is logged; the model's own turns are left."""
    with shop(tmp_path) as it:
        it.ask("red apples")
        headers = {"x-guard-mitigate": policy}
        it.ask("red apples", "apples by a", "more apples", model="b", headers=headers)
        sent = json.loads(it.b.last.body)["messages"]
        (row,) = it.rows(1)
        it.ask("red apples", "apples by a", "more apples", model="a", headers=headers)
        assert len(json.loads(it.a.last.body)["messages"]) == 3
    assert [message["content"] for message in sent] == expected
    assert row["mitigations"] == (None if policy == "none" else policy)
    assert row["cleared"] == (policy == "drop")


ODD = {
    "a number out of range": b"1e999",
    "an endless number": b"9" * 5000,
    "invalid UTF-8": b'"\xff"',
    "deeply nested": b"[" * 900 + b"]" * 900,
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_what_cannot_be_read_again_is_forwarded_untouched(tmp_path: Path, odd: bytes) -> None:
    """A value that only the backend can read costs the guarding of its request, or the edits, never the answer."""
    text = b'[{"type":"text","text":"apples by a"},{"type":"x","x":%s}]' % odd
    user = b'{"role":"user","content":"red apples"}'
    answered, odd_answer = (b'{"role":"assistant","content":%s}' % one for one in (b'"apples by a"', text))
    asked, odd_question = (b'{"role":"user","content":"more apples"%s}' % one for one in (b"", b',"x":' + odd))
    with shop(tmp_path) as it:
        it.b.script = answers
        it.ask("red apples")
        for messages, status in (
            ((user, odd_answer, asked), "bypassed:unreadable"),
            ((user, answered, odd_question), "unchanged"),
        ):
            for policy in ("none", "restate", "restate,mark"):
                body = b'{"model":"b","messages":[%s]}' % b",".join(messages)
                answer = ask(it.proxy.port, body=body, headers={"x-guard-mitigate": policy})
                assert (answer.status, answer.headers["x-guard-status"]) == (200, status)
                edited = "mitigated=" in answer.headers.get("x-guard-handoff", "")  # deep nesting can be written again
                assert it.b.last.body == body or (edited and odd.startswith(b"[["))
        assert it.proxy.metric("guard_bypasses_total", {"reason": "unreadable"}) == 3


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_answer_that_cannot_be_read_is_relayed(tmp_path: Path, odd: bytes) -> None:
    """Its author stays unknown, and the client gets every byte."""
    body = b'{"choices":[{"message":{"role":"assistant","content":[{"type":"x","x":%s}]}}]}' % odd

    async def says_odd(request: Received, wire: Wire) -> None:
        await wire.answer(body)

    with shop(tmp_path) as it:
        it.a.script = says_odd
        assert it.ask("red apples").body == body
        wait_until(lambda: it.proxy.metric("guard_responses_total", {"status": "2xx"}) == 1)


def test_unknown_mitigations_are_refused(tmp_path: Path) -> None:
    """A misspelt policy is an error of the request, not silence."""
    with shop(tmp_path) as it:
        answer = it.ask("hi", headers={"x-guard-mitigate": "dorp"})
        assert (answer.status, answer.error["param"]) == (400, "x-guard-mitigate")


def test_shadow_edits_nothing_and_still_knows_and_off_only_forwards(tmp_path: Path) -> None:
    """Mitigations need enforcement; shadow notes handoffs, and in mode off the history is not even read."""
    with shop(tmp_path, handoff__mitigations=["drop", "mark"]) as it:
        it.ask("red apples")
        for mode, known in (("off", False), ("shadow", True)):
            answer = it.ask("red apples", "apples by a", "more?", model="b", headers={"x-guard-mode": mode})
            assert ("x-guard-handoff" in answer.headers) == known
            assert len(json.loads(it.b.last.body)["messages"]) == 3
        assert [row["mode"] for row in it.rows(1)] == ["shadow"]


def test_foreign_signed_reasoning_is_recognised_and_stripped(tmp_path: Path) -> None:
    """A turn that another provider signed is foreign though nobody relayed it; the next provider need not refuse it."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "EqQBsigned"}
    messages = [
        {"role": "user", "content": "red apples"},
        {"role": "assistant", "content": [thinking, {"type": "text", "text": "apples"}]},
        {"role": "user", "content": "more apples"},
    ]
    with shop(tmp_path, handoff__mitigations=["strip"]) as it:
        answer = ask(it.proxy.port, body=json.dumps({"model": "b", "messages": messages}).encode())
        assert answer.headers["x-guard-handoff"] == "client; from=signed:anthropic; to=b; foreign=1; mitigated=strip"
        sent = json.loads(it.b.last.body)["messages"]
        (row,) = it.rows(1)
    assert sent[1] == {"role": "assistant", "content": [{"type": "text", "text": "apples"}]}
    assert (row["signed"], row["mitigations"]) == ("anthropic", "strip")


def test_foreign_reasoning_items_are_stripped(tmp_path: Path) -> None:
    """Encrypted reasoning in the items of the Responses API goes whole, its call stays; no other policy acts."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAsecret"}
    call = {"type": "function_call", "call_id": "c", "name": "pick", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "red"}
    items = [{"role": "user", "content": "red apples"}, reasoning, call, output]
    with shop(tmp_path, handoff__mitigations=["strip", "mark"]) as it:
        body = json.dumps({"model": "b", "input": items}).encode()
        answer = ask(it.proxy.port, path="/v1/responses", body=body)
        assert answer.headers["x-guard-handoff"] == "client; from=none; to=b; foreign=0; mitigated=strip"
        assert json.loads(it.b.last.body)["input"] == [items[0], call, output]
        (row,) = it.rows(1)
    assert (row["mitigations"], row["cleared"]) == ("strip", True)


def test_odd_model_names_do_no_harm(tmp_path: Path) -> None:
    """A name with line ends or other scripts cannot break out of a header or the log."""
    with (
        running_backend(says("apples")) as backend,
        running_proxy(backend.url, log__url=f"sqlite:///{tmp_path}/l.sqlite3") as proxy,
    ):
        ask(proxy.port, body=chat("apples", model="évil\r\nx-evil: 1"))
        answer = ask(proxy.port, body=chat("apples", "apples", "more apples", model="b;\x00"))
        assert answer.headers["x-guard-handoff"] == "client; from=?vil??x-evil:?1; to=b??; foreign=1"
        assert "x-evil" not in answer.headers


def test_a_ledger_file_survives_a_restart(tmp_path: Path) -> None:
    """With SQLite the authors are known to the next process."""
    options: Json = {"ledger__url": f"sqlite:///{tmp_path}/ledger.sqlite3", "ledger__budget_ms": 5000}
    with shop(tmp_path, **options) as it:
        it.ask("red apples")
    with shop(tmp_path, **options) as it:
        assert "from=a" in it.ask("red apples", "apples by a", "more apples", model="b").headers["x-guard-handoff"]


@pytest.mark.services
def test_replicas_recognise_each_others_answers(tmp_path: Path) -> None:
    """Two proxies with one Redis: what one relayed, the other knows the author of."""
    question = f"red apples for {tmp_path.name}?"
    options: Json = {"ledger__url": redis_url(), "ledger__budget_ms": 5000}
    with shop(tmp_path, **options) as one, shop(tmp_path, **options) as other:
        one.ask(question)

        def known() -> bool:
            answer = other.ask(question, "apples by a", "more apples", model="b")
            return "from=a" in answer.headers.get("x-guard-handoff", "")

        wait_until(known)


def test_a_ledger_that_is_down_fails_no_request(tmp_path: Path) -> None:
    """Requests go on, authors are unknown but to this process, and the failure is counted."""
    with shop(tmp_path, ledger__url="redis://127.0.0.1:1/0") as it:
        assert it.ask("red apples").status == 200
        answer = it.ask("red apples", "apples by a", "more apples", "apples by another", "and apples", model="b")
        assert "from=a" in answer.headers["x-guard-handoff"]
        wait_until(lambda: it.proxy.metric("guard_ledger_errors_total") > 0)


@pytest.mark.services
def test_rows_are_written_to_postgresql(tmp_path: Path) -> None:
    """The same rows land in PostgreSQL, authors as JSON, times with their zone."""
    with shop(tmp_path, log=postgres_url()) as it:
        it.ask("red apples")
        answer = it.ask("red apples", "apples by a", "more apples", model="b")
        decision = answer.headers["x-guard-decision-id"]
        wait_until(lambda: decision in {row["decision_id"] for row in it.rows(0)}, seconds=15)
    engine = open_engine(it.log)
    (row,) = read_handoffs(engine, limit=1, wanted=Wanted(kind="model", decision_id=decision))
    engine.dispose()
    assert (row["prefix_authors"], row["cleared"], row["reason"]) == ({"a": 1}, False, "client")
    assert row["time"].tzinfo is not None
