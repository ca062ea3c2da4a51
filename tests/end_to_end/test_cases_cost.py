"""Edits that would be valid and still cost money or quality."""

from __future__ import annotations

import json
from typing import Any

from tests.backend import Backend
from tests.http import ask
from tests.servers import Proxy, running_proxy

Json = dict[str, Any]


def post(port: int, texts: list[str], headers: dict[str, str] | None = None, **fields: object) -> dict[str, str]:
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]
    answer = ask(port, body=json.dumps({"model": "m", "messages": messages, **fields}).encode(), headers=headers)
    assert answer.status == 200
    return dict(answer.headers)


def prompt(backend: Backend) -> list[Json]:
    found: list[Json] = json.loads(backend.last.body)["messages"]
    return found


def test_turns_of_a_topic_only_append(proxy: Proxy, backend: Backend) -> None:
    """Within a topic, after a detour too, each prompt begins with the one before: a backend's prefix cache hits."""
    texts = ["old cars", "cars rust", "red apples", "apples are fruit"]
    previous: list[Json] = []
    for turn in range(12):
        texts += [f"apples number {turn}"]
        post(proxy.port, texts)
        assert prompt(backend)[: len(previous)] == previous
        previous = prompt(backend)
        texts += [f"answer {turn}"]
    assert len(previous) == 2 + 2 * 12 - 1


def test_near_the_budget_a_cut_is_rare(backend: Backend) -> None:
    """A cut makes room for many turns: the prefix is not given up at every turn or stride."""
    texts: list[str] = []
    cuts, previous = 0, list[Json]()
    with running_proxy(backend.url, policy__budget=600, policy__recent=2) as proxy:
        for turn in range(60):
            texts += [f"apples number {turn}"]
            post(proxy.port, texts)
            cuts += prompt(backend)[: len(previous)] != previous
            previous = prompt(backend)
            texts += ["apples " * 12]
    assert 1 <= cuts <= 12


def test_the_same_request_is_the_same_bytes_upstream(proxy: Proxy, backend: Backend) -> None:
    """Tool schemas keep the order of their keys, edited or not, now and the next time."""
    schema = {"zeta": {"type": "string"}, "alpha": {"type": "number"}, "mid": {"type": "boolean"}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": schema}}}]
    for texts in (["red apples", "ok", "green apples"], ["red apples", "ok", "old cars"]):
        bodies = set()
        for _ in range(2):
            post(proxy.port, texts, tools=tools)
            bodies.add(backend.last.body)
        (body,) = bodies
        assert json.dumps(tools).encode() in body


def test_a_standing_instruction_is_left_in_plain_view(proxy: Proxy, backend: Backend) -> None:
    """A wish for all answers stays in the prompt, in its own words and place, over pivots."""
    wish = "From now on always end every answer with STATUS::"
    texts = [wish, "fine STATUS::", "red apples", "ok", "old cars"]
    assert post(proxy.port, texts)["x-guard-label"] == "PIVOT"
    assert [message["content"] for message in prompt(backend)] == [wish, "fine STATUS::", "old cars"]


def test_an_old_topic_is_left_out_once_it_is_left(proxy: Proxy, backend: Backend) -> None:
    """Five exchanges on one subject are not sent with the first question on another."""
    texts = [text for turn in range(5) for text in (f"apples question {turn}", "apples answer")]
    assert post(proxy.port, [*texts, "old cars"])["x-guard-dropped"] == "10"
    assert [message["content"] for message in prompt(backend)] == ["old cars"]


def test_a_reset_is_policy_and_keeps_what_is_protected(backend: Backend) -> None:
    """Operators turn it off by model or altogether; live turn, instructions and whole tool exchanges stay."""
    texts = ["red apples", "ok", "old cars"]
    with running_proxy(backend.url, mode="shadow") as proxy:
        assert post(proxy.port, texts)["x-guard-status"] == "unchanged"
        assert len(prompt(backend)) == 3
    with running_proxy(backend.url, modes={"m*": "off"}) as proxy:
        assert post(proxy.port, texts)["x-guard-status"] == "bypassed:off"
        assert len(prompt(backend)) == 3


def test_one_endless_thread_with_a_sign_and_an_override(proxy: Proxy, backend: Backend) -> None:
    """The answer says that history was left out; a header brings it back, and so does returning to the topic."""
    texts = ["red apples", "ok", "old cars"]
    told = post(proxy.port, texts)
    assert (told["x-guard-status"], told["x-guard-label"], told["x-guard-dropped"]) == ("applied", "PIVOT", "2")
    assert post(proxy.port, texts, {"x-guard-mode": "off"})["x-guard-status"] == "bypassed:off"
    assert len(prompt(backend)) == 3
    post(proxy.port, [*texts, "cars rust", "green apples"])
    assert [message["content"] for message in prompt(backend)] == ["red apples", "ok", "green apples"]


def test_nothing_is_invented(proxy: Proxy, backend: Backend) -> None:
    """What a backend gets is messages of the client, none written, merged or summarised in their place."""
    texts = ["red apples", "ok", "old cars", "fine", "deep sea", "blue", "more cars"]
    told = post(proxy.port, texts)
    found = [message["content"] for message in prompt(backend)]
    assert [text for text in texts if text in found] == found
    assert int(told["x-guard-kept"]) == len(found)
    assert int(told["x-guard-kept"]) + int(told["x-guard-dropped"]) == len(texts)
