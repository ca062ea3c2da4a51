"""Whatever the guard leaves out, a backend that accepted the whole chat accepts the rest."""

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
from serving.wire import read_chat
from tests.chat_format import Problem, accepted, problems
from tests.fakes import CallableScorer, NoCache, WordRelevance
from tests.guard.strategies import policies
from tests.random_chats import long_chat, random_body, random_chat

Json = dict[str, Any]
TEXT = "red apples"


def random_gate(seed: int) -> CallableScorer:
    """A gate whose labels are random, and the same for the same question."""

    def score(query: GateQuery) -> float | None:
        asked = repr((seed, query.turn, query.history)).encode()
        return (None, 0.1, 0.1, 0.9, 0.9, 0.9)[zlib.crc32(asked) % 6]

    return CallableScorer(score)


def edited(messages: list[Json], policy: Policy, gate: CallableScorer, random: Random) -> tuple[list[Json], list[int]]:
    """The messages that would be forwarded, and where they stood."""
    chat = read_chat(random_body(messages, random))
    selection = Guard(gate, WordRelevance(), NoCache()).decide(chat.conversation(), policy).selection
    return json.loads(chat.rebuild(selection.kept))["messages"], list(selection.kept)


def in_the_original(found: list[Problem], kept: list[int]) -> set[Problem]:
    return {Problem(kept[problem.position], problem.text) for problem in found}


chats = st.randoms(use_true_random=False)


@settings(max_examples=400, deadline=None)
@given(chats, policies, st.integers(0, 9))
def test_an_edit_of_a_valid_chat_is_valid(random: Random, policy: Policy, seed: int) -> None:
    """What a strict backend accepts whole it accepts edited, whatever the labels and the policy."""
    messages = random_chat(random)
    rest, _ = edited(messages, policy, random_gate(seed), random)
    for late_results in (False, True):
        if accepted(messages, late_results=late_results):
            assert problems(rest, late_results=late_results) == []


@settings(max_examples=400, deadline=None)
@given(chats, policies, st.integers(0, 9))
def test_an_edit_adds_no_problem_of_its_own(random: Random, policy: Policy, seed: int) -> None:
    """No message of a faulty chat gets a fault by an edit that it did not have before."""
    messages = random_chat(random)
    rest, kept = edited(messages, policy, random_gate(seed), random)
    for late_results in (False, True):
        before = set(problems(messages, late_results=late_results))
        assert in_the_original(problems(rest, late_results=late_results), kept) <= before


@settings(max_examples=200, deadline=None)
@given(chats, policies, st.integers(0, 9))
def test_a_chat_that_alternates_still_alternates(random: Random, policy: Policy, seed: int) -> None:
    """Backends whose templates want user and assistant by turns get them by turns."""
    roles = ["user", "assistant"] * random.randrange(8) + ["user"]
    messages = [{"role": role, "content": random.choice(("red apples", "old cars", "sea"))} for role in roles]
    rest, _ = edited(messages, policy, random_gate(seed), random)
    assert [message["role"] for message in rest] == roles[: len(rest)]


def dropping(messages: list[Json], policy: Policy | None = None) -> list[Json]:
    """The edit of a gate that always says PIVOT."""
    rest, _ = edited(messages, policy or Policy(resume=False), CallableScorer(lambda _: 0.9), Random(0))
    assert problems(messages, late_results=True) == [], "a case must be valid to begin with"
    assert problems(rest, late_results=True) == []
    return rest


def user(text: str = TEXT, **fields: object) -> Json:
    return {"role": "user", "content": text, **fields}


def assistant(text: str | None = "ok", **fields: object) -> Json:
    return {"role": "assistant", "content": text, **fields}


def calls(*ids: str, text: str | None = None) -> Json:
    made = [{"id": i, "type": "function", "function": {"name": "look", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": text, "tool_calls": made}


def result(identity: str) -> Json:
    return {"role": "tool", "tool_call_id": identity, "content": "found"}


SYSTEM = {"role": "system", "content": "be brief"}
DEVELOPER = {"role": "developer", "content": "be brief"}
LEGACY: list[Json] = [
    {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
    {"role": "function", "name": "look", "content": "found"},
]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
FILE = {"type": "file", "file": {"file_id": "file-1"}}
PARTS = user([IMAGE, AUDIO, FILE, {"type": "text", "text": TEXT, "cache_control": {"type": "ephemeral"}}])  # type: ignore[arg-type]
PIVOT = user("old cars")

CASES: dict[str, tuple[list[Json], list[int]]] = {
    "calls in parallel": (
        [user(), calls("a", "b", "c"), result("c"), result("a"), result("b"), assistant(), PIVOT],
        [6],
    ),
    "calls in parallel, live": ([user(), assistant(), PIVOT, calls("a", "b"), result("b"), result("a")], [2, 3, 4, 5]),
    "several rounds": ([user(), calls("a"), result("a"), calls("b"), result("b"), assistant(), PIVOT], [6]),
    "a late result, dropped with its call": (
        [user(), calls("a"), user(), result("a"), assistant(), PIVOT],
        [5],
    ),
    "a late result in the live turn": ([user(), calls("a"), PIVOT, result("a")], [0, 1, 2, 3]),
    "a late result of the greeting": ([calls("a"), user(), assistant(), PIVOT, result("a")], [0, 1, 2, 3, 4]),
    "legacy functions": ([user(), *LEGACY, assistant(), PIVOT], [4]),
    "legacy functions, live": ([user(), assistant(), PIVOT, *LEGACY], [2, 3, 4]),
    "a developer message": ([DEVELOPER, user(), assistant(), PIVOT], [0, 3]),
    "names": ([user(name="ada"), assistant(name="bot"), user("old cars", name="bob")], [2]),
    "empty and null content": ([user(), assistant(""), user(), assistant(None, refusal="no"), PIVOT], [4]),
    "content parts": ([PARTS, assistant(), user("old cars")], [2]),
    "content parts, live": ([user(), assistant(), PARTS], [2]),
    "a refusal": ([user(), assistant(None, refusal="I can't."), PIVOT], [2]),
    "reasoning": ([user(), assistant(reasoning_content="hm"), PIVOT, assistant("so", reasoning="hm")], [2, 3]),
    "cache control": ([user(cache_control={"type": "ephemeral"}), assistant(), PIVOT], [2]),
    "the assistant first": ([assistant("Welcome!"), user(), assistant(), PIVOT], [3]),
    "an assistant prefill last": ([user(), assistant(), PIVOT, assistant("Sure:")], [2, 3]),
    "user messages in a row": ([user(), user(), assistant(), user(), PIVOT], [4]),
    "no user message": ([SYSTEM, assistant()], [0, 1]),
    "a system message in the middle": ([user(), assistant(), SYSTEM, PIVOT], [2, 3]),
    "an agent loop": (
        [user(), assistant(), PIVOT, calls("a"), result("a"), calls("b"), result("b")],
        [2, 3, 4, 5, 6],
    ),
    "ids that begin anew": ([user(), calls("a"), result("a"), PIVOT, calls("a"), result("a")], [3, 4, 5]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_stays_of_a_chat_is_valid(name: str) -> None:
    """After a PIVOT the protected messages stay, each with what it needs to be understood."""
    messages, kept = CASES[name]
    assert dropping(messages) == [messages[position] for position in kept]


def test_an_agent_loop_only_appends() -> None:
    """The prompt of every step of an agent loop begins with the prompt of the step before."""
    messages = [user(), assistant(), PIVOT]
    previous = dropping(messages)
    for step in range(10):
        messages += [calls(f"call_{step}"), result(f"call_{step}")]
        prompt = dropping(messages)
        assert prompt[: len(previous)] == previous
        assert len(prompt) == len(previous) + 2
        previous = prompt


@pytest.mark.parametrize("policy", [Policy(), Policy(budget=2000), Policy(resume=False, pin=2)])
def test_two_thousand_messages_stay_valid(policy: Policy) -> None:
    """A chat of 2,000 messages is edited like a short one."""
    random = Random(7)
    messages = long_chat(random, 2000)
    assert accepted(messages)
    rest, _ = edited(messages, policy, random_gate(1), random)
    assert problems(rest) == []


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([], "no messages"),
        ([{"role": "owner", "content": "x"}], "an unknown role"),
        ([{"role": "user", "content": None}], "content that is neither a string nor a list of parts"),
        ([{"role": "assistant"}], "an assistant message without content, calls or refusal"),
        ([user(), calls("a"), PIVOT], "a tool call that is not followed by its result"),
        ([user(), calls("a")], "a tool call that is not followed by its result"),
        ([user(), calls("a"), SYSTEM, result("a")], "a tool call that is not followed by its result"),
        ([user(), result("a")], "a tool result without a call before it"),
        ([{"role": "tool", "content": "x"}], "a tool result without tool_call_id"),
        ([{"role": "system", "content": [IMAGE]}], "a part of type 'image_url'"),
        ([calls("a", "a"), result("a")], "two calls with one id"),
    ],
)
def test_the_validator_refuses(messages: list[Json], text: str) -> None:
    """The validator that these tests rest on knows an invalid chat when it sees one."""
    assert text in [problem.text for problem in problems(messages)]
