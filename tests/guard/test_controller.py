from __future__ import annotations

import pytest

from guard.cache import LRURulingCache
from guard.controller import Controller, Kind, Label, thread_of
from guard.conversation import Conversation, Message
from guard.policy import Policy
from guard.ports import GateQuery
from tests.fakes import CallableScorer, NoCache, WordScorer, chat


def kinds(conversation: Conversation, policy: Policy | None = None) -> list[Kind]:
    turns = Controller(WordScorer(), NoCache()).turns(conversation, policy or Policy())
    return [turn.kind for turn in turns]


def test_the_first_turn_has_no_label() -> None:
    """Nothing precedes the first user turn, so it is neither PIVOT nor REFINE."""
    (turn,) = Controller(WordScorer(), NoCache()).turns(chat("red apples"), Policy())
    assert (turn.kind, turn.label, turn.thread) == (Kind.FIRST, None, 0)


def test_a_turn_is_held_against_the_current_thread_alone() -> None:
    """After a pivot, what the earlier topic said no longer makes a turn look related."""
    conversation = chat("red apples", "ok", "old cars", "fine", "green apples")
    assert kinds(conversation, Policy(resume=False)) == [Kind.FIRST, Kind.PIVOT, Kind.PIVOT]


def test_a_pivot_back_to_a_closed_topic_resumes_it() -> None:
    """A pivot that refines an earlier thread goes back to that thread, and is still a PIVOT."""
    conversation = chat("red apples", "ok", "old cars", "fine", "green apples", "sure", "sour apples")
    turns = Controller(WordScorer(), NoCache()).turns(conversation, Policy())
    assert [turn.kind for turn in turns] == [Kind.FIRST, Kind.PIVOT, Kind.RESUME, Kind.REFINE]
    assert [turn.thread for turn in turns] == [0, 1, 0, 0]
    assert turns[2].label is Label.PIVOT


def test_a_turn_without_text_is_not_scored() -> None:
    """An image alone cannot be scored: nobody labels the turn, and it stays in the current thread."""
    conversation = Conversation.of([Message("user", "red apples"), Message("assistant", "ok"), Message("user", "")])
    turn = Controller(WordScorer(), NoCache()).turns(conversation, Policy())[-1]
    assert (turn.kind, turn.label, turn.reason, turn.thread) == (Kind.UNSCORED, None, "no_text", 0)


def test_an_abstention_is_not_a_label() -> None:
    """Where the gate abstains the turn is unscored, and later turns are scored against the same thread."""
    scorer = CallableScorer(lambda query: None if "?" in query.turn else 0.1)
    turns = Controller(scorer, LRURulingCache()).turns(chat("a", "b", "c?", "d", "e"), Policy())
    assert [turn.kind for turn in turns] == [Kind.FIRST, Kind.UNSCORED, Kind.REFINE]
    assert turns[1].reason == "abstained"


def test_a_warm_turn_asks_the_gate_once() -> None:
    """With the earlier turns remembered only the new turn is scored."""
    scorer = WordScorer()
    controller = Controller(scorer, LRURulingCache())
    controller.turns(chat("red apples", "ok", "apples again", "ok", "more apples"), Policy())
    before = scorer.queries
    controller.turns(chat("red apples", "ok", "apples again", "ok", "more apples", "ok", "last apples"), Policy())
    assert scorer.queries - before == 1


def test_instructions_do_not_disturb_the_memory() -> None:
    """A system prompt that changes with every request (the time of day) leaves remembered turns valid."""
    scorer = WordScorer()
    controller = Controller(scorer, LRURulingCache())
    for hour in ("09:00", "10:00"):
        talk = chat("red apples", "ok", "apples again").messages
        controller.turns(Conversation.of((Message("system", f"It is {hour}"), *talk)), Policy())
    assert scorer.queries == 1


@pytest.mark.parametrize(("threshold", "kind"), [(0.95, Kind.REFINE), (0.05, Kind.PIVOT)])
def test_the_policy_can_replace_the_threshold(threshold: float, kind: Kind) -> None:
    """A threshold set by the operator counts instead of the calibrated one."""
    assert kinds(chat("a", "b", "c"), Policy(threshold=threshold))[-1] is kind


def test_history_begins_with_the_preamble_and_skips_tool_traffic() -> None:
    """The gate reads a greeting that precedes the first turn, and no tool results."""
    asked: list[GateQuery] = []

    def remember(query: GateQuery) -> float:
        asked.append(query)
        return 0.0

    scorer = CallableScorer(remember)
    conversation = Conversation.of(
        [
            Message("assistant", "welcome"),
            Message("user", "a"),
            Message("assistant", "", calls=("c1",)),
            Message("tool", "raw result", answers="c1"),
            Message("assistant", "b"),
            Message("user", "c"),
        ]
    )
    Controller(scorer, NoCache()).turns(conversation, Policy())
    assert [u.text for u in asked[0].history] == ["welcome", "a", "b"]


def test_a_refine_that_fits_a_closed_topic_better_joins_the_two() -> None:
    """A return that does not read as a pivot gets the earlier topic back beside the current one, now and later."""
    fits = {"apples": 0.05, "cars": 0.4}

    def score(query: GateQuery) -> float:
        if "cars" in query.turn:
            return 0.95
        return min(p for word, p in fits.items() if any(word in u.text for u in query.history))

    conversation = chat("apples", "ok", "cars", "fine", "and the peel?", "sure", "thanks")
    turns = Controller(CallableScorer(score), NoCache()).turns(conversation, Policy())
    assert [turn.kind for turn in turns] == [Kind.FIRST, Kind.PIVOT, Kind.REJOIN, Kind.REFINE]
    assert turns[2].label is Label.REFINE
    assert thread_of(turns[:3]) == [0, 1, 2]
    assert thread_of(turns) == [0, 1, 2, 3]
