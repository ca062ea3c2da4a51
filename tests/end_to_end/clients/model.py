"""A backend that behaves as a model would: it talks, calls the tools it is given, and fills in the schema asked for.

"Hello"                          what it says
add(a=2, b=3), then "It is 5."   what it does with tools
{"city": "Paris", ...}           what it makes of a schema, asked for as a format or as a final tool
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.backend import Received, Wire

Json = dict[str, Any]

CITY = {"city": "Paris", "population": 2}
_FINAL_TOOL = "final_result"
_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "m"}
_USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


async def converse(request: Received, wire: Wire) -> None:
    """Answer a chat completion or a response."""
    body = json.loads(request.body)
    if request.target.endswith("/responses"):
        await wire.answer(json.dumps(_response(body)).encode())
    elif body.get("stream"):
        await wire.begin_stream()
        for event in _events(_message(body)):
            await wire.chunk(event)
        await wire.end_stream()
    else:
        message = _message(body)
        choice = {"index": 0, "message": message, "finish_reason": _finish(message)}
        completion = _HEAD | {"object": "chat.completion", "choices": [choice], "usage": _USAGE}
        await wire.answer(json.dumps(completion).encode())


def _message(body: Json) -> Json:
    names = [tool["function"]["name"] for tool in body.get("tools") or ()]
    if body["messages"][-1]["role"] == "tool":
        return _said("It is 5.")
    if _FINAL_TOOL in names:
        return _calling(_FINAL_TOOL, CITY)
    if names and names[0] != "add" and body.get("tool_choice"):
        return _calling(names[0], CITY)
    if "add" in names:
        return _calling("add", {"a": 2, "b": 3})
    wanted = (body.get("response_format") or {}).get("type", "text")
    return _said("Hello" if wanted == "text" else json.dumps(CITY))


def _said(text: str) -> Json:
    return {"role": "assistant", "content": text}


def _calling(name: str, arguments: Json) -> Json:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _finish(message: Json) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


def _events(message: Json) -> Iterator[bytes]:
    """A stream that cuts what is said, and arguments too, into small pieces."""
    yield _event({"role": "assistant", "content": "" if message["content"] else None})
    for start in range(0, len(message["content"] or ""), 3):
        yield _event({"content": message["content"][start : start + 3]})
    for call in message.get("tool_calls", ()):
        name = {"name": call["function"]["name"], "arguments": ""}
        yield _event({"tool_calls": [{"index": 0, "id": call["id"], "type": "function", "function": name}]})
        for start in range(0, len(call["function"]["arguments"]), 5):
            piece = call["function"]["arguments"][start : start + 5]
            yield _event({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield _event({}, _finish(message))
    yield _data({"choices": [], "usage": _USAGE})
    yield b"data: [DONE]\n\n"


def _event(delta: Json, finish: str | None = None) -> bytes:
    return _data({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _data(fields: Json) -> bytes:
    return b"data: " + json.dumps(_HEAD | {"object": "chat.completion.chunk"} | fields).encode() + b"\n\n"


def _response(body: Json) -> Json:
    items = body["input"] if isinstance(body["input"], list) else []
    if body.get("tools") and not any(item.get("type") == "function_call_output" for item in items):
        arguments = json.dumps({"a": 2, "b": 3})
        call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": arguments}
        output: Json = call | {"status": "completed"}
    else:
        text = "It is 5." if body.get("tools") else "Hello"
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        output = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    facts = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m"}
    settings = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": body.get("tools") or []}
    nothing: Json = {"error": None, "incomplete_details": None, "instructions": None, "metadata": {}}
    return facts | settings | nothing | {"output": [output]}
