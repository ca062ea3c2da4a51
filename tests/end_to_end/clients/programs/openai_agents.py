"""The OpenAI Agents SDK. Arguments: base URL, feature."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel

BASE, FEATURE = sys.argv[1:]


class City(BaseModel):
    """A city."""

    city: str
    population: int


@function_tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def agent(**options: Any) -> Agent[Any]:  # noqa: ANN401 - the library's own options
    """An agent whose model is behind the proxy."""
    client = AsyncOpenAI(base_url=BASE, api_key="k", max_retries=0)
    return Agent(name="a", model=OpenAIChatCompletionsModel(model="m", openai_client=client), **options)


async def streaming() -> str:
    """A streamed run."""
    run = Runner.run_streamed(agent(), "hi")
    async for _ in run.stream_events():
        pass
    return str(run.final_output)


async def pivot() -> str:
    """A second run that goes on from the first one's items."""
    first = await Runner.run(agent(), "tell me of cats")
    items = [*first.to_input_list(), {"role": "user", "content": "python lists?"}]
    return str((await Runner.run(agent(), items)).final_output)


async def main() -> None:
    """Print what the feature gave."""
    set_tracing_disabled(disabled=True)
    if FEATURE == "streaming":
        found: object = await streaming()
    elif FEATURE == "pivot":
        found = await pivot()
    elif FEATURE == "tool loop":
        found = (await Runner.run(agent(tools=[add]), "2 + 3?")).final_output
    elif FEATURE == "structured output":
        found = (await Runner.run(agent(output_type=City), "Which city?")).final_output.model_dump()
    else:
        found = (await Runner.run(agent(), "hi")).final_output
    print(json.dumps(found))  # noqa: T201 - what the test reads


asyncio.run(main())
