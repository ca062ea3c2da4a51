"""The official Python client."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolUnionParam
from pydantic import BaseModel

from tests.backend import Backend, Received, Wire
from tests.http import PIVOT
from tests.servers import Proxy

CLIENT = f"openai-python {version('openai')}"
HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
ADD: ChatCompletionToolUnionParam = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    },
}


class City(BaseModel):
    """What the structured output is parsed into."""

    city: str
    population: int


@pytest.fixture
def client(proxy: Proxy) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as made:
        yield made


@pytest.mark.client(CLIENT, "completion")
def test_a_completion_comes_back(client: OpenAI) -> None:
    """A client gets the backend's completion, with its usage."""
    answer = client.chat.completions.create(model="m", messages=HI)
    assert answer.choices[0].message.content == "Hello"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 12


@pytest.mark.client(CLIENT, "completion")
async def test_the_asynchronous_client_is_answered(proxy: Proxy) -> None:
    """Requests at once over one asynchronous client are all answered."""
    async with AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client:
        answer = await client.chat.completions.create(model="m", messages=HI)
        stream = await client.chat.completions.create(model="m", messages=HI, stream=True)
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
    assert (answer.choices[0].message.content, "".join(pieces)) == ("Hello", "Hello")


@pytest.mark.client(CLIENT, "streaming")
def test_a_stream_comes_back(client: OpenAI) -> None:
    """A client gets the backend's stream, the usage at its end included."""
    stream = client.chat.completions.create(model="m", messages=HI, stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hello"
    assert chunks[-1].usage is not None


@pytest.mark.client(CLIENT, "streaming")
def test_the_streaming_helper_sees_its_events(client: OpenAI) -> None:
    """The helper puts the stream together and says when content and tool arguments are complete."""
    with client.chat.completions.stream(model="m", messages=HI, tools=[ADD]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds
    assert final.choices[0].finish_reason == "tool_calls"


@pytest.mark.client(CLIENT, "tool loop")
def test_a_tool_loop_reaches_its_end(client: OpenAI) -> None:
    """The model asks for a tool, gets its result, and answers."""
    messages = list(HI)
    first = client.chat.completions.create(model="m", messages=messages, tools=[ADD]).choices[0].message
    assert first.tool_calls
    messages.append(first.to_dict())  # type: ignore[arg-type]
    messages.append({"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "5"})
    last = client.chat.completions.create(model="m", messages=messages, tools=[ADD])
    assert last.choices[0].message.content == "It is 5."


@pytest.mark.client(CLIENT, "tool loop")
def test_the_tool_runner_reaches_its_end(client: OpenAI) -> None:
    """The client's own loop over the Responses API runs the function and comes back with the answer."""
    runners = pytest.importorskip("openai.lib.responses_tool_runner")
    parameters = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    tool = {"type": "function", "name": "add", "parameters": parameters, "strict": True}
    calls: list[Any] = []

    def run(arguments: Any) -> str:  # noqa: ANN401 - the client's own type
        calls.append(arguments)
        return "5"

    add = runners.RegisteredFunction(tool, run)
    response = runners.ResponsesToolRunner(functions=[add]).run(client, {"model": "m", "input": "2 + 3?"})
    assert calls == [{"a": 2, "b": 3}]
    assert response.output_text == "It is 5."


@pytest.mark.client(CLIENT, "structured output")
def test_a_schema_is_parsed(client: OpenAI) -> None:
    """The schema reaches the backend, and the answer is an object of the caller's class."""
    answer = client.chat.completions.parse(model="m", messages=HI, response_format=City)
    assert answer.choices[0].message.parsed == City(city="Paris", population=2)


@pytest.mark.client(CLIENT, "responses")
def test_a_response_comes_back(client: OpenAI, backend: Backend) -> None:
    """The Responses API works with text and with items."""
    assert client.responses.create(model="m", input="hi").output_text == "Hello"
    history: Any = [
        {"role": "user", "content": PIVOT[0]},
        {"role": "assistant", "content": PIVOT[1]},
        {"role": "user", "content": PIVOT[2]},
    ]
    raw = client.responses.with_raw_response.create(model="m", input=history)
    assert raw.headers["x-guard-label"] == "PIVOT"
    assert b"cats" not in backend.last.body


@pytest.mark.client(CLIENT, "errors")
def test_an_error_is_the_librarys_own(client: OpenAI, backend: Backend) -> None:
    """The backend's error arrives as the exception that callers catch, with its message and retry hint."""

    async def refuse(request: Received, wire: Wire) -> None:
        await wire.answer(b'{"error":{"message":"slow down","code":"rate"}}', 429, [("retry-after", "3")])

    backend.script = refuse
    with pytest.raises(openai.RateLimitError, match="slow down") as caught:
        client.chat.completions.create(model="m", messages=HI)
    assert caught.value.response.headers["retry-after"] == "3"


@pytest.mark.client(CLIENT, "pivot")
def test_a_pivot_leaves_the_old_topic_out(client: OpenAI, backend: Backend) -> None:
    """Messages of the old topic do not reach the backend, and the headers say so."""
    answer = client.chat.completions.with_raw_response.create(
        model="m",
        messages=[
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": PIVOT[0]},
            {"role": "assistant", "content": PIVOT[1]},
            {"role": "user", "content": PIVOT[2]},
        ],
    )
    assert answer.headers["x-guard-label"] == "PIVOT"
    assert (answer.headers["x-guard-kept"], answer.headers["x-guard-dropped"]) == ("2", "2")
    assert b"cats" not in backend.last.body
    assert b"be brief" in backend.last.body
