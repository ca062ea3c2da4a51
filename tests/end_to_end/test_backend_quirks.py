"""Backends that are almost like OpenAI's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import AzureOpenAI, NotFoundError, OpenAI

from tests.backend import Backend, Received, Wire, completion
from tests.http import PIVOT, ask, chat
from tests.servers import Proxy, running_proxy

Json = dict[str, Any]


def test_azures_query_and_key_reach_it(backend: Backend, proxy: Proxy) -> None:
    """A deployment in the path, an api-version in the query and a key in api-key are forwarded, and guarded."""
    azure = AzureOpenAI(base_url=f"{proxy.url}/v1", api_version="2024-10-21", api_key="azure-key", max_retries=0)
    with azure as client:
        answer = client.chat.completions.with_raw_response.create(
            model="gpt", messages=json.loads(chat(*PIVOT))["messages"]
        )
    assert answer.headers["x-guard-label"] == "PIVOT"
    assert backend.last.target == "/v1/deployments/gpt/chat/completions?api-version=2024-10-21"
    assert backend.last.header("api-key") == "azure-key"


@pytest.mark.parametrize("path", ["", "/"])
def test_ollama_is_reached_by_its_bare_address(backend: Backend, path: str) -> None:
    """A base without any path means its OpenAI endpoint, for chats and for the list of models."""
    with running_proxy(backend.url.removesuffix("/v1") + path) as proxy:
        assert ask(proxy.port, body=chat("hi")).status == 200
        assert ask(proxy.port, "GET", "/v1/models").status == 200
    assert [request.target for request in backend.requests] == ["/v1/chat/completions", "/v1/models"]


def test_blank_lines_of_a_busy_backend_are_passed_on(backend: Backend, proxy: Proxy) -> None:
    """Some backends keep a connection alive with blank lines before the JSON; clients skip them."""

    async def slow(request: Received, wire: Wire) -> None:
        await wire.begin_stream([("content-type", "application/json")])
        for _ in range(3):
            await wire.chunk(b"\n")
        await wire.chunk(completion("Hello"))
        await wire.end_stream()

    backend.script = slow
    assert ask(proxy.port, body=chat("hi")).body == b"\n\n\n" + completion("Hello")
    with OpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client:
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert answer.choices[0].message.content == "Hello"


def test_reasoning_in_the_history_goes_back_to_the_backend_that_wants_it(backend: Backend, proxy: Proxy) -> None:
    """In a tool loop the reasoning of kept messages is forwarded; without it such backends refuse the request."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    step: Json = {"role": "assistant", "content": "", "reasoning_content": "I must look", "tool_calls": [call]}
    messages = [
        *json.loads(chat(*PIVOT))["messages"],
        step,
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
    ]
    assert ask(proxy.port, body=json.dumps({"model": "m", "messages": messages}).encode()).status == 200
    assert json.loads(backend.last.body)["messages"][1] == step


def test_an_answer_without_a_length_ends_with_its_connection(backend: Backend, proxy: Proxy) -> None:
    """Simple servers say the end of an answer by closing; the client gets all of it."""

    async def simple(request: Received, wire: Wire) -> None:
        await wire.write(b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n" + completion("Hello"))
        wire.cut()

    backend.script = simple
    for _ in range(2):
        assert ask(proxy.port, body=chat("hi")).body == completion("Hello")


def test_headers_in_capitals_and_repeated_ones_survive(backend: Backend, proxy: Proxy) -> None:
    """Names in any case arrive, and a header that comes twice comes twice."""

    async def shout(request: Received, wire: Wire) -> None:
        headers = [("X-Request-ID", "r1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Content-Type", "text/x")]
        await wire.answer(b"{}", headers=headers)

    backend.script = shout
    answer = ask(proxy.port, body=chat("hi"))
    assert (answer.headers["x-request-id"], answer.headers["content-type"]) == ("r1", "text/x")


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":"model \'m\' not found"}',
        b'{"object":"error","message":"no such model","type":"NotFoundError","param":null,"code":404}',
        b'{"detail":"Not Found"}',
        b"404 page not found",
    ],
)
def test_error_bodies_of_any_shape_raise_the_librarys_exception(backend: Backend, proxy: Proxy, body: bytes) -> None:
    """A string for an error, a bare text or another object: the client's library sees what it would without a proxy."""

    async def refuse(request: Received, wire: Wire) -> None:
        await wire.answer(body, 404)

    backend.script = refuse
    with (
        OpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client,
        pytest.raises(NotFoundError) as caught,
    ):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert caught.value.response.content == body
