"""A request of the Responses API, read like a chat without losing one of its bytes.

``input`` is a text or a list of items. A message item is a message; a call and its output are tool traffic, tied by
their id; reasoning and what the backend's own tools did stand in the exchange that they belong to, so that each stays
or goes with the item that follows it. Settings among the items are protected like instructions.

    >>> body = b'{"input": [{"role": "user", "content": "a"}, {"type": "function_call", "call_id": "c", "name": "f"}]}'
    >>> [(message.role, message.calls) for message in read_responses(body).conversation().messages]
    [('user', ()), ('assistant', ('c',))]
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from guard.conversation import Conversation, Message
from guard.errors import UnreadableChat
from serving.wire import ChatBody, Content, fields_of, joined

SERVER_HISTORY = "server_history"
"""Why a request whose history lies at the backend is not decided on: the guard cannot see what it would keep."""

_MESSAGE_ROLES = frozenset({"user", "assistant", "system", "developer"})
_SETTINGS = frozenset(
    {"additional_tools", "compaction", "compaction_trigger", "configuration_update", "mcp_list_tools"}
)
"""Hold for all that follows; ``compaction`` stands for a history that nobody but the backend can read."""
_SPOKEN = frozenset(
    {
        "apply_patch_call",
        "code_interpreter_call",
        "computer_call",
        "custom_tool_call",
        "file_search_call",
        "function_call",
        "image_generation_call",
        "local_shell_call",
        "mcp_approval_request",
        "program",
        "reasoning",
        "shell_call",
        "tool_search_call",
        "web_search_call",
    }
)
_ANSWERED = frozenset(
    {
        "apply_patch_call_output",
        "computer_call_output",
        "custom_tool_call_output",
        "function_call_output",
        "local_shell_call_output",
        "mcp_approval_response",
        "mcp_call",
        "program_output",
        "shell_call_output",
        "tool_search_output",
    }
)


class _Item(msgspec.Struct):
    type: str | None = None
    role: str = ""
    content: Content = None
    id: str | None = None
    call_id: str | None = None
    approval_request_id: str | None = None


_ITEM = msgspec.json.Decoder(_Item)


class ResponsesBody(ChatBody):
    """A request body of ``/v1/responses``."""

    field = "input"

    def conversation(self) -> Conversation:
        if any(self.is_set(name) for name in ("previous_response_id", "conversation")):
            raise UnreadableChat("the history is at the backend", SERVER_HISTORY)
        text = self.text("input")
        if text is not None:
            return Conversation.of([Message("user", text, size=self.size)])
        return super().conversation()

    def message(self, raw: Raw) -> Message:
        try:
            item = _ITEM.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise UnreadableChat("an item has an unknown shape") from None
        size = len(memoryview(raw))
        if item.type in (None, "message") and item.role in _MESSAGE_ROLES:
            return Message(item.role, joined(item.content), size=size)
        if item.type == "item_reference" or (item.type is None and item.id):
            raise UnreadableChat("an item is at the backend", SERVER_HISTORY)
        return _traffic(item, size)


def read_responses(body: bytes) -> ResponsesBody:
    """Read a body of ``/v1/responses``.

    Raises:
        ApiError: it is not JSON.
        UnreadableChat: it is JSON, but no object.
    """
    return ResponsesBody(fields_of(body), len(body))


def _traffic(item: _Item, size: int) -> Message:
    kind = item.type or ""
    if kind in _SETTINGS:
        return Message("developer", "", size=size)
    if kind in _ANSWERED:
        return Message("tool", "", answers=_key(kind, item.call_id or item.approval_request_id), size=size)
    if kind not in _SPOKEN:
        raise UnreadableChat("an item has an unknown type")
    call = _key(kind, item.id if kind == "mcp_approval_request" else item.call_id)
    return Message("assistant", "", (call,) if call else (), size=size)


def _key(kind: str, identity: str | None) -> str | None:
    """What a call and its output have in common: calls of two kinds may bear the same id."""
    family = "mcp" if kind.startswith("mcp_") else kind.removesuffix("_output").removesuffix("_call")
    return f"{family}:{identity}" if identity else None
