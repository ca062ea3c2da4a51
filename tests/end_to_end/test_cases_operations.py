"""What operators and front ends run into over days."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.backend import Backend, Received, Wire, completion
from tests.http import PIVOT, REFINE, ask, chat
from tests.servers import Proxy, running_proxy


def test_no_label_grows_with_users(proxy: Proxy, backend: Backend) -> None:
    """Ids of users, tenants and requests are in no figure, however many there are."""
    for number in range(20):
        ask(proxy.port, body=chat("hi", user=f"user-{number}"), headers={"x-tenant": f"tenant-{number}"})
    page = ask(proxy.port, "GET", "/metrics").body
    assert b"guard_requests_total" in page
    assert b"user-" not in page
    assert b"tenant-" not in page


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_requests(backend: Backend) -> None:
    """After a warm-up, further conversations of all kinds leave memory where it was."""
    with running_proxy(backend.url, gate__cache_size=100, ledger__capacity=100) as proxy:

        def serve(first: int, last: int) -> None:
            for number in range(first, last):
                body = chat(f"cats {number}", f"purr {number} " * 200, f"lists {number}?")
                ask(proxy.port, body=body)
                backend.requests.clear()

        serve(0, 200)
        gc.collect()
        before = _resident()
        serve(200, 600)
        gc.collect()
        assert _resident() - before < 16 * 1024 * 1024


def _resident() -> int:
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/health", "/"])
def test_no_page_asks_a_model_anything(proxy: Proxy, backend: Backend, path: str) -> None:
    """Watching the proxy costs no completion and no other request to a backend."""
    ask(proxy.port, "GET", path)
    assert backend.requests == []


def test_images_in_many_requests_at_once_hold_nobody_up(backend: Backend) -> None:
    """While thirty large requests are on their way a small one is answered as soon as its backend answers."""
    release = threading.Event()

    async def hold_the_large(request: Received, wire: Wire) -> None:
        if len(request.body) > 100_000:
            await asyncio.to_thread(release.wait, 30)
        await wire.answer(completion("Hello"))

    backend.script = hold_the_large
    picture = "A" * 1_000_000
    with running_proxy(backend.url) as proxy, ThreadPoolExecutor(30) as pool:
        large = [pool.submit(ask, proxy.port, body=chat(*REFINE[:2], picture + " cats")) for _ in range(30)]
        while len(backend.requests) < 30:
            time.sleep(0.01)
        assert ask(proxy.port, body=chat("hi")).status == 200
        assert not any(request.done() for request in large)
        release.set()
        assert {request.result().status for request in large} == {200}


def test_the_proxy_depends_on_no_gateway() -> None:
    """Few packages, none of them a gateway: what is not installed cannot be taken over."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {requirement.split(">")[0].split("[")[0].strip().lower() for requirement in project["dependencies"]}
    assert not names & {"litellm", "portkey-ai", "langchain", "openai"}
    assert len(names) <= 20


def test_every_step_of_a_tool_loop_is_guarded_alike(proxy: Proxy, backend: Backend) -> None:
    """For any API client each round trip with tools is decided like its user turn, first and last."""
    messages = json.loads(chat(*PIVOT))["messages"]
    prompts, told = [], []
    for step in range(4):
        answer = ask(proxy.port, body=json.dumps({"model": "m", "messages": messages}).encode())
        told.append([answer.headers[f"x-guard-{name}"] for name in ("status", "label", "dropped", "probability")])
        prompts.append(json.loads(backend.last.body)["messages"])
        call = {"id": f"c{step}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{step}", "content": "lists of cats"},
        ]
    assert told == [told[0]] * 4
    assert told[0][:3] == ["applied", "PIVOT", "2"]
    assert prompts[-1] == messages[2:-2]


CHAT_HISTORY = "\n".join(f"USER: {PIVOT[0]}\nASSISTANT: {PIVOT[1]}" for _ in range(50))
PASTED = f"### Chat History:\n<chat_history>\n{CHAT_HISTORY}\n</chat_history>"
HELPERS = {
    "title": f"### Task:\nGenerate a concise, 3-5 word title.\n{PASTED}",
    "tags": f"### Task:\nGenerate 1-3 broad tags.\n{PASTED}",
    "follow-ups": f"### Task:\nSuggest 3-5 follow-up questions.\n{PASTED}",
    "search query": f"Generate search queries for:\n{CHAT_HISTORY}",
}


@pytest.mark.parametrize("name", HELPERS)
@pytest.mark.parametrize("instructed", [False, True])
def test_a_front_ends_helper_call_is_left_alone(proxy: Proxy, backend: Backend, name: str, instructed: bool) -> None:
    """One user message with the chat pasted in has no history: its bytes pass, and no label is given to it."""
    messages = [{"role": "system", "content": "You write titles."}] if instructed else []
    messages.append({"role": "user", "content": HELPERS[name]})
    body = json.dumps({"model": "m", "messages": messages, "stream": False, "max_tokens": 50}, indent=1).encode()
    answer = ask(proxy.port, body=body)
    assert (answer.headers["x-guard-status"], backend.last.body) == ("unchanged", body)
    assert "x-guard-label" not in answer.headers


def test_helper_calls_disturb_neither_threads_nor_figures(backend: Backend, tmp_path: Path) -> None:
    """A chat is decided as if its front end had never asked for titles and tags in between, and so it is counted."""
    turns = ["red apples", "ok", "old cars", "fine", "green apples"]
    found = []
    for helpers in ((), tuple(HELPERS.values())):
        with running_proxy(backend.url, log__url=f"sqlite:///{tmp_path}/{len(helpers)}.sqlite3") as proxy:
            told = []
            for last in (1, 3, 5):
                answer = ask(proxy.port, body=chat(*turns[:last]))
                told.append({k: v for k, v in answer.headers.items() if k[:8] == "x-guard-" and "-id" not in k})
                for helper in helpers:
                    ask(proxy.port, body=chat(helper))
            # Figures are counted after the answer, the log last of all: its rows are waited for first.
            logged = _rows(proxy, 2)
            counted = [
                proxy.metric("guard_decisions_total", {"label": label, "mode": "enforce"})
                for label in ("PIVOT", "REFINE")
            ]
            dropped = proxy.metric("guard_dropped_messages_total")
            found.append((told, counted, dropped, logged))
    assert found[0] == found[1]
    assert found[0][1] == [2.0, 0.0]


def _rows(proxy: Proxy, expected: int) -> int:
    """How many handoffs are logged, once it is as many as expected or some time has passed."""
    rows = 0
    for _ in range(200):
        page = ask(proxy.port, "GET", "/handoffs")
        rows = len(json.loads(page.body)) if page.status == 200 else 0
        if rows >= expected:
            break
        time.sleep(0.02)
    return rows
