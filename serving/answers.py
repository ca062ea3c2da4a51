"""What an answer says, put together from its bytes beside the client, which gets them first and unchanged.

Reads whole completions and streams of events, any chunking, compressed or not. It only observes: an answer that it
cannot read is relayed all the same, and its author stays unknown.

    >>> reader = AnswerReader()
    >>> for piece in (b'data: {"choices":[{"delta":{"content":"He', b'y"}}]}' + bytes([10, 10])):
    ...     reader.feed(piece)
    >>> reader.messages()
    [{'role': 'assistant', 'content': 'Hey'}]
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import msgspec

LONGEST = 16 * 1024 * 1024
"""Bytes of an answer, decompressed, that are read for its author; a longer answer has none."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_ENCODINGS = {"": None, "identity": None, "gzip": 31, "x-gzip": 31, "deflate": 47}
_BOM = b"\xef\xbb\xbf"


class AnswerReader:
    """A tap on an answer to a chat completion or to a request of the Responses API. One an answer."""

    def __init__(self, content_encoding: str = "") -> None:
        encoding = content_encoding.strip().lower()
        self._given_up = encoding not in _ENCODINGS
        window = _ENCODINGS.get(encoding)
        self._inflater = zlib.decompressobj(window) if window else None
        self._size = 0
        self._head = b""
        self._body: list[bytes] = []
        self._events: EventSplitter | None = None
        self._choices: dict[int, _Choice] = {}
        self._items: list[dict[str, Any]] = []

    def feed(self, chunk: bytes) -> None:
        """Take bytes of the body, in order."""
        if self._given_up or not chunk:
            return
        try:
            data = self._inflater.decompress(chunk, LONGEST + 1) if self._inflater else chunk
            self._take(data)
        except (zlib.error, RecursionError, OverflowError):
            self._give_up()

    def messages(self) -> list[dict[str, Any]]:
        """The message of each choice that said something, in the order of the choices; to be called at the end."""
        if self._given_up:
            return []
        if self._events is None:
            tree = _tree(b"".join(self._body))
            whole = [choice.get("message") for choice in _objects(tree.get("choices"))]
            return [message for message in whole if _is_message(message)] + _said(_objects(tree.get("output")))
        for data in self._events.end():
            self._event(data)
        said = [self._choices[index].message() for index in sorted(self._choices)]
        return [message for message in said if len(message) > 1] + _said(self._items)

    def _take(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > LONGEST:
            self._give_up()
            return
        if self._events is None and not self._body:
            # The body itself tells a stream from a whole answer; servers are careless with content types.
            self._head += data
            start = self._head.removeprefix(_BOM).lstrip()
            if not start:
                return
            data, self._head = self._head.removeprefix(_BOM), b""
            if not start.startswith((b"{", b"[")):
                self._events = EventSplitter()
        if self._events is None:
            self._body.append(data)
            return
        for event in self._events.feed(data):
            self._event(event)

    def _give_up(self) -> None:
        self._given_up = True
        self._body.clear()
        self._choices.clear()
        self._items.clear()

    def _event(self, data: bytes) -> None:
        tree = _tree(data)
        if tree.get("type") == "response.output_item.done":
            self._items += _objects([tree.get("item")])
        for choice in _objects(tree.get("choices")):
            index = choice.get("index")
            delta = choice.get("delta") or choice.get("message")
            if _is_message(delta):
                self._choices.setdefault(index if isinstance(index, int) else 0, _Choice()).add(delta)


class EventSplitter:
    """Server-sent events from bytes: yields the data of each event, however the bytes were cut.

    Follows the WHATWG's rules: lines end with CR, LF or both, several ``data`` lines are one event, a line that begins
    with a colon is a comment.
    """

    def __init__(self) -> None:
        self._partial: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take bytes and yield the data of the events that they complete."""
        whole = chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") and b"\r" not in chunk
        if whole and chunk.count(b"\n") == 2 and not self._data and not any(self._partial):
            yield chunk[6:-2]  # one event on one line, what nearly every chunk is
            return
        if self._partial and self._partial[-1].endswith(b"\r"):
            chunk = self._partial.pop() + chunk
        held = b""
        if chunk.endswith(b"\r"):  # half of a CR LF, perhaps
            chunk, held = chunk[:-1], b"\r"
        first, *lines = _LINE_END.split(chunk)
        self._partial.append(first)
        for line in lines:
            yield from self._line(b"".join(self._partial))
            self._partial = [line]
        if held:
            self._partial.append(held)

    def end(self) -> Iterator[bytes]:
        """Yield the event that no empty line ended, if there is one: clients differ on whether it counts."""
        yield from self._line(b"".join(self._partial).rstrip(b"\r"))
        yield from self._line(b"")
        self._partial = []

    def _line(self, line: bytes) -> Iterator[bytes]:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line and self._data:
            yield b"\n".join(self._data)
            self._data = []


class _Choice:
    """One choice of a stream while its deltas come in."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._parts: list[Any] = []
        self._refusal: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._function: _Call | None = None

    def add(self, delta: Mapping[str, Any]) -> None:
        """Take one delta."""
        content = delta.get("content")
        if isinstance(content, str):
            self._content.append(content)
        elif isinstance(content, list):
            self._parts += content
        if isinstance(refusal := delta.get("refusal"), str):
            self._refusal.append(refusal)
        calls = delta.get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, dict):
                index = call.get("index")
                self._calls.setdefault(index if isinstance(index, int) else position, _Call()).add(call)
        if isinstance(function := delta.get("function_call"), dict):
            self._function = self._function or _Call()
            self._function.add({"function": function})

    def message(self) -> dict[str, Any]:
        """The message that the deltas make, without what none of them gave."""
        message: dict[str, Any] = {"role": "assistant"}
        if self._parts:
            text = [{"type": "text", "text": "".join(self._content)}] if self._content else []
            message["content"] = [*text, *self._parts]
        elif any(self._content):
            message["content"] = "".join(self._content)
        if any(self._refusal):
            message["refusal"] = "".join(self._refusal)
        if self._calls:
            message["tool_calls"] = [self._calls[index].whole() for index in sorted(self._calls)]
        if self._function:
            message["function_call"] = self._function.whole()["function"]
        return message


class _Call:
    """One tool call while its deltas come in."""

    def __init__(self) -> None:
        self._id = ""
        self._name = ""
        self._arguments: list[str] = []

    def add(self, delta: Mapping[str, Any]) -> None:
        self._id = self._id or str(delta.get("id") or "")
        body = delta.get("function") or delta.get("custom")
        if not isinstance(body, dict):
            return
        self._name = self._name or str(body.get("name") or "")
        piece = body.get("arguments") if body.get("arguments") is not None else body.get("input")
        if piece is not None:
            self._arguments.append(piece if isinstance(piece, str) else msgspec.json.encode(piece).decode())

    def whole(self) -> dict[str, Any]:
        return {"id": self._id, "function": {"name": self._name, "arguments": "".join(self._arguments)}}


def _tree(data: bytes) -> dict[str, Any]:
    """An object of the API; an empty one where the data are something else, or cut."""
    try:
        tree = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _said(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Items of the Responses API that a client sends back as the model's words: messages and calls, no reasoning."""
    return [item for item in items if item.get("role") == "assistant" or item.get("call_id")]


def _is_message(message: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(message, dict)
