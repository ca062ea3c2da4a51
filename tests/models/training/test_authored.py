from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pytest

from models.training.authored import CHATS, chat_of, load_chats, parse
from models.training.dialogue import Reading, Turn
from models.training.errors import TrainingError

SAMPLES = Path(__file__).parents[3] / "eval" / "samples"


def test_a_chat_is_read_with_its_readings() -> None:
    """Tags give roles and readings, brackets give needs, and a text runs on to the next tag."""
    (chat,) = parse("=== returns\nU: one\nA: two\n\nlines\nP: else\nB[0, 1]: back to one\n", "x")
    assert chat.id == "x-0"
    assert chat.turns == (
        Turn("user", "one"),
        Turn("assistant", "two\n\nlines"),
        Turn("user", "else", Reading.PIVOT),
        Turn("user", "back to one", Reading.BACK, (0, 1)),
    )


def test_a_header_keeps_a_chat_for_measuring() -> None:
    """The mark behind the kind divides the chats, and nothing else does."""
    chats = parse("=== a held-back\nU: x\nR: y\n=== a\nU: x\nR: y\n", "x")
    assert [chat.held_back for chat in chats] == [True, False]


def test_alternatives_share_a_history() -> None:
    """Each turn that could come next makes a dialogue of its own."""
    chats = parse("=== alternatives held-back\nU: x\nA: y\nR: one\nP: two\n", "x")
    assert [(chat.id, len(chat.turns), chat.turns[-1].reading) for chat in chats] == [
        ("x-0-0", 3, Reading.REFINE),
        ("x-0-1", 3, Reading.PIVOT),
    ]
    assert {chat.genre for chat in chats} == {"alternatives"}
    assert all(chat.held_back for chat in chats)
    assert {chat_of(chat) for chat in chats} == {"x-0"}


def test_chit_chat_is_told_from_chats_with_an_assistant() -> None:
    """Kinds of chit-chat join the other sources of chit-chat."""
    chats = parse("=== persona-chat\nU: x\nR: y\n=== wild-code\nU: x\nR: y\n", "x")
    assert [chat.genre for chat in chats] == ["chat", "authored"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n=== a\nU: x\nR: y", r"x\.txt:1: text outside a turn"),
        ("=== a\nhello\nU: x\nR: y", r"x\.txt:2: text outside a turn"),
        ("=== a\nU: x\n\nR:\nA: y", r"x\.txt:4: empty turn"),
        ("=== a\nU: x\nA: y", r"x\.txt:1: fewer than two user turns"),
        ("=== a\nR: x\nR: y", r"x\.txt:2: the first user turn, and only it, is U"),
        ("=== a\nU: x\nR: y\nU: z", r"x\.txt:4: the first user turn, and only it, is U"),
        ("=== a\nU: x\nB[1]: y", r"x\.txt:3: B needs positions of earlier utterances"),
        ("=== a\nU: x\nB[]: y", r"x\.txt:3: B needs positions of earlier utterances"),
        ("=== a b\nU: x\nR: y", r"x\.txt:1: a chat begins with"),
        ("=== alternatives\nU: x\nA: y", r"x\.txt:1: alternatives are a history"),
        ("=== alternatives\nU: x\nR: y\nA: z", r"x\.txt:4: an alternative is R, P or S"),
        ("=== a\nU: x\nR: y\n\n====\n", r"x\.txt:5: a chat begins with"),
    ],
)
def test_a_malformed_file_is_an_error_with_its_line(text: str, message: str) -> None:
    """Whoever wrote the line finds it by the message."""
    with pytest.raises(TrainingError, match=message):
        parse(text, "x")


def test_the_projects_own_chats_are_sound() -> None:
    """Every chat in the repository parses; about a seventh is held back; all readings occur."""
    chats = load_chats(CHATS)
    assert len(chats) > 2500
    assert 0.12 < sum(chat.held_back for chat in chats) / len(chats) < 0.18
    assert {turn.reading for chat in chats for turn in chat.turns} == {*Reading, None}


@pytest.mark.parametrize("name", ["natural-refinements", "two-topic-returns", "task-chains", "wild"])
def test_sample_sessions_were_not_trained_on(name: str) -> None:
    """The sessions that measure the gate share no chat with those that train it; a common question may recur."""
    trained = {_opening(turn.text for turn in chat.turns) for chat in load_chats(CHATS)}
    sessions = [json.loads(line) for line in (SAMPLES / f"{name}.jsonl").read_text("utf-8").splitlines()]
    begun = {session["id"]: _opening(turn["text"] for turn in session["turns"]) for session in sessions}
    assert begun
    assert not [identity for identity, opening in begun.items() if opening in trained]


def _opening(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(islice(texts, 3))
