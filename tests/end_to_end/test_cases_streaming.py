"""Streams as backends send them, and what clients make of them behind the proxy."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time

import pytest
from openai import OpenAI

from tests.backend import Backend, Received, Wire, stream_events
from tests.http import ask, chat, sent
from tests.servers import Proxy


def event(**fields: object) -> bytes:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps(head | fields, ensure_ascii=False).encode() + b"\n\n"


def delta(finish: str | None = None, **fields: object) -> bytes:
    return event(choices=[{"index": 0, "delta": fields, "finish_reason": finish}])


USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11, "prompt_tokens_details": {"cached_tokens": 8}}
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": ""}}
PIECES = [{"index": 0, "function": {"arguments": piece}} for piece in ('{"q"', ': "你', '好"}')]
DONE = b"data: [DONE]\n\n"
STREAMS = {
    "usage at the end, without choices": [delta(content="Hi"), delta("stop"), event(choices=[], usage=USAGE), DONE],
    "usage beside the last choice": [
        delta(content="Hi"),
        event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}], usage=USAGE),
        DONE,
    ],
    "no usage": [delta(content="Hi"), delta("stop"), DONE],
    "tool calls in pieces": [
        delta(role="assistant", content=None, tool_calls=[CALL]),
        *(delta(tool_calls=[piece]) for piece in PIECES),
        delta("tool_calls"),
        DONE,
    ],
    "reasoning": [delta(reasoning_content="hm"), delta(reasoning="hm"), delta(content="Hi"), delta("stop"), DONE],
    "comments while it works": [b": OPENROUTER PROCESSING\n\n" * 3, delta(content="Hi"), delta("stop"), DONE],
    "other line ends": [delta(content="Hi").replace(b"\n\n", b"\r\n\r\n"), delta("stop"), DONE],
    "filter results first": [event(choices=[], prompt_filter_results=[{}]), delta(content="Hi"), delta("stop"), DONE],
    "an error as an event": [delta(content="Hi"), b'data: {"error":{"message":"overloaded","code":529}}\n\n'],
    "an error glued to half an event": [delta(content="Hi")[:-9] + b'data: {"error":"gone"}\n\n'],
    "no last event": [delta(content="Hi"), delta("stop")],
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_relayed_byte_for_byte(proxy: Proxy, backend: Backend, name: str) -> None:
    """No event is added, dropped, moved or rewritten, whatever the backend's habits are."""

    async def stream(request: Received, wire: Wire) -> None:
        await wire.begin_stream()
        for piece in STREAMS[name]:
            await wire.chunk(piece)
        await wire.end_stream()

    backend.script = stream
    body = chat("hi", stream=True, stream_options={"include_usage": True})
    assert ask(proxy.port, body=body).body == b"".join(STREAMS[name])
    assert backend.last.body == body


def test_a_character_split_over_chunks_stays_whole(proxy: Proxy, backend: Backend) -> None:
    """A stream sent byte by byte reads as it was written."""

    async def dribble(request: Received, wire: Wire) -> None:
        await wire.begin_stream()
        for byte in b"".join(STREAMS["tool calls in pieces"]):
            await wire.chunk(bytes([byte]))
        await wire.end_stream()

    backend.script = dribble
    with OpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client:
        stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
        calls = [call for chunk in stream for call in chunk.choices[0].delta.tool_calls or ()]
    assert "".join(call.function.arguments or "" for call in calls if call.function) == '{"q": "你好"}'


@pytest.mark.parametrize("encoding", ["gzip", "identity", "br, zstd"])
def test_small_events_are_passed_on_at_once(proxy: Proxy, backend: Backend, encoding: str) -> None:
    """Heartbeats and argument pieces are not collected, and a client's wish for compression holds nothing up."""
    go_on = threading.Event()

    async def beat(request: Received, wire: Wire) -> None:
        await wire.begin_stream()
        for number in range(5):
            await wire.chunk(b": beat %d\n\n" % number)
            await asyncio.to_thread(go_on.wait, 10)
            go_on.clear()
        await wire.end_stream()

    backend.script = beat
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    connection.request("POST", "/v1/chat/completions", chat("hi", stream=True), {"accept-encoding": encoding})
    answer = connection.getresponse()
    for number in range(5):
        assert answer.read1(100) == b": beat %d\n\n" % number
        go_on.set()
    assert answer.getheader("content-encoding") is None
    assert backend.last.header("accept-encoding") == encoding
    connection.close()


def test_a_stream_that_breaks_in_an_event_ends_in_an_error(proxy: Proxy, backend: Backend) -> None:
    """The client's library raises: half an answer is never recorded as a whole one."""

    async def die(request: Received, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(delta(content="Hi"))
        await wire.chunk(delta(content="there")[:40])
        wire.cut()

    backend.script = die
    texts: list[str] = []
    with OpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client:
        stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
        with pytest.raises(Exception, match=r"(?i)incomplete|peer closed|connection") as caught:
            texts.extend(chunk.choices[0].delta.content or "" for chunk in stream)
    assert "json" not in type(caught.value).__name__.lower()


def test_a_backend_that_reads_slowly_is_not_given_more_than_it_takes(proxy: Proxy, backend: Backend) -> None:
    """A client that does not read holds the backend back: what nobody reads is not piled up here."""
    written: list[int] = []

    async def flood(request: Received, wire: Wire) -> None:
        await wire.begin_stream()
        for _ in range(4000):
            await wire.chunk(b"x" * 16_384)
            written.append(1)
        await wire.end_stream()

    backend.script = flood
    with sent(proxy.port, chat("hi", stream=True)) as connection:
        connection.recv(10)
        before = -1
        while len(written) != before:
            before = len(written)
            time.sleep(0.3)
        assert len(written) < 4000


def test_all_of_a_clean_stream_is_a_clean_end(proxy: Proxy, backend: Backend) -> None:
    """A stream that ends well leaves the connection usable for the next request."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    for _ in range(3):
        connection.request("POST", "/v1/chat/completions", chat("hi", stream=True))
        assert connection.getresponse().read() == b"".join(stream_events("Hel", "lo"))
    connection.close()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", chat("hi")),
        ("/v1/chat/completions", chat("hi", stream=True)),
        ("/v1/responses", b'{"model":"m","input":"hi"}'),
        ("/v1/embeddings", b'{"model":"m","input":"hi"}'),
    ],
)
@pytest.mark.parametrize("begun", [False, True])
def test_a_client_that_leaves_ends_the_backends_work(
    proxy: Proxy, backend: Backend, path: str, body: bytes, *, begun: bool
) -> None:
    """Guarded or not, streamed or not, before the first byte or after it: within a second nobody works any more."""
    asked, left = threading.Event(), threading.Event()

    async def work(request: Received, wire: Wire) -> None:
        if begun:
            await wire.begin_stream([("content-type", "application/json")])
            await wire.chunk(b"{")
        asked.set()
        await wire.until_left()
        left.set()

    backend.script = work
    with sent(proxy.port, body, path=path) as connection:
        assert asked.wait(10)
        if begun:
            connection.recv(10)
    assert left.wait(1)
