"""The official client, unchanged but for its base URL, through the proxy to a backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.backend import Backend, running_backend
from tests.servers import Proxy, running_proxy


@pytest.fixture
def backend() -> Iterator[Backend]:
    with running_backend() as running:
        yield running


@pytest.fixture
def proxy(backend: Backend) -> Iterator[Proxy]:
    with running_proxy(backend.url) as running:
        yield running


@pytest.fixture
def client(proxy: Proxy) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{proxy.url}/v1", api_key="client-key", max_retries=0) as made:
        yield made


def test_a_completion_comes_back(client: OpenAI) -> None:
    """A client gets the backend's completion."""
    answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert answer.choices[0].message.content == "Hello"


def test_a_stream_comes_back(client: OpenAI) -> None:
    """A client gets the backend's stream."""
    stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "Hello"


def test_a_pivot_leaves_the_old_topic_out(client: OpenAI, backend: Backend) -> None:
    """Messages of the old topic do not reach the backend, and the headers say so."""
    answer = client.chat.completions.with_raw_response.create(
        model="m",
        messages=[
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "tell me of cats"},
            {"role": "assistant", "content": "cats purr"},
            {"role": "user", "content": "python lists?"},
        ],
    )
    assert answer.headers["x-guard-label"] == "PIVOT"
    assert (answer.headers["x-guard-kept"], answer.headers["x-guard-dropped"]) == ("2", "2")
    assert b"cats" not in backend.last.body
    assert b"be brief" in backend.last.body
