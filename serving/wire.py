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
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from guard.conversation import ROLES, Conversation, Message
from guard.errors import UnreadableChat
from serving.errors import bad_request


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Function(msgspec.Struct):
    name: str = ""


class _Call(msgspec.Struct):
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    role: str
    content: str | list[str | _Part] | None = None
    refusal: str | None = None
    name: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    function_call: _Function | None = None


_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_MESSAGES = msgspec.json.Decoder(list[Raw])
_MESSAGE = msgspec.json.Decoder(_Message)
_TEXT = msgspec.json.Decoder(str)


class ChatBody:
    """A request body, read as far as it is needed.

    Attributes:
        model: the ``model`` field, empty where it is missing or no string.
        stream: whether a stream was asked for.
        size: length of the body in bytes.
    """

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
            self._messages = _MESSAGES.decode(self._fields["messages"])
        except KeyError:
            raise UnreadableChat("no messages") from None
        except msgspec.DecodeError:
            raise UnreadableChat("messages is no list") from None
        return Conversation.of(_message(raw) for raw in self._messages)

    def rebuild(self, kept: Sequence[int]) -> bytes:
        """The body with the messages at ``kept`` alone; every value byte for byte as received."""
        messages = b"[" + b",".join(self._messages[position] for position in kept) + b"]"
        fields = [
            msgspec.json.encode(name) + b":" + (messages if name == "messages" else bytes(raw))
            for name, raw in self._fields.items()
        ]
        return b"{" + b",".join(fields) + b"}"


def read_chat(body: bytes) -> ChatBody:
    """Read a body of ``/v1/chat/completions``.

    Raises:
        ApiError: it is not JSON.
        UnreadableChat: it is JSON, but no object.
    """
    return ChatBody(_fields(body), len(body))


def _fields(body: bytes) -> dict[str, Raw]:
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
    return Message(wire.role, _text(wire), _calls(wire), _answers(wire), len(memoryview(raw)))


def _text(wire: _Message) -> str:
    if isinstance(wire.content, str):
        return wire.content
    parts = [part if isinstance(part, str) else part.text or part.refusal or "" for part in wire.content or ()]
    return "\n".join(part for part in [*parts, wire.refusal or ""] if part)


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
