"""Conversations that change their model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.backend import Backend, running_backend
from tests.http import ask, chat
from tests.servers import Proxy, running_proxy, wait_until

Json = dict[str, Any]


def call_message(model: str) -> Json:
    """What ``model`` said; the id of its call is the one that every model's first call has."""
    call = {"id": "call_0", "type": "function", "function": {"name": "look", "arguments": json.dumps({"by": model})}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def test_an_author_is_known_by_what_it_said_not_by_a_call_id(backend: Backend) -> None:
    """Two models whose calls have the same id are told apart, and switching between them breaks nothing."""
    with running_proxy(backend.url) as proxy:
        history: list[Json] = []
        for model in ("small", "large"):

            async def answer(request: Any, wire: Any, model: str = model) -> None:  # noqa: ANN401
                choice = {"index": 0, "message": call_message(model), "finish_reason": "tool_calls"}
                await wire.answer(json.dumps({"choices": [choice]}).encode())

            backend.script = answer
            history.append({"role": "user", "content": "look for cats"})
            got = ask(proxy.port, body=json.dumps({"model": model, "messages": history}).encode())
            assert got.status == 200
            history += [call_message(model), {"role": "tool", "tool_call_id": "call_0", "content": "a cat"}]
        history.append({"role": "user", "content": "more cats"})
        got = ask(proxy.port, body=json.dumps({"model": "large", "messages": history}).encode())
    assert "from=small" in got.headers["x-guard-handoff"]
    assert "foreign=1" in got.headers["x-guard-handoff"]
    assert json.loads(backend.last.body)["messages"] == history


@pytest.mark.parametrize("last", ["commit it", "write a compiler for this language", "hi"])
def test_the_words_of_a_turn_choose_no_model(last: str) -> None:
    """The name in the request chooses the backend: a short turn is not given to a small model that knows nothing."""
    with running_backend() as large, running_backend() as small:
        backends = [
            {"name": "small", "url": small.url, "models": ["small"]},
            {"name": "large", "url": large.url, "models": ["large"]},
        ]
        with running_proxy(large.url, backend=None, backends=backends) as proxy:
            assert ask(proxy.port, body=chat("write code", "def f(): ...", last, model="large")).status == 200
        assert (len(large.requests), len(small.requests)) == (1, 0)


def test_a_mixed_thread_can_be_audited(backend: Backend, tmp_path: Path) -> None:
    """Which models wrote the turns of a history, and which one went on, is declared in a header and in the log."""
    with running_proxy(backend.url, log__url=f"sqlite:///{tmp_path}/log.sqlite3") as proxy:
        ask(proxy.port, body=chat("look for cats", model="small"))
        got = ask(proxy.port, body=chat("look for cats", "Hello", "more cats", model="large"))
        assert got.headers["x-guard-handoff"].startswith("client")
        wait_until(lambda: bool(rows(proxy)))
        (row,) = rows(proxy)
    assert (row["kind"], row["reason"], row["suffix_model"]) == ("model", "client", "large")
    assert row["prefix_authors"] == {"small": 1}


def rows(proxy: Proxy) -> list[Json]:
    answer = ask(proxy.port, "GET", "/handoffs")
    found: list[Json] = json.loads(answer.body) if answer.status == 200 else []  # the log may not have begun
    return found
