"""LangChain, pydantic-ai and curl."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from tests.backend import Backend
from tests.http import PIVOT, chat
from tests.servers import Proxy

pytestmark = pytest.mark.filterwarnings("ignore")  # what these packages warn of is not this project's


def named(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package


class City(BaseModel):
    """A city."""

    city: str
    population: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ChatModel = Any
LANGCHAIN = named("langchain-openai")


@pytest.fixture
def langchain(proxy: Proxy) -> Iterator[ChatModel]:
    """LangChain's chat model."""
    module = pytest.importorskip("langchain_openai")
    model = module.ChatOpenAI(model="m", base_url=f"{proxy.url}/v1", api_key="k", max_retries=0)
    yield model
    model.root_client.close()


@pytest.mark.client(LANGCHAIN, "completion")
def test_langchain_completes(langchain: ChatModel) -> None:
    """An invoked model answers."""
    assert langchain.invoke("hi").content == "Hello"


@pytest.mark.client(LANGCHAIN, "streaming")
def test_langchain_streams(langchain: ChatModel) -> None:
    """A streamed model answers in pieces."""
    pieces = [chunk.content for chunk in langchain.stream("hi")]
    assert "".join(pieces) == "Hello"
    assert len(pieces) > 1


@pytest.mark.client(LANGCHAIN, "tool loop")
def test_langchain_calls_tools(langchain: ChatModel) -> None:
    """A bound tool is called, and its result is answered."""
    model = langchain.bind_tools([add])
    messages: list[Any] = [("user", "2 + 3?")]
    asked = model.invoke(messages)
    (call,) = asked.tool_calls
    assert call["args"] == {"a": 2, "b": 3}
    messages += [asked, {"role": "tool", "tool_call_id": call["id"], "content": "5"}]
    assert model.invoke(messages).content == "It is 5."


@pytest.mark.client(LANGCHAIN, "structured output")
def test_langchain_fills_in_a_schema(langchain: ChatModel) -> None:
    """A model with structured output gives an object of the caller's class."""
    found = langchain.with_structured_output(City, method="json_schema").invoke("Which city?")
    assert found == City(city="Paris", population=2)


@pytest.mark.client(LANGCHAIN, "pivot")
def test_langchain_is_guarded(langchain: ChatModel, backend: Backend) -> None:
    """The history that LangChain sends is shortened like any other."""
    assert langchain.invoke([("user", PIVOT[0]), ("ai", PIVOT[1]), ("user", PIVOT[2])]).content == "Hello"
    assert b"cats" not in backend.last.body


Agents = Callable[..., Any]
PYDANTIC_AI = named("pydantic-ai-slim")


@pytest.fixture
async def agent(proxy: Proxy) -> AsyncIterator[Agents]:
    """Makes agents of pydantic-ai."""
    pydantic_ai = pytest.importorskip("pydantic_ai")
    models = pytest.importorskip("pydantic_ai.models.openai")
    providers = pytest.importorskip("pydantic_ai.providers.openai")
    async with AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client:
        model = models.OpenAIChatModel("m", provider=providers.OpenAIProvider(openai_client=client))
        yield partial(pydantic_ai.Agent, model)


@pytest.mark.client(PYDANTIC_AI, "completion")
async def test_pydantic_ai_completes(agent: Agents) -> None:
    """An agent answers."""
    assert (await agent().run("hi")).output == "Hello"


@pytest.mark.client(PYDANTIC_AI, "streaming")
async def test_pydantic_ai_streams(agent: Agents) -> None:
    """A streamed run ends with the whole answer."""
    async with agent().run_stream("hi") as run:
        assert await run.get_output() == "Hello"


@pytest.mark.client(PYDANTIC_AI, "tool loop")
async def test_pydantic_ai_loops_over_tools(agent: Agents, backend: Backend) -> None:
    """The agent's loop runs the tool and ends, and its last prompt extends its first."""
    assert (await agent(tools=[add]).run("2 + 3?")).output == "It is 5."
    first, last = (json.loads(request.body)["messages"] for request in backend.requests)
    assert last[: len(first)] == first
    assert last[-1]["content"] == "5"


@pytest.mark.client(PYDANTIC_AI, "structured output")
async def test_pydantic_ai_fills_in_a_schema(agent: Agents) -> None:
    """A typed agent gives an object of the caller's class."""
    assert (await agent(output_type=City).run("Which city?")).output == City(city="Paris", population=2)


@pytest.mark.client(PYDANTIC_AI, "pivot")
async def test_pydantic_ai_is_guarded(agent: Agents, backend: Backend) -> None:
    """A run that goes on from an earlier run's messages is shortened when its subject changes."""
    made = agent()
    first = await made.run(PIVOT[0])
    await made.run(PIVOT[2], message_history=first.all_messages())
    assert b"cats" not in backend.last.body


CURL = "curl"


def curl(proxy: Proxy, body: bytes, *options: str, path: str = "/v1/chat/completions") -> str:
    program = shutil.which("curl")
    if program is None:
        pytest.skip("no curl here")
    head = ["-sS", "--max-time", "30", "-H", "content-type: application/json", "--data-binary", "@-"]
    done = subprocess.run([program, *head, *options, proxy.url + path], input=body, capture_output=True, check=True)
    return done.stdout.decode()


@pytest.mark.client(CURL, "completion")
@pytest.mark.parametrize("option", ["--http1.1", "--http1.0", "--compressed"])
def test_curl_completes(proxy: Proxy, option: str) -> None:
    """A command line of the usual kind gets JSON."""
    assert json.loads(curl(proxy, chat("hi"), option))["choices"][0]["message"]["content"] == "Hello"


@pytest.mark.client(CURL, "streaming")
def test_curl_streams(proxy: Proxy) -> None:
    """Events end with their last one."""
    assert curl(proxy, chat("hi", stream=True), "--no-buffer").endswith("data: [DONE]\n\n")


@pytest.mark.client(CURL, "errors")
def test_curl_sees_an_error_object(proxy: Proxy) -> None:
    """What is wrong with the request is said in JSON."""
    assert json.loads(curl(proxy, b"{"))["error"]["code"] == "invalid_json"


@pytest.mark.client(CURL, "responses")
def test_curl_responds(proxy: Proxy) -> None:
    """The Responses API answers a command line."""
    assert json.loads(curl(proxy, b'{"model":"m","input":"hi"}', path="/v1/responses"))["status"] == "completed"


@pytest.mark.client(CURL, "pivot")
def test_curl_is_told_of_a_pivot(proxy: Proxy, backend: Backend) -> None:
    """With headers shown the decision is seen, and a body in chunks after "Expect" is guarded too."""
    shown = curl(proxy, chat(*PIVOT), "-i", "-H", "transfer-encoding: chunked", "-H", "expect: 100-continue")
    assert "x-guard-label: PIVOT" in shown
    assert b"cats" not in backend.last.body
