"""HTTP as clients and backends speak it."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard

from tests.backend import Backend, Received, Wire, completion
from tests.http import PIVOT, ask, chat
from tests.servers import Proxy, running_proxy

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


@pytest.mark.parametrize("status", [200, 404, 503])
@pytest.mark.parametrize("coding", PACKED)
def test_a_compressed_answer_and_its_header_stay_together(
    proxy: Proxy, backend: Backend, coding: str, status: int
) -> None:
    """Bytes, length and encoding reach the client as the backend sent them, of errors too."""
    packed = PACKED[coding](completion("Hello"))

    async def answer(request: Received, wire: Wire) -> None:
        await wire.answer(packed, status, [("content-encoding", coding), ("vary", "accept-encoding")])

    backend.script = answer
    got = ask(proxy.port, body=chat("hi"), headers={"accept-encoding": coding})
    assert (got.status, got.body, got.headers["content-encoding"]) == (status, packed, coding)
    assert got.headers["content-length"] == str(len(packed))


def test_a_large_image_passes_and_keeps_passing(proxy: Proxy, backend: Backend) -> None:
    """A 12 MB picture is under the default limit, alone and in the history of the next turn."""
    url = "data:image/png;base64," + base64.b64encode(b"\0" * 9_000_000).decode()
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    history = [picture, {"role": "assistant", "content": "a black square"}, {"role": "user", "content": "square size?"}]
    for messages in (history[:1], history):
        assert ask(proxy.port, body=json.dumps({"model": "m", "messages": messages}).encode()).status == 200
    assert len(backend.last.body) > 12_000_000


def test_screenshots_of_an_old_topic_are_left_out_with_it(proxy: Proxy, backend: Backend) -> None:
    """Bytes that grow faster than tokens end with their topic."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 200_000}}
    old = {"role": "user", "content": [{"type": "text", "text": "red apples"}, picture]}
    messages = [*[old, {"role": "assistant", "content": "apples"}] * 21, {"role": "user", "content": "old cars"}]
    assert ask(proxy.port, body=json.dumps({"model": "m", "messages": messages}).encode()).status == 200
    assert len(backend.last.body) < 200


def test_the_limit_on_bodies_can_be_raised_and_lowered(backend: Backend) -> None:
    """What is over the limit is a 413 before anything is forwarded; the default is 64 MiB."""
    with running_proxy(backend.url, limits__body_bytes=2000) as proxy:
        assert proxy.settings.model_validate({"backends": [{"url": backend.url}]}).limits.body_bytes == 64 * 1024 * 1024
        assert ask(proxy.port, body=chat("x" * 3000)).status == 413
        assert ask(proxy.port, body=chat("x" * 1000)).status == 200
    assert len(backend.requests) == 1


def test_a_client_that_asks_first_is_told_to_go_on(proxy: Proxy, backend: Backend) -> None:
    """Expect: 100-continue is answered here, and the backend is not bothered with it."""
    body = chat("hi")
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")
        connection.sendall(body)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    assert (backend.last.header("expect"), backend.last.body) == (None, body)


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_request_in_chunks_is_guarded(proxy: Proxy, backend: Backend, size: int) -> None:
    """A body without a length is read to its end, decided on, and sent on with a length."""
    body = chat(*PIVOT)
    chunks = (body[start : start + size] for start in range(0, len(body), size))
    assert ask(proxy.port, body=chunks).headers["x-guard-label"] == "PIVOT"
    assert backend.last.header("transfer-encoding") is None
    assert backend.last.header("content-length") == str(len(backend.last.body))


TOLD = {
    "retry-after": "7",
    "retry-after-ms": "7000",
    "x-request-id": "req_1",
    "x-ratelimit-remaining-tokens": "5",
    "openai-processing-ms": "12",
    "access-control-allow-origin": "*",
}
OF_THE_HOP = {"keep-alive": "timeout=5", "proxy-authenticate": "Basic", "te": "trailers", "x-hop": "1"}


def test_headers_that_are_end_to_end_pass_and_those_of_the_hop_do_not(proxy: Proxy, backend: Backend) -> None:
    """Retry hints, ids, limits and traces cross the proxy in their direction; what speaks of a connection stays."""

    async def limited(request: Received, wire: Wire) -> None:
        hop = [("connection", "keep-alive, x-hop"), *OF_THE_HOP.items()]
        await wire.answer(b'{"error":{"message":"slow down"}}', 429, [*TOLD.items(), *hop])

    backend.script = limited
    sent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x-request-id": "mine"}
    hop = {"connection": "x-mine", "x-mine": "1", "te": "trailers", "proxy-authorization": "Basic eDp5"}
    answer = ask(proxy.port, body=chat("hi"), headers=sent | hop)
    assert (answer.status, answer.body) == (429, b'{"error":{"message":"slow down"}}')
    assert {name: answer.headers.get(name) for name in TOLD} == TOLD
    assert not OF_THE_HOP.keys() & answer.headers.keys()
    assert {name: backend.last.header(name) for name in sent} == sent
    assert [backend.last.header(name) for name in ("x-mine", "te", "proxy-authorization")] == [None, None, None]


def test_a_browser_may_ask_before_it_sends(backend: Backend) -> None:
    """A preflight is answered by the backend without a key of the client, and without one of the proxy's."""

    async def allow(request: Received, wire: Wire) -> None:
        await wire.answer(b"", 204, [("access-control-allow-origin", "*"), ("access-control-allow-methods", "POST")])

    backend.script = allow
    asked = {"origin": "https://app.example", "access-control-request-method": "POST"}
    with running_proxy(backend.url, auth__client_keys=["secret"], backend_key="theirs") as proxy:
        answer = ask(proxy.port, "OPTIONS", headers=asked)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (204, "*")
    assert backend.last.header("authorization") is None


@pytest.mark.parametrize(
    "configured", ["", "/", "/v1", "/v1/", "/v1/chat/completions", "/api/paas/v4", "/openai/deployments/x"]
)
@pytest.mark.parametrize("asked", ["/v1/chat/completions", "/v1//chat/completions", "/v1/v1/chat/completions"])
def test_bases_and_paths_meet(backend: Backend, configured: str, asked: str) -> None:
    """However the backend is written, and whatever slip the client makes, the one URL that was meant is asked."""
    base = configured.rstrip("/").removesuffix("/chat/completions") or "/v1"
    with running_proxy(backend.url.removesuffix("/v1") + configured) as proxy:
        answer = ask(proxy.port, path=asked + "?api-version=2024-10-21&x=%2F", body=chat(*PIVOT))
    assert answer.headers["x-guard-label"] == "PIVOT"
    assert backend.last.target == f"{base}/chat/completions?api-version=2024-10-21&x=%2F"


@pytest.mark.parametrize("body", [b"{", b"", b"{'a': 1}", b"\xff\xfe{}"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_what_is_no_json_is_a_400_with_an_error_object(proxy: Proxy, backend: Backend, path: str, body: bytes) -> None:
    """Client libraries parse it, raise it as the caller's mistake, and do not try again."""
    answer = ask(proxy.port, path=path, body=body)
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"
    assert isinstance(answer.error["message"], str)
    assert backend.requests == []


@pytest.mark.parametrize("body", [b"[]", b'"hi"', b"null", b"7"])
def test_json_that_is_no_request_is_the_backends_to_judge(proxy: Proxy, backend: Backend, body: bytes) -> None:
    """What the backend says about it reaches the client."""

    async def refuse(request: Received, wire: Wire) -> None:
        await wire.answer(b'{"error":{"message":"no object"}}', 422)

    backend.script = refuse
    answer = ask(proxy.port, body=body)
    assert (answer.status, answer.error["message"], backend.last.body) == (422, "no object", body)


ERRORS = {
    "an object": (400, b'{"error":{"message":"maximum context length","code":"context_length_exceeded"}}'),
    "a string": (400, b'{"error":"model not found"}'),
    "a plain text": (502, b"upstream connect error"),
    "a list": (404, b'[{"error":{"code":404}}]'),
    "a page": (413, b"<html><h1>413</h1></html>"),
    "nothing": (401, b""),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("texts", [("hi",), PIVOT])
def test_a_backends_error_is_its_own(proxy: Proxy, backend: Backend, name: str, texts: tuple[str, ...]) -> None:
    """Status and body are relayed in whatever shape they have, not wrapped in another error."""
    status, body = ERRORS[name]

    async def refuse(request: Received, wire: Wire) -> None:
        await wire.answer(body, status)

    backend.script = refuse
    answer = ask(proxy.port, body=chat(*texts))
    assert (answer.status, answer.body) == (status, body)
    assert answer.headers["x-guard-status"] in ("unchanged", "applied")


SAMPLING = {
    "temperature": 0.1,
    "top_p": 0.9,
    "n": 2,
    "seed": 7,
    "stop": ["\n"],
    "max_tokens": 5,
    "max_completion_tokens": 5,
    "presence_penalty": -1.0,
    "frequency_penalty": 1,
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "top_logprobs": 3,
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "parallel_tool_calls": False,
    "user": "u",
    "metadata": {"a": "b"},
    "service_tier": "flex",
    "reasoning_effort": "low",
    "prediction": {"type": "content", "content": "x"},
    "modalities": ["text"],
    "stream_options": {"include_usage": True},
    "top_k": 40,
    "min_p": 0.05,
    "chat_template_kwargs": {"enable_thinking": False},
}


def test_every_other_field_survives_an_edit_and_none_is_added(proxy: Proxy, backend: Backend) -> None:
    """A strict backend finds the client's fields and nothing of the proxy's own."""
    assert ask(proxy.port, body=chat(*PIVOT, **SAMPLING)).headers["x-guard-status"] == "applied"
    got = json.loads(backend.last.body)
    assert got == {"model": "m", "messages": [{"role": "user", "content": PIVOT[-1]}], **SAMPLING}


def test_secrets_in_headers_stay_with_whom_they_are_for(backend: Backend) -> None:
    """The guard's key does not go upstream, and what one client sends is not sent for the next one."""
    with running_proxy(backend.url, auth__client_keys=["ours"], backend_key="theirs") as proxy:
        canary = {"authorization": "Bearer ours", "x-api-key": "canary", "x-team-secret": "canary", "x-guard-pin": "0"}
        ask(proxy.port, body=chat("hi"), headers=canary)
        assert backend.last.header("authorization") == "Bearer theirs"
        assert [backend.last.header(name) for name in ("x-api-key", "x-guard-pin")] == [None, None]
        ask(proxy.port, body=chat("hi"), headers={"authorization": "Bearer ours"})
        assert backend.last.header("x-team-secret") is None
