"""LiteLLM as a client of the proxy. Arguments: base URL, feature."""

from __future__ import annotations

import json
import sys
from typing import Any

import litellm

BASE, FEATURE = sys.argv[1:]
HI = [{"role": "user", "content": "hi"}]
PROPERTIES = {"a": {"type": "integer"}, "b": {"type": "integer"}}
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": PROPERTIES}}}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "population": {"type": "integer"}}}


def ask(messages: list[Any], **options: Any) -> Any:  # noqa: ANN401 - the library's own types
    """One completion."""
    litellm.suppress_debug_info = True
    return litellm.completion("openai/m", messages, api_base=BASE, api_key="k", max_retries=0, **options)


def tool_loop() -> str:
    """A call, its result, and the answer."""
    asked = ask(HI, tools=[ADD]).choices[0].message
    result = {"role": "tool", "tool_call_id": asked.tool_calls[0].id, "content": "5"}
    return str(ask([*HI, asked.model_dump(), result], tools=[ADD]).choices[0].message.content)


def main() -> None:
    """Print what the feature gave."""
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA}}
    pivot = [
        {"role": "user", "content": "tell me of cats"},
        {"role": "assistant", "content": "cats purr"},
        {"role": "user", "content": "python lists?"},
    ]
    features = {
        "completion": lambda: ask(HI).choices[0].message.content,
        "streaming": lambda: "".join(chunk.choices[0].delta.content or "" for chunk in ask(HI, stream=True)),
        "tool loop": tool_loop,
        "structured output": lambda: json.loads(ask(HI, response_format=form).choices[0].message.content),
        "pivot": lambda: ask(pivot).choices[0].message.content,
    }
    print(json.dumps(features[FEATURE]()))  # noqa: T201 - what the test reads


main()
