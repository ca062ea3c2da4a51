"""What each policy may do to a request, whatever the chat."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from guard.conversation import INSTRUCTION_ROLES, Conversation
from serving.mitigations import MARK, MOST_RESTATED, Handed, mitigate
from tests.fakes import chat
from tests.guard.strategies import conversations

Json = dict[str, Any]


@st.composite
def handed(draw: st.DrawFn) -> Handed:
    """A random chat on its way to another model: any messages kept, any assistant messages foreign."""
    conversation = draw(conversations.filter(lambda chat: bool(chat.exchanges)))
    positions = range(len(conversation.messages))
    dropped = draw(st.sets(st.sampled_from(positions)))
    kept = tuple(p for p in positions if p not in dropped or p == conversation.exchanges[-1].user)
    spoken = [p for p in positions if conversation.messages[p].role == "assistant"]
    foreign = frozenset(draw(st.sets(st.sampled_from(spoken)))) if spoken else frozenset()
    as_parts = draw(st.booleans())

    def element(position: int) -> Json:
        message = conversation.messages[position]
        content = [{"type": "text", "text": message.text}] if as_parts else message.text
        return {"role": message.role, "content": content, "n": position}

    return Handed(conversation, kept, foreign, None, draw(st.integers(0, 2)), element)


def text(message: Json) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def replaced(edit: Any) -> dict[int, Json]:  # noqa: ANN401
    return {position: msgspec.json.decode(data) for position, data in edit.replaced.items()}


@given(handed())
def test_nothing_is_edited_unless_asked(case: Handed) -> None:
    """Without policies the selection goes on as it is."""
    edit = mitigate(case, [])
    assert (edit.kept, dict(edit.replaced), edit.applied) == (case.kept, {}, ())


@given(handed())
def test_drop_leaves_a_valid_subsequence(case: Handed) -> None:
    """Only foreign answers without tool calls go, never the live exchange or a pinned one, and nothing is changed."""
    edit = mitigate(case, ["drop"])
    gone = set(case.kept) - set(edit.kept)
    assert list(edit.kept) == [p for p in case.kept if p not in gone]
    exchanges = case.conversation.exchanges
    shielded = {p for exchange in (*exchanges[: case.pin], exchanges[-1]) for p in exchange.members}
    assert gone <= case.foreign - shielded
    assert not any(case.conversation.messages[p].calls for p in gone)
    assert not edit.replaced


@given(handed())
def test_mark_puts_a_line_before_foreign_answers_alone(case: Handed) -> None:
    """Each foreign answer with a text keeps that text behind the mark; other fields and messages stay."""
    marked = replaced(mitigate(case, ["mark"]))
    assert set(marked) == {p for p in case.kept if p in case.foreign and text(case.element(p)).strip()} | {
        p for p in marked if isinstance(case.element(p)["content"], list)
    }
    for position, message in marked.items():
        original = case.element(position)
        assert text(message).startswith(MARK.strip())
        assert text(message).endswith(text(original))
        assert {key: message[key] for key in ("role", "n")} == {key: original[key] for key in ("role", "n")}


@given(handed())
def test_restate_repeats_the_users_words_alone(case: Handed) -> None:
    """The live user message keeps its text, followed by earlier user messages that are forwarded, word for word."""
    edit = mitigate(case, ["restate"])
    live = case.conversation.exchanges[-1].user
    assert set(edit.replaced) <= {live}
    for message in replaced(edit).values():
        assert text(message).startswith(text(case.element(live)))
        earlier = [case.conversation.messages[p] for p in case.kept if p < live]
        for asked in (one.text.strip() for one in earlier if one.role == "user"):
            assert asked in text(message)


def test_restated_requests_are_bounded() -> None:
    """A long conversation does not double the prompt: the oldest requests are left out first."""
    talk = conversation_of(*(f"request {number} " + "x" * 500 for number in range(20)))
    everything = tuple(range(len(talk.messages)))
    edit = mitigate(Handed(talk, everything, frozenset({1}), None, 0, element_of(talk)), ["restate"])
    (message,) = replaced(edit).values()
    added = text(message)[len(talk.messages[-1].text) :]
    assert len(added) < MOST_RESTATED + 200
    assert "request 18" in added
    assert "request 0" not in added


@given(handed())
def test_policies_combine(case: Handed) -> None:
    """Together they do what each does, and instructions are never touched."""
    edit = mitigate(case, ["drop", "restate", "mark", "strip"])
    instructions = {p for p in case.kept if case.conversation.messages[p].role in INSTRUCTION_ROLES}
    assert instructions <= set(edit.kept)
    assert not instructions & set(edit.replaced)
    assert edit.kept == mitigate(case, ["drop"]).kept


def conversation_of(*users: str) -> Conversation:
    return chat(*(text for user in users for text in (user, "answer")), "go on")


def element_of(talk: Conversation) -> Any:  # noqa: ANN401
    return lambda position: {"role": talk.messages[position].role, "content": talk.messages[position].text}
