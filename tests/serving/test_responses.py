from __future__ import annotations

import json
import zlib
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.guard import Guard
from guard.policy import Policy
from guard.ports import GateQuery
from serving.responses import read_responses
from tests.backend import Backend, Received, Wire
from tests.chat_format import Problem
from tests.fakes import CallableScorer, NoCache, WordRelevance
from tests.guard.strategies import policies
from tests.http import ask
from tests.responses_format import CALLS, problems
from tests.servers import Proxy, wait_until

Json = dict[str, Any]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def said(text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def call(identity: str, kind: str = "function_call") -> Json:
    return {"type": kind, "id": "fc_1", "call_id": identity, "name": "look", "arguments": "{}"}


def output(identity: str, kind: str = "function_call") -> Json:
    return {"type": CALLS[kind], "call_id": identity, "output": "found"}


REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA=="}
SEARCH: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
PIVOT = user("old cars")


def body(items: object, **fields: object) -> bytes:
    return json.dumps({"model": "m", "input": items, **fields}).encode()


def kept(items: list[Json], policy: Policy, gate: CallableScorer) -> list[int]:
    conversation = read_responses(body(items)).conversation()
    return list(Guard(gate, WordRelevance(), NoCache()).decide(conversation, policy).selection.kept)


CASES: dict[str, tuple[list[Json], list[int]]] = {
    "messages": ([user("red apples"), said("ok"), PIVOT], [2]),
    "instructions": ([{"role": "developer", "content": "be brief"}, user("red apples"), said("ok"), PIVOT], [0, 3]),
    "a call and its output": ([user("red apples"), REASONING, call("a"), output("a"), said("ok"), PIVOT], [5]),
    "a live call": ([user("red apples"), said("ok"), PIVOT, REASONING, call("a"), output("a")], [2, 3, 4, 5]),
    "a late output": ([user("red apples"), REASONING, call("a"), PIVOT, output("a")], [0, 1, 2, 3, 4]),
    "reasoning about a message": ([user("red apples"), REASONING, said("ok"), PIVOT], [3]),
    "the backend's own tools": ([user("red apples"), REASONING, SEARCH, said("ok"), PIVOT], [4]),
    "settings among the items": (
        [user("red apples"), {"type": "configuration_update", "reasoning": {"effort": "low"}}, said("ok"), PIVOT],
        [1, 3],
    ),
    "a compacted history": ([{"type": "compaction", "encrypted_content": "x"}, user("a"), said("ok"), PIVOT], [0, 3]),
    "an approval": (
        [
            user("red apples"),
            {"type": "mcp_approval_request", "id": "mr_1", "name": "look", "arguments": "{}", "server_label": "s"},
            PIVOT,
            {"type": "mcp_approval_response", "approval_request_id": "mr_1", "approve": True},
        ],
        [0, 1, 2, 3],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_items_stay_or_go_with_what_they_need(name: str) -> None:
    """After a PIVOT the live exchange and settings stay, each call with its output, reasoning with its successor."""
    items, expected = CASES[name]
    assert kept(items, Policy(resume=False), CallableScorer(lambda _: 0.9)) == expected


def test_an_output_belongs_to_the_call_of_its_kind() -> None:
    """Two calls of different kinds wait under one id: the output that comes late keeps its own."""
    items = [
        user("old cars"),
        call("b", "local_shell_call"),
        user("deep sea"),
        call("b", "apply_patch_call"),
        output("b", "local_shell_call"),
        output("b", "apply_patch_call"),
    ]
    assert kept(items, Policy(resume=False), CallableScorer(lambda _: 0.9)) == list(range(6))


def random_items(random: Random) -> list[Json]:
    items: list[Json] = []
    for _ in range(random.choice((1, 1, 2, 3, 4, 6))):
        items.append(user(random.choice(("red apples", "old cars", "deep sea"))))
        for _ in range(random.choice((0, 0, 1, 2))):
            items += [REASONING] if random.random() < 0.5 else []
            kind = random.choice(list(CALLS))
            ids = random.sample(("a", "b", "c"), random.choice((1, 2)))
            items += [call(identity, kind) for identity in ids]
            random.shuffle(ids)
            items += [output(identity, kind) for identity in ids]
        items += random.choice(([], [said("ok")], [REASONING, said("ok")], [REASONING, SEARCH, said("ok")]))
    if random.random() < 0.3:
        items.insert(random.randrange(len(items)), {"role": "developer", "content": "be brief"})
    if random.random() < 0.3:
        late = random.randrange(len(items))
        item = items.pop(late)
        items.insert(random.randrange(late, len(items) + 1), item)
    return items


@settings(max_examples=300)
@given(st.randoms(use_true_random=False), policies, st.integers(0, 9))
def test_an_edit_adds_no_problem_of_its_own(random: Random, policy: Policy, seed: int) -> None:
    """No item gets a fault by an edit that it did not have before, whatever the labels and the policy."""

    def score(query: GateQuery) -> float | None:
        return (None, 0.1, 0.9, 0.9)[zlib.crc32(repr((seed, query)).encode()) % 4]

    items = random_items(random)
    positions = kept(items, policy, CallableScorer(score))
    found = problems([items[position] for position in positions])
    assert {Problem(positions[p.position], p.text) for p in found} <= set(problems(items))


def test_a_text_is_one_user_message() -> None:
    """An input that is a text has no history."""
    (message,) = read_responses(body("hello é")).conversation().messages
    assert (message.role, message.text) == ("user", "hello é")


@pytest.mark.parametrize(
    "sent",
    [
        body("hi", previous_response_id="resp_1"),
        body([user("hi")], conversation="conv_1"),
        body([user("hi")], conversation={"id": "conv_1"}),
        body([{"type": "item_reference", "id": "msg_1"}, user("hi")]),
        body([{"id": "msg_1"}, user("hi")]),
    ],
)
def test_a_history_at_the_backend_is_not_decided_on(backend: Backend, proxy: Proxy, sent: bytes) -> None:
    """What the guard cannot see passes as it came, marked and counted."""
    backend.script = accept
    answer = ask(proxy.port, path="/v1/responses", body=sent)
    assert (answer.status, answer.headers["x-guard-status"]) == (200, "bypassed:server_history")
    assert backend.last.body == sent
    wait_until(lambda: proxy.metric("guard_bypasses_total", {"reason": "server_history"}) == 1)


@pytest.mark.parametrize(
    "sent",
    [
        b"{}",
        body(7),
        body([7]),
        body([{"type": "hologram"}]),
        body([{"role": "owner"}]),
        body([user("half an emoji \ud83d")]),
        body([user("hi")], temperature=float("nan")),
    ],
)
def test_unknown_items_are_the_backends_to_judge(backend: Backend, proxy: Proxy, sent: bytes) -> None:
    """An item that the guard does not know may mean anything: nothing is left out around it."""
    backend.script = accept
    answer = ask(proxy.port, path="/v1/responses", body=sent)
    assert (answer.headers["x-guard-status"], backend.last.body) == ("bypassed:unreadable", sent)


@pytest.mark.parametrize(
    "sent",
    [
        body("hi"),
        body([user("hi")]),
        body([user("hi")], previous_response_id=None),
        body([output("a")]),
        body([output("a"), user("hi")]),
    ],
)
def test_without_history_nothing_changes(backend: Backend, proxy: Proxy, sent: bytes) -> None:
    """A first turn goes upstream byte for byte, as text or as items, odd ones too; null means not set."""
    backend.script = accept
    answer = ask(proxy.port, path="/v1/responses", body=sent)
    assert (answer.headers["x-guard-status"], backend.last.body) == ("unchanged", sent)


def test_kept_items_keep_their_bytes(backend: Backend, proxy: Proxy) -> None:
    """A shortened request differs in the items that are left out, and in nothing else."""
    backend.script = accept
    last = b'{ "content" :"old \\u0063ars", "role":"user","x": 1.0}'
    sent = b'{"model":"m", "input" : [{"role":"user","content":"red apples"}, %s], "reasoning": {"effort" : "low"}}'
    answer = ask(proxy.port, path="/v1/responses", body=sent % last)
    assert answer.headers["x-guard-label"] == "PIVOT"
    assert backend.last.body == b'{"model":"m","input":[%s],"reasoning":{"effort" : "low"}}' % last


def test_events_are_relayed_unchanged(backend: Backend, proxy: Proxy) -> None:
    """A stream of typed events reaches the client byte for byte."""
    events = b'event: response.created\ndata: {"type":"response.created"}\n\nevent: response.completed\ndata: {}\n\n'

    async def stream(request: Received, wire: Wire) -> None:
        await wire.begin_stream()
        for start in range(0, len(events), 7):
            await wire.chunk(events[start : start + 7])
        await wire.end_stream()

    backend.script = stream
    assert ask(proxy.port, path="/v1/responses", body=body("hi", stream=True)).body == events


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/responses/resp_1/input_items"),
    ],
)
def test_stored_responses_are_the_backends(backend: Backend, proxy: Proxy, method: str, path: str) -> None:
    """Reading, cancelling and deleting a response passes, undecided."""
    answer = ask(proxy.port, method, path)
    assert (answer.status, backend.last.target) == (200, path)
    assert "x-guard-status" not in answer.headers


async def accept(request: Received, wire: Wire) -> None:
    await wire.answer(b"{}")
