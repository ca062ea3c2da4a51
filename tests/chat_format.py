"""A strict reader of the chat format: what OpenAI's server accepts as ``messages``, and what it says about the rest.

Written from the published reference (create a chat completion: the message types, their required fields and content
parts) and from the order that the server enforces: an assistant message with tool calls is followed by one result for
each of them before anything else comes, and a result follows such a message. Fields that the reference does not know
are allowed, because other backends have their own (``reasoning_content``, ``cache_control``).

Some backends take results that come late, after the next user message, or not at all. ``problems`` says where each
problem is, so that a test can ask for less than validity: that an edit adds no problem of its own.

    >>> problems([{"role": "tool", "tool_call_id": "c1", "content": "4"}])
    [Problem(position=0, text='a tool result without a call before it')]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, order=True)
class Problem:
    """Why a message would be refused."""

    position: int
    text: str


def problems(messages: Sequence[Json], *, late_results: bool = False) -> list[Problem]:
    """What a strict backend would refuse.

    Args:
        messages: the request's list.
        late_results: whether results may come after other messages, as some backends allow.
    """
    if not messages:
        return [Problem(0, "no messages")]
    found = [Problem(position, text) for position, message in enumerate(messages) for text in _shape(message)]
    if found:
        return found
    return sorted(_late_order(messages) if late_results else _strict_order(messages))


def accepted(messages: Sequence[Json], *, late_results: bool = False) -> bool:
    """Whether a strict backend would take the messages."""
    return not problems(messages, late_results=late_results)


# Shape: each message alone.


def _shape(message: Json) -> Iterable[str]:
    check = _SHAPES.get(message.get("role", ""))
    if check is None:
        return ["an unknown role"]
    if not isinstance(message.get("name", ""), str):
        return ["a name that is no string"]
    return check(message)


def _instruction(message: Json) -> Iterable[str]:
    return _content(message, {"text"})


def _user(message: Json) -> Iterable[str]:
    return _content(message, {"text", "image_url", "input_audio", "file"})


def _assistant(message: Json) -> Iterable[str]:
    calls, legacy = message.get("tool_calls"), message.get("function_call")
    if calls is not None:
        yield from _calls(calls)
    if legacy is not None and not _strings(legacy, "name", "arguments"):
        yield "a function call without name and arguments"
    if not isinstance(message.get("refusal"), str | None):
        yield "a refusal that is no string"
    audio = message.get("audio")
    if audio is not None and not _strings(audio, "id"):
        yield "audio without an id"
    if message.get("content") is not None:
        yield from _content(message, {"text", "refusal"})
    elif not (calls or legacy or audio or isinstance(message.get("refusal"), str)):
        yield "an assistant message without content, calls or refusal"


def _tool(message: Json) -> Iterable[str]:
    if not isinstance(message.get("tool_call_id"), str):
        yield "a tool result without tool_call_id"
    yield from _content(message, {"text"})


def _function(message: Json) -> Iterable[str]:
    if not isinstance(message.get("name"), str):
        yield "a function result without name"
    if "content" not in message or not isinstance(message["content"], str | None):
        yield "a function result without content"


_SHAPES: Mapping[str, Callable[[Json], Iterable[str]]] = {
    "system": _instruction,
    "developer": _instruction,
    "user": _user,
    "assistant": _assistant,
    "tool": _tool,
    "function": _function,
}


def _content(message: Json, kinds: set[str]) -> Iterable[str]:
    content = message.get("content")
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        yield "content that is neither a string nor a list of parts"
        return
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in kinds:
            yield f"a part of type {kind!r}"
        elif not _PARTS[kind](part):
            yield f"an incomplete part of type {kind!r}"


def _strings(value: object, *names: str) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in names)


def _is_file(part: Json) -> bool:
    return isinstance(part.get("file"), dict) and any(_strings(part["file"], name) for name in ("file_id", "file_data"))


_PARTS: Mapping[str, Callable[[Json], bool]] = {
    "text": lambda part: _strings(part, "text"),
    "refusal": lambda part: _strings(part, "refusal"),
    "image_url": lambda part: _strings(part.get("image_url"), "url"),
    "input_audio": lambda part: _strings(part.get("input_audio"), "data", "format"),
    "file": _is_file,
}


def _calls(calls: object) -> Iterable[str]:
    if not isinstance(calls, list) or not calls:
        yield "tool_calls that is no list with calls"
        return
    for call in calls:
        kind = call.get("type") if isinstance(call, dict) else None
        if kind not in ("function", "custom") or not _strings(call, "id"):
            yield "a tool call without id and type"
        elif not _strings(call.get(kind), "name", "arguments" if kind == "function" else "input"):
            yield "a tool call without name and input"
    if len({call.get("id") for call in calls if isinstance(call, dict)}) < len(calls):
        yield "two calls with one id"


# Order: calls and their results.


def _ids(message: Json) -> list[str]:
    """What an assistant message waits for; a legacy call is answered by its function's name."""
    ids = [call["id"] for call in message.get("tool_calls") or ()]
    legacy = message.get("function_call")
    return [*ids, f"function {legacy['name']}"] if legacy else ids


def _answer(message: Json) -> str | None:
    if message["role"] == "tool":
        return str(message["tool_call_id"])
    return f"function {message['name']}" if message["role"] == "function" else None


def _strict_order(messages: Sequence[Json]) -> Iterable[Problem]:
    caller, due = 0, set[str]()
    for position, message in enumerate(messages):
        answer = _answer(message)
        if answer is not None:
            if answer not in due:
                yield Problem(position, "a tool result without a call before it")
            due.discard(answer)
            continue
        if due:
            yield Problem(caller, "a tool call that is not followed by its result")
        caller, due = position, set(_ids(message)) if message["role"] == "assistant" else set()
    if due:
        yield Problem(caller, "a tool call that is not followed by its result")


def _late_order(messages: Sequence[Json]) -> Iterable[Problem]:
    callers: dict[str, int] = {}
    due: set[tuple[int, str]] = set()
    for position, message in enumerate(messages):
        answer = _answer(message)
        if answer is None:
            for call in _ids(message):
                callers[call] = position
                due.add((position, call))
        elif answer in callers:
            due.discard((callers[answer], answer))
        else:
            yield Problem(position, "a tool result without a call before it")
    for position, _ in due:
        yield Problem(position, "a tool call that is not followed by its result")
