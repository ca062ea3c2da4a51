"""Histories that are easily made invalid, through the proxy to a backend that checks the format strictly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.backend import Backend, Received, Wire, completion
from tests.chat_format import problems
from tests.http import Answer, ask
from tests.servers import Proxy, running_proxy

Json = dict[str, Any]

SYSTEM: Json = {"role": "system", "content": "be brief"}
OLD: Json = {"role": "user", "content": "tell me of cats"}
NEW: Json = {"role": "user", "content": "python lists?"}
MORE: Json = {"role": "user", "content": "more of cats"}


def said(content: object = "cats purr", **fields: object) -> Json:
    return {"role": "assistant", "content": content, **fields}


def calls(*ids: str, **fields: object) -> Json:
    made = [{"id": i, "type": "function", "function": {"name": "look", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "tool_calls": made, **fields}


def result(identity: str) -> Json:
    return {"role": "tool", "tool_call_id": identity, "content": "found"}


async def strict(request: Received, wire: Wire) -> None:
    """Answer a valid chat; say what is wrong with another."""
    found = problems(json.loads(request.body)["messages"])
    if found:
        await wire.answer(json.dumps({"error": {"message": str(found), "type": "invalid_request_error"}}).encode(), 400)
    else:
        await wire.answer(completion("Hello"))


@pytest.fixture(autouse=True)
def _strict_backend(backend: Backend) -> None:
    backend.script = strict


def post(proxy: Proxy, messages: list[Json], **headers: str) -> Answer:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(proxy.port, body=json.dumps({"model": "m", "messages": messages}).encode(), headers=names)


def forwarded(backend: Backend) -> list[Json]:
    found: list[Json] = json.loads(backend.last.body)["messages"]
    return found


@pytest.mark.parametrize("live", [[], [calls("c2"), result("c2")], [calls("c1"), result("c1")]])
def test_a_dropped_call_takes_its_result_along(proxy: Proxy, backend: Backend, live: list[Json]) -> None:
    """No result is left without the call it answers and no call without its result, live ones included."""
    answer = post(proxy, [SYSTEM, OLD, calls("c1"), result("c1"), said(), NEW, *live])
    assert (answer.status, answer.headers["x-guard-status"]) == (200, "applied")
    assert forwarded(backend) == [SYSTEM, NEW, *live]


@pytest.mark.parametrize("budget", [1, 40, 80, 120, 200, 400])
def test_a_budget_never_ends_between_call_and_result(backend: Backend, budget: int) -> None:
    """Wherever a budget cuts, the history begins with a user message and holds whole tool exchanges."""
    turn = [MORE, calls("c1", "c2", content=None), result("c2"), result("c1"), said()]
    with running_proxy(backend.url, policy__budget=budget, policy__recent=1) as proxy:
        assert post(proxy, [*turn * 6, MORE]).status == 200
    assert [message["role"] for message in forwarded(backend)[:1]] == ["user"]
    assert forwarded(backend)[-1] == MORE


def test_an_agents_history_is_cut_by_user_turns_and_not_to_the_last(backend: Backend) -> None:
    """In a chat of 400 tool messages and 8 user turns a budget keeps the recent turns whole."""
    turn = [MORE, *(message for step in range(25) for message in (calls(f"c{step}"), result(f"c{step}")))]
    with running_proxy(backend.url, policy__budget=5_000, policy__recent=4) as proxy:
        answer = post(proxy, [*turn * 8, MORE])
    assert int(answer.headers["x-guard-dropped"]) > 0
    assert int(answer.headers["x-guard-kept"]) >= 4 * len(turn)


@pytest.mark.parametrize(
    "message", [calls("c1", content=None), calls("c1", content=""), calls("c1"), calls("c1", content="I look.")]
)
def test_null_empty_and_missing_content_stay_what_they_are(proxy: Proxy, backend: Backend, message: Json) -> None:
    """A null is not removed, an empty text is not refused, and a missing key is not added."""
    post(proxy, [OLD, said(), NEW, message, result("c1")])
    assert forwarded(backend)[1] == message


def test_an_empty_answer_in_the_history_is_accepted(proxy: Proxy, backend: Backend) -> None:
    """A chat with an empty assistant message goes on."""
    assert post(proxy, [OLD, said(""), MORE]).status == 200
    assert forwarded(backend)[1] == said("")


def test_the_operators_instructions_survive_a_long_history(proxy: Proxy, backend: Backend) -> None:
    """System and developer messages stay in place, first or in the middle, however much is left out."""
    later = {"role": "developer", "content": "answer in French"}
    history = [message for _ in range(50) for message in (OLD, said())]
    post(proxy, [SYSTEM, *history, later, *history, NEW])
    assert forwarded(backend) == [SYSTEM, later, NEW]


def test_a_greeting_belongs_to_the_first_topic(proxy: Proxy, backend: Backend) -> None:
    """An assistant message before the first user message stays with that topic, or where the client pins it."""
    greeting = said("Arr, I am a pirate.")
    post(proxy, [greeting, OLD, said(), MORE])
    assert forwarded(backend)[0] == greeting
    post(proxy, [greeting, OLD, said(), NEW])
    assert forwarded(backend) == [NEW]
    post(proxy, [greeting, OLD, said(), NEW], x_guard_pin="1")
    assert forwarded(backend)[0] == greeting


def test_roles_are_forwarded_as_they_are(proxy: Proxy, backend: Backend) -> None:
    """A developer message is neither refused nor renamed; whether it is understood is the backend's business."""
    developer = {"role": "developer", "content": "Be brief."}
    assert post(proxy, [developer, OLD, said(), NEW]).status == 200
    assert forwarded(backend)[0] == developer


PARTS = [
    {"type": "text", "text": "more of cats"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "high"}},
    {"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}},
    {"type": "file", "file": {"file_id": "file-1"}},
]


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": PARTS}],
        [{"role": "user", "content": PARTS}, said([{"type": "text", "text": "cats"}]), MORE],
        [OLD, said([{"type": "refusal", "refusal": "no cats"}]), {"role": "user", "content": PARTS, "name": "ada"}],
    ],
)
def test_content_parts_are_forwarded_as_parts(proxy: Proxy, backend: Backend, messages: list[Json]) -> None:
    """Lists of parts reach the backend as lists, live and in the history, and never as text about a list."""
    assert post(proxy, messages).status == 200
    assert forwarded(backend) == messages


def test_fields_of_other_vendors_stay(proxy: Proxy, backend: Backend) -> None:
    """Reasoning, cache marks and signatures of kept messages are forwarded; they may be needed there."""
    message = said(
        reasoning_content="hm",
        reasoning_details=[{"type": "reasoning.encrypted", "data": "x"}],
        cache_control={"type": "ephemeral"},
    )
    post(proxy, [OLD, message, MORE])
    assert forwarded(backend)[1] == message
