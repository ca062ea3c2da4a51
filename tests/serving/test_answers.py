"""Answers are read from their bytes, whatever their chunking; and reading never fails a relay."""

from __future__ import annotations

import gzip
import json
import zlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.authorship import fingerprint
from serving import answers
from serving.answers import AnswerReader, EventSplitter
from tests.backend import completion, stream_events

CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": ""}}


def event(delta: dict[str, Any], index: int = 0) -> bytes:
    return (
        b"data: " + json.dumps({"choices": [{"index": index, "delta": delta}]}, ensure_ascii=False).encode() + b"\n\n"
    )


def read(*chunks: bytes, encoding: str = "") -> list[dict[str, Any]]:
    reader = AnswerReader(encoding)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.messages()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(marks)]


@given(
    st.lists(st.text(max_size=6), max_size=5),
    st.lists(st.integers(0, 10_000), max_size=12),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_any_chunking_gives_the_same_message(pieces: list[str], places: list[int], end: bytes) -> None:
    """A stream cut anywhere, inside characters and line ends too, says what its pieces say."""
    stream = b": hello\n\n" + b"".join(event({"content": piece}) for piece in pieces) + b"data: [DONE]\n\n"
    stream = stream.replace(b"\n", end)
    said = read(*cut(stream, places))
    assert "".join(message["content"] for message in said) == "".join(pieces)


@given(st.lists(st.integers(0, 10_000), max_size=8))
def test_whole_and_streamed_answers_are_the_same(places: list[int]) -> None:
    """The same words have the same fingerprint however they were sent."""
    (whole,) = read(*cut(completion("Hello"), places))
    (streamed,) = read(*cut(b"".join(stream_events("Hel", "lo")), places))
    assert fingerprint(whole) == fingerprint(streamed)


def test_tool_calls_are_put_together() -> None:
    """Argument pieces of parallel calls are joined by index; ids and names come with the first piece."""
    deltas = [
        {"tool_calls": [CALL, {**CALL, "index": 1, "id": "c2"}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": '{"b":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":1}'}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": " 2}"}}]},
    ]
    (message,) = read(*(event(delta) for delta in deltas))
    whole = {
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}},
            {"id": "c2", "type": "function", "function": {"name": "look", "arguments": '{"b": 2}'}},
        ]
    }
    assert fingerprint(message) == fingerprint(whole)


def test_every_choice_is_read() -> None:
    """With n > 1 each choice is a message of its own, streamed in any order."""
    said = read(event({"content": "b1"}, 1), event({"content": "a"}, 0), event({"content": "b2"}, 1))
    assert [message["content"] for message in said] == ["a", "b1b2"]


def test_refusals_and_legacy_calls_are_read() -> None:
    """What is no content is said all the same."""
    assert read(event({"refusal": "no"}), event({"refusal": "pe"})) == [{"role": "assistant", "refusal": "nope"}]
    (message,) = read(
        event({"function_call": {"name": "f", "arguments": "{"}}), event({"function_call": {"arguments": "}"}})
    )
    assert message["function_call"] == {"name": "f", "arguments": "{}"}


ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "r", "summary": []},
    {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": "Hello"}]},
    {"type": "function_call", "id": "f", "call_id": "c1", "name": "look", "arguments": "{}"},
]


def test_answers_of_the_responses_api_are_read() -> None:
    """Messages and calls among the output items are said, whole or streamed; reasoning is not."""
    whole = read(json.dumps({"object": "response", "output": ITEMS}).encode())
    events = [{"type": "response.output_item.done", "item": item} for item in ITEMS]
    delta = {"type": "response.output_text.delta", "delta": "Hello"}
    streamed = read(*(b"data: " + json.dumps(one).encode() + b"\n\n" for one in (delta, *events)))
    assert whole == streamed == ITEMS[1:]
    assert fingerprint(whole[0]) == fingerprint({"role": "assistant", "content": "Hello"})
    sent_back = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": ""}
    assert fingerprint(whole[1]) == fingerprint(sent_back)


def test_reasoning_alone_says_nothing() -> None:
    """Deltas of reasoning and of roles make no message."""
    assert read(event({"role": "assistant", "content": ""}), event({"reasoning_content": "hm"})) == []


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_answers_are_read(encoding: str, pack: Any) -> None:  # noqa: ANN401
    """A compressed answer is read beside the client, which unpacks it itself."""
    data = pack(b"".join(stream_events("Hel", "lo")))
    assert read(*cut(data, [3, 17, 40]), encoding=encoding)[0]["content"] == "Hello"


def test_a_cut_answer_says_what_arrived() -> None:
    """A client may keep half an answer in its history; its author is known."""
    stream = b"".join(stream_events("Hel", "lo"))
    assert read(stream[: stream.index(b'"lo"')])[0]["content"] == "Hel"


def test_events_that_are_no_chunks_are_passed_over() -> None:
    """A stray event does not hide what the others say."""
    assert read(b"data: ping\n\n", event({"content": "a"}), b"data: [1]\n\n")[0]["content"] == "a"


def test_an_unended_event_counts() -> None:
    """A server that leaves out the last empty line is understood."""
    assert read(event({"content": "a"}).rstrip(b"\n"))[0]["content"] == "a"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"<html>", b'{"choices": 3}', b'{"choices": [3, {}]}', b"\xff"]
)
def test_what_cannot_be_read_has_no_messages(body: bytes) -> None:
    """Errors and other content are relayed without being understood."""
    assert read(body) == []


@pytest.mark.parametrize("encoding", ["gzip", "br"])
def test_unknown_or_broken_packing_is_given_up(encoding: str) -> None:
    """Bytes that cannot be unpacked are nobody's words."""
    assert read(b"\x00\x01\x02", encoding=encoding) == []


@given(st.binary(max_size=200), st.sampled_from(["", "gzip"]))
def test_any_bytes_are_survived(data: bytes, encoding: str) -> None:
    """Reading never raises, whatever a backend sends."""
    read(data, b"data: " + data + b"\n\n", encoding=encoding)


def test_long_answers_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: an answer over the limit is not collected, and neither is one that unpacks to more."""
    monkeypatch.setattr(answers, "LONGEST", 1000)
    assert read(event({"content": "x" * 2000})) == []
    assert read(gzip.compress(completion("x" * 50_000)), encoding="gzip") == []


@given(st.lists(st.binary(max_size=30), max_size=4), st.lists(st.integers(0, 500), max_size=6))
def test_splitting_is_independent_of_chunks(pieces: list[bytes], places: list[int]) -> None:
    """The splitter yields the same events however its bytes are cut."""

    def events(*chunks: bytes) -> list[bytes]:
        splitter = EventSplitter()
        return [data for chunk in chunks for data in splitter.feed(chunk)] + list(splitter.end())

    data = b"".join(b"data: " + piece + b"\n\n" for piece in pieces)
    assert events(*cut(data, places)) == events(data)
