from __future__ import annotations

from pathlib import Path

import pytest

from guard.conversation import Conversation, Message
from guard.guard import Guard
from guard.policy import Policy
from guard.standing import is_standing
from tests.fakes import NoCache, WordRelevance, WordScorer

EXAMPLES = Path(__file__).parent / "data" / "standing.tsv"
"""One message a line: + (standing) or - (not), a tab, the text with line breaks as \\n. Written for this project."""


def examples() -> list[tuple[bool, str]]:
    lines = EXAMPLES.read_text(encoding="utf-8").splitlines()
    pairs = [line.split("\t", 1) for line in lines if line.strip()]
    return [(sign == "+", text.replace("\\n", "\n")) for sign, text in pairs]


def test_the_detector_is_precise_and_finds_most() -> None:
    """On hand-written messages, the negatives chosen to mislead: precision 0.97 or more, recall 0.7 or more."""
    found = [(standing, is_standing(text)) for standing, text in examples()]
    hits = sum(1 for standing, said in found if standing and said)
    assert hits / sum(1 for _, said in found if said) >= 0.97
    assert hits / sum(1 for standing, _ in found if standing) >= 0.7


@pytest.mark.parametrize(
    "text",
    [
        "from now on answer in French",
        "always end with a haiku",
        "I'm allergic to nuts, keep that in mind",
        "call me Sam",
    ],
)
def test_a_standing_instruction_survives_a_pivot(text: str) -> None:
    """What the user asked for the whole chat is still forwarded, with its answer, when the subject changes."""
    conversation = Conversation.of(
        [
            Message("user", text),
            Message("assistant", "noted"),
            Message("user", "red apples"),
            Message("assistant", "sure"),
            Message("user", "blue sea"),
        ]
    )
    guard = Guard(WordScorer(), WordRelevance(), NoCache())
    assert guard.decide(conversation, Policy()).selection.kept == (0, 1, 4)
    assert guard.decide(conversation, Policy(standing=False)).selection.kept == (4,)


def test_a_text_that_is_handed_over_is_no_instruction() -> None:
    """The same words inside a text to be translated or rewritten bind nobody."""
    assert not is_standing('Translate into German: "From now on, please call me Sam."')
