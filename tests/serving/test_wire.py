"""Reading a request without losing a byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.errors import UnreadableChat
from serving.errors import ApiError
from serving.wire import read_chat

USER = {"role": "user", "content": "hi"}


def encode(*messages: object, **fields: object) -> bytes:
    return json.dumps({"model": "m", "messages": list(messages), **fields}).encode()


def texts(*messages: object) -> list[str]:
    return [message.text for message in read_chat(encode(*messages)).conversation().messages]


def test_kept_messages_and_other_fields_keep_their_bytes() -> None:
    """Spacing, escapes, number forms, key order and unknown fields survive."""
    kept = rb'{ "content" : "\u00e9\n", "role":"user",  "x":1.0e+2 }'
    body = b'{"z": 1.50, "messages" : [ {"role":"user","content":"old"}, ' + kept + rb' ] , "tools":[{"b":1,"a":2}]}'
    chat = read_chat(body)
    chat.conversation()
    assert chat.rebuild([1]) == b'{"z":1.50,"messages":[' + kept + b'],"tools":[{"b":1,"a":2}]}'


NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=5)
FIELDS = st.dictionaries(st.text(max_size=5), SCALARS | st.lists(SCALARS, max_size=2), max_size=3)
KNOWN = dict.fromkeys(("name", "refusal", "tool_calls", "tool_call_id", "function_call"))


@settings(max_examples=60)
@given(
    fields=FIELDS,
    extras=st.lists(FIELDS, min_size=1, max_size=5),
    keep=st.sets(st.integers(0, 4)),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
def test_what_is_rebuilt_is_a_subsequence_with_everything_else_unchanged(
    fields: dict[str, Any], extras: list[dict[str, Any]], keep: set[int], indent: int | None, ascii_only: bool
) -> None:
    """Whatever the fields are, a rebuilt body differs from the request in nothing but the messages left out."""
    messages = [extra | {"role": "user", "content": str(number)} for number, extra in enumerate(extras)]
    messages = [message | KNOWN for message in messages]
    document = fields | {"messages": messages}
    chat = read_chat(json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode())
    assert len(chat.conversation().messages) == len(messages)
    kept = sorted(position for position in keep if position < len(messages))
    assert json.loads(chat.rebuild(kept)) == document | {"messages": [messages[position] for position in kept]}


def test_content_can_be_text_parts_null_or_missing() -> None:
    """Parts are joined, what is no text counts as none, and nobody sees a representation of the list."""
    image = {"type": "image_url", "image_url": {"url": "data:..."}}
    parts = {"role": "user", "content": [{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}, "c"]}
    empty = {"role": "assistant", "content": ""}
    assert texts(parts, {"role": "assistant", "content": None}, {"role": "user"}, empty) == ["a\nb\nc", "", "", ""]


def test_refusals_are_text() -> None:
    """A refusal is what the assistant said, as a part or as a field."""
    part = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    assert texts(part, {"role": "assistant", "content": None, "refusal": "never"}) == ["no", "never"]


def test_calls_and_results_are_linked_by_id() -> None:
    """Tool calls, late results and the legacy function call carry what binds them."""
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function"}]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "r"}
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    answer = {"role": "function", "name": "f", "content": "r"}
    found = read_chat(encode(call, result, legacy, answer)).conversation().messages
    assert [(message.calls, message.answers) for message in found] == [
        (("c1",), None),
        ((), "c1"),
        (("f",), None),
        ((), "f"),
    ]


@pytest.mark.parametrize("body", [b"", b"{", b"{]", b'{"messages": [tru]}', b"\xff", b'{"a":1} x'])
def test_what_is_not_json_is_the_clients_error(body: bytes) -> None:
    """Malformed JSON is answered with 400 by the proxy itself."""
    with pytest.raises(ApiError) as refused:
        read_chat(body)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'"hi"',
        b"null",
        b"{}",
        b'{"messages": null}',
        b'{"messages": {}}',
        b'{"messages": ["hi"]}',
        b'{"messages": [{"content": "no role"}]}',
        b'{"messages": [{"role": "wizard", "content": "hi"}]}',
        b'{"messages": [{"role": "user", "content": {"odd": 1}}]}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"messages": [{"role": "user", "content": "a"}], "temperature": NaN}',
        b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_json_that_is_no_chat_is_unreadable(body: bytes) -> None:
    """Valid JSON of an odd shape is for the backend to judge."""
    with pytest.raises(UnreadableChat):
        read_chat(body).conversation()


def test_sizes_are_those_of_the_request() -> None:
    """Token estimates count the message as received, arguments and images included."""
    message = {"role": "user", "content": "x", "padding": "y" * 400}
    (found,) = read_chat(encode(message)).conversation().messages
    assert found.size == len(json.dumps(message))
