"""Bytes in, bytes out."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backend import Received, Wire, running_backend
from tests.http import PIVOT, REFINE, ask, chat
from tests.servers import running_proxy

ODD_PIVOT = chat(*PIVOT).replace(b'"model"', b'  "temperature":1.0e-0 ,\n "zeta" : [1, 2.50],  "model"')


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (ODD_PIVOT, {"x-guard-mode": "off"}),
        (ODD_PIVOT, {"x-guard-mode": "shadow"}),
        (ODD_PIVOT, {"x-guard-pin": "1"}),
        (chat("one turn").replace(b", ", b" ,\t"), {}),
        (chat(*REFINE, unknown={"a": 1.50}).replace(b", ", b" ,\t"), {}),
        (b'[{"not": "a chat"}]', {}),
    ],
    ids=["off", "shadow", "pinned", "first turn", "refine", "unreadable"],
)
def test_what_is_not_shortened_goes_upstream_byte_for_byte(body: bytes, headers: dict[str, str]) -> None:
    """Mode off or shadow, nothing to drop, or nothing understood: the body is the client's own."""
    with running_backend() as backend, running_proxy(backend.url) as proxy:
        backend.script = _answer_anything
        assert ask(proxy.port, body=body, headers=headers).status == 200
        assert backend.last.body == body


async def _answer_anything(request: Received, wire: Wire) -> None:
    await wire.answer(b"{}")


def test_what_is_shortened_keeps_the_bytes_of_the_rest() -> None:
    """Kept messages and all other fields are forwarded as they came."""
    with running_backend() as backend, running_proxy(backend.url) as proxy:
        ask(proxy.port, body=ODD_PIVOT)
        last = json.dumps({"role": "user", "content": PIVOT[2]}).encode()
        assert backend.last.body == b'{"temperature":1.0e-0,"zeta":[1, 2.50],"model":"m","messages":[' + last + b"]}"
        assert backend.last.header("content-length") == str(len(backend.last.body))


STREAM = 'data: {"a":"你好 \\u00e9"}\n\n: comment\n\ndata: [DONE]\n\n'.encode()


def test_streams_arrive_unchanged_in_any_chunking() -> None:
    """Wherever the backend's chunks end, within a character or a line, the client gets the same bytes."""
    cuts: list[int] = []

    async def stream(request: Received, wire: Wire) -> None:
        await wire.begin_stream()
        for start, end in zip([0, *cuts], [*cuts, len(STREAM)], strict=True):
            await wire.chunk(STREAM[start:end])
        await wire.end_stream()

    with running_backend(stream) as backend, running_proxy(backend.url) as proxy:

        @settings(max_examples=40, deadline=None)
        @given(st.sets(st.integers(1, len(STREAM) - 1)))
        def check(found: set[int]) -> None:
            cuts[:] = sorted(found)
            assert ask(proxy.port, body=chat("hi", stream=True)).body == STREAM

        check()


def test_pieces_are_not_held_back() -> None:
    """The client has a piece before the backend sends the next one."""
    go_on = threading.Event()

    async def stream(request: Received, wire: Wire) -> None:
        await wire.begin_stream()
        for piece in (b"data: 1\n\n", b"data: 2\n\n"):
            await wire.chunk(piece)
            await asyncio.to_thread(go_on.wait, 5)
            go_on.clear()
        await wire.end_stream()

    with running_backend(stream) as backend, running_proxy(backend.url) as proxy:
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
        connection.request("POST", "/v1/chat/completions", chat("hi", stream=True))
        answer = connection.getresponse()
        for piece in (b"data: 1\n\n", b"data: 2\n\n"):
            assert answer.read1() == piece
            go_on.set()
        assert answer.read() == b""
        connection.close()


def test_compressed_answers_stay_compressed() -> None:
    """A gzip body keeps its encoding header and its bytes, errors included."""
    packed = gzip.compress(b'{"error": {"message": "no such model"}}')

    async def refuse(request: Received, wire: Wire) -> None:
        await wire.answer(packed, 404, [("content-encoding", "gzip")])

    with running_backend(refuse) as backend, running_proxy(backend.url) as proxy:
        answer = ask(proxy.port, body=chat("hi"), headers={"accept-encoding": "gzip"})
        assert (answer.status, answer.headers["content-encoding"], answer.body) == (404, "gzip", packed)
        assert backend.last.header("accept-encoding") == "gzip"
