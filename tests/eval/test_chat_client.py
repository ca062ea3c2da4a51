from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from eval.chat_client import LONGEST_PAUSE_S, ChatClient, ChatRequest, Endpoint, Pace, ReplayCache, pause
from eval.errors import BackendError
from tests.backend import Backend, Received, Script, Wire, stream_events

REQUEST = ChatRequest("m", ({"role": "user", "content": "hi"},), {"temperature": 0})


@asynccontextmanager
async def served(script: Script) -> AsyncIterator[Backend]:
    """The fake backend on a port of its own, in the test's own loop."""
    backend = Backend(script)
    server = await asyncio.start_server(backend.serve_connection, "127.0.0.1", 0)
    backend.port = server.sockets[0].getsockname()[1]
    yield backend
    server.close()
    await asyncio.sleep(0)


def _in_turn(*steps: Script) -> Script:
    """A script that takes one step a request and repeats the last."""
    remaining = list(steps)

    async def script(request: Received, wire: Wire) -> None:
        step = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        await step(request, wire)

    return script


def _status(code: int, **headers: str) -> Script:
    async def script(request: Received, wire: Wire) -> None:
        await wire.answer(b'{"error": {"message": "no"}}', code, list(headers.items()))

    return script


async def _hello(request: Received, wire: Wire) -> None:
    await wire.begin_stream([("content-type", "text/event-stream"), ("X-Guard-Label", "PIVOT"), ("x-other", "1")])
    *events, end = stream_events("Hel", "lo")
    for event in events:
        await wire.chunk(event)
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
    await wire.chunk(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n" + end)
    await wire.end_stream()


async def test_an_answer_is_collected() -> None:
    """Text, usage, times and the guard's headers come out of a stream."""
    async with served(_hello) as backend, ChatClient(Endpoint(backend.url, api_key="secret")) as client:
        reply = await client.complete(REQUEST)
    assert (reply.text, reply.finish_reason) == ("Hello", "stop")
    assert (reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens) == (7, 3, 2)
    assert reply.headers == {"x-guard-label": "PIVOT"}
    assert reply.first_token_s is not None
    assert 0 < reply.first_token_s <= reply.total_s
    assert backend.last.header("authorization") == "Bearer secret"
    assert json.loads(backend.last.body)["temperature"] == 0


async def test_a_server_that_does_not_stream_is_read() -> None:
    """A whole answer is read where a stream was asked for."""
    body = {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}

    async def script(request: Received, wire: Wire) -> None:
        await wire.answer(json.dumps(body).encode())

    async with served(script) as backend, ChatClient(Endpoint(backend.url)) as client:
        assert (await client.complete(REQUEST)).text == "whole"


async def test_nothing_is_asked_twice(tmp_path: Path) -> None:
    """Another run, on another port, takes the answer from the cache."""
    for asked in (1, 0):
        async with served(_hello) as backend:
            async with ChatClient(Endpoint(backend.url), ReplayCache(tmp_path / "c.sqlite3")) as client:
                assert (await client.complete(REQUEST)).text == "Hello"
            assert len(backend.requests) == asked
            assert client.calls == {"sent": asked, "replayed": 1 - asked, "retried": 0}


@pytest.mark.parametrize(
    "other",
    [
        ChatRequest("n", REQUEST.messages, REQUEST.options),
        ChatRequest("m", ({"role": "user", "content": "hi!"},), REQUEST.options),
        ChatRequest("m", REQUEST.messages, {"temperature": 1}),
        ChatRequest("m", REQUEST.messages, REQUEST.options, repeat=1),
        ChatRequest("m", REQUEST.messages, REQUEST.options, salt="gate"),
    ],
)
def test_another_request_has_another_key(other: ChatRequest) -> None:
    """Model, messages, options, repeat and salt are all part of the key."""
    assert other.digest != REQUEST.digest


async def test_identical_requests_in_flight_are_sent_once() -> None:
    """Two callers that ask the same at the same time share one request."""
    async with served(_hello) as backend:
        async with ChatClient(Endpoint(backend.url)) as client:
            replies = await asyncio.gather(client.complete(REQUEST), client.complete(REQUEST))
        assert len(backend.requests) == 1
    assert replies[0] == replies[1]


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_passing_fault_is_retried(code: int) -> None:
    """Overload and server errors are asked again, after the time that the server names."""
    script = _in_turn(_status(code, **{"retry-after": "0"}), _hello)
    async with served(script) as backend, ChatClient(Endpoint(backend.url)) as client:
        assert (await client.complete(REQUEST)).text == "Hello"
    assert client.calls["retried"] == 1


async def test_a_broken_stream_is_retried() -> None:
    """An answer that breaks off is asked for again, and half of it is never kept."""

    async def broken(request: Received, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(next(iter(stream_events("Hel", "lo"))))
        wire.cut()

    async with served(_in_turn(broken, _hello)) as backend, ChatClient(Endpoint(backend.url)) as client:
        assert (await client.complete(REQUEST)).text == "Hello"


async def test_a_refusal_is_final() -> None:
    """A request that the server refuses is not repeated; the error quotes the server."""
    async with served(_status(400)) as backend:
        async with ChatClient(Endpoint(backend.url)) as client:
            with pytest.raises(BackendError, match=r"HTTP 400.*no"):
                await client.complete(REQUEST)
        assert len(backend.requests) == 1


async def test_retries_end(tmp_path: Path) -> None:
    """A server that stays down is given up on, and the failure is not remembered."""
    cache = ReplayCache(tmp_path / "c.sqlite3")
    async with served(_status(503, **{"retry-after": "0"})) as backend:
        async with ChatClient(Endpoint(backend.url, retries=2), cache) as client:
            with pytest.raises(BackendError, match="3 attempts"):
                await client.complete(REQUEST)
        assert len(backend.requests) == 3
    assert cache.get(REQUEST.digest) is None
    cache.close()


async def test_no_more_than_asked_for_run_at_once() -> None:
    """The endpoint's concurrency is a bound."""
    running = most = 0

    async def script(request: Received, wire: Wire) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        await _hello(request, wire)

    async with served(script) as backend, ChatClient(Endpoint(backend.url, concurrency=2)) as client:
        requests = [ChatRequest("m", REQUEST.messages, repeat=n) for n in range(6)]
        await asyncio.gather(*(client.complete(one) for one in requests))
    assert most == 2


async def test_requests_are_paced() -> None:
    """A rate limit spaces the starts of requests, of all clients that share it."""
    starts: list[float] = []

    async def script(request: Received, wire: Wire) -> None:
        starts.append(asyncio.get_running_loop().time())
        await _hello(request, wire)

    async with served(script) as backend:
        endpoint, pace = Endpoint(backend.url), Pace(1200)
        async with ChatClient(endpoint, None, pace) as one, ChatClient(endpoint, None, pace) as other:
            asked = (ChatRequest("m", REQUEST.messages, repeat=n) for n in range(4))
            begun = asyncio.get_running_loop().time()
            await asyncio.gather(*(client.complete(next(asked)) for client in (one, other, one, other)))
    assert max(starts) - begun >= 0.14


def test_pauses_double_up_to_a_bound() -> None:
    """Without word from the server the pause doubles, apart for each request; a server's word counts, up to a bound."""
    first = [pause(attempt, None, REQUEST.digest) for attempt in range(12)]
    assert 0.25 <= first[0] <= 0.75
    assert first[1:4] == [2 * first[0], 4 * first[0], 8 * first[0]]
    assert first[-1] == LONGEST_PAUSE_S
    assert pause(0, None, "ffff") == 3 * pause(0, None, "0000")
    assert (pause(5, 2.0, REQUEST.digest), pause(0, 3600.0, REQUEST.digest)) == (2.0, LONGEST_PAUSE_S)


def test_prompt_tokens_are_estimated() -> None:
    """Four bytes a token, and four tokens of framing a message."""
    assert ChatRequest("m", ({"role": "user", "content": "x" * 40},)).estimated_tokens == 14
