"""A chat request's bytes, read without losing one of them.

The body is parsed once into its top-level fields and its messages, each kept as the bytes that came in. Decisions read
a reduced view; what is forwarded is put together from those bytes, so unknown fields, key order and numbers survive.

    >>> chat = read_chat(b'{"messages": [{"role": "user"}, {"role": "user", "content": "b"}], "n": 1.0}')
    >>> len(chat.conversation().messages)
    2
    >>> chat.rebuild([1])
    b'{"messages":[{"role": "user", "content": "b"}],"n":1.0}'
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from guard.conversation import ROLES, Conversation, Message
from guard.errors import UnreadableChat
from serving.errors import bad_request


class Part(msgspec.Struct):
    """One part of a content list, as far as it has a text."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


Content = str | list[str | Part] | None


class _Function(msgspec.Struct):
    name: str = ""


class _Call(msgspec.Struct):
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    role: str
    content: Content = None
    refusal: str | None = None
    name: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    function_call: _Function | None = None


_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_MESSAGES = msgspec.json.Decoder(list[Raw])
_MESSAGE = msgspec.json.Decoder(_Message)
_TEXT = msgspec.json.Decoder(str)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class ChatBody:
    """A request body, read as far as it is needed.

    Attributes:
        field: name of the field that holds the history.
        model: the ``model`` field, empty where it is missing or no string.
        stream: whether a stream was asked for.
        size: length of the body in bytes.
    """

    field = "messages"

    def __init__(self, fields: dict[str, Raw], size: int) -> None:
        self.size = size
        self.model = _string(fields.get("model"))
        self.stream = _is_true(fields.get("stream"))
        self._fields = fields
        self._messages: list[Raw] = []

    def conversation(self) -> Conversation:
        """The messages as decisions see them.

        Raises:
            UnreadableChat: they have a shape that the guard does not understand.
        """
        try:
            self._messages = _MESSAGES.decode(self._fields[self.field])
        except KeyError:
            raise UnreadableChat(f"no {self.field}") from None
        except msgspec.DecodeError:
            raise UnreadableChat(f"{self.field} is no list") from None
        return Conversation.of(self.message(raw) for raw in self._messages)

    def message(self, raw: Raw) -> Message:
        """One element of the history as decisions see it.

        Raises:
            UnreadableChat: it has a shape that the guard does not understand.
        """
        return _message(raw)

    def text(self, name: str) -> str | None:
        """A top-level field's value, if it is a string."""
        raw = self._fields.get(name)
        return _string(raw) if raw is not None and bytes(memoryview(raw)[:1]) == b'"' else None

    def is_set(self, name: str) -> bool:
        """Whether a top-level field is there and not null."""
        return name in self._fields and bytes(self._fields[name]) != b"null"

    def element(self, position: int) -> dict[str, Any]:
        """The message at ``position`` with everything that is in it.

        Raises:
            UnreadableChat: a part that decisions do not read is beyond the parser (depth, size of a number, encoding).
        """
        try:
            return _OBJECT.decode(self._messages[position])
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise UnreadableChat("a message holds what the guard does not parse") from None

    def rebuild(
        self, kept: Sequence[int] | None, replaced: Mapping[int, bytes] | None = None, model: str | None = None
    ) -> bytes:
        """The body with the messages at ``kept`` alone; every value byte for byte as received.

        Args:
            kept: positions; None: the history as it came.
            replaced: messages that are put in the place of received ones, by position.
            model: put in the place of the requested one.
        """
        fields = self._fields
        if model is not None:
            fields = fields | {"model": Raw(msgspec.json.encode(model))}
        if kept is not None:
            new = replaced or {}
            messages = b",".join(new.get(position) or self._messages[position] for position in kept)
            fields = fields | {self.field: Raw(b"[" + messages + b"]")}
        return b"{" + b",".join(msgspec.json.encode(name) + b":" + bytes(raw) for name, raw in fields.items()) + b"}"


def read_chat(body: bytes) -> ChatBody:
    """Read a body of ``/v1/chat/completions``.

    Raises:
        ApiError: it is not JSON.
        UnreadableChat: it is JSON, but no object.
    """
    return ChatBody(fields_of(body), len(body))


def fields_of(body: bytes) -> dict[str, Raw]:
    """A body's top-level fields, their values as bytes.

    Raises:
        ApiError: it is not JSON.
        UnreadableChat: it is JSON, but no object.
    """
    try:
        return _FIELDS.decode(body)
    except (msgspec.DecodeError, RecursionError):
        pass
    # The fast parser is stricter than most (no NaN, no lone surrogates), and the backend's may accept the body.
    try:
        json.loads(body)
    except RecursionError:
        raise UnreadableChat("nested too deeply") from None
    except ValueError:
        raise bad_request("The request body is not valid JSON.", code="invalid_json") from None
    raise UnreadableChat("not an object, or JSON that the guard does not parse")


def _message(raw: Raw) -> Message:
    try:
        wire = _MESSAGE.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnreadableChat("a message has an unknown shape") from None
    if wire.role not in ROLES:
        raise UnreadableChat("a message has an unknown role")
    return Message(wire.role, joined(wire.content, wire.refusal), _calls(wire), _answers(wire), len(memoryview(raw)))


def joined(content: Content, refusal: str | None = None) -> str:
    """The text of a content field, parts joined by a line break."""
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else part.text or part.refusal or "" for part in content or ()]
    return "\n".join(part for part in [*parts, refusal or ""] if part)


def _calls(wire: _Message) -> tuple[str, ...]:
    if wire.tool_calls is None and wire.function_call is None:
        return ()
    # Some servers give no ids; the function's name is then all that links a result to its call.
    ids = [call.id or (call.function.name if call.function else "") for call in wire.tool_calls or ()]
    return (*ids, wire.function_call.name) if wire.function_call else tuple(ids)


def _answers(wire: _Message) -> str | None:
    return wire.tool_call_id or wire.name if wire.role in ("tool", "function") else None


def _string(raw: Raw | None) -> str:
    try:
        return _TEXT.decode(raw) if raw is not None else ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _is_true(raw: Raw | None) -> bool:
    return raw is not None and bytes(raw) == b"true"
