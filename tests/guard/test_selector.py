from __future__ import annotations

from guard.conversation import Conversation, Message
from guard.guard import Guard
from guard.policy import Policy
from tests.fakes import NoCache, WordRelevance, WordScorer, chat


def kept(conversation: Conversation, policy: Policy | None = None) -> tuple[int, ...]:
    return Guard(WordScorer(), WordRelevance(), NoCache()).decide(conversation, policy or Policy()).selection.kept


def test_a_refine_carries_its_thread() -> None:
    """A refinement gets all exchanges of its topic and none of an earlier one."""
    assert kept(chat("red apples", "ok", "old cars", "fine", "more cars")) == (2, 3, 4)


def test_a_resumed_thread_leaves_the_detour_out() -> None:
    """Going back to a topic brings that topic's exchanges and not the ones in between."""
    assert kept(chat("red apples", "ok", "old cars", "fine", "green apples")) == (0, 1, 4)


def test_a_pinned_exchange_survives_a_pivot() -> None:
    """Few-shot examples that the client pins stay."""
    assert kept(chat("red apples", "ok", "old cars", "fine", "blue sea"), Policy(pin=1)) == (0, 1, 4)


def test_an_unscored_turn_carries_everything() -> None:
    """Where nobody could decide, nothing is dropped."""
    conversation = Conversation.of([*chat("red apples", "ok", "old cars", "fine").messages, Message("user", " ")])
    assert kept(conversation) == (0, 1, 2, 3, 4)


def test_a_chat_without_user_messages_is_kept_whole() -> None:
    """No user turn, no decision."""
    assert kept(Conversation.of([Message("system", "x"), Message("assistant", "y")])) == (0, 1)


def test_a_late_tool_result_brings_its_call() -> None:
    """A result in the live exchange keeps the earlier exchange that asked for it, even on a pivot."""
    conversation = Conversation.of(
        [
            Message("user", "red apples"),
            Message("assistant", "", calls=("c1",)),
            Message("user", "old cars"),
            Message("tool", "result", answers="c1"),
        ]
    )
    assert kept(conversation) == (0, 1, 2, 3)


def test_ids_that_are_counted_anew_do_not_tie_exchanges_together() -> None:
    """A call id that a client uses again in every exchange links a result to the latest call only."""
    conversation = Conversation.of(
        [
            Message("user", "red apples"),
            Message("assistant", "", calls=("call_0",)),
            Message("tool", "result", answers="call_0"),
            Message("assistant", "ok"),
            Message("user", "old cars"),
            Message("assistant", "", calls=("call_0",)),
            Message("tool", "result", answers="call_0"),
        ]
    )
    assert kept(conversation) == (4, 5, 6)


def test_a_budget_prefers_what_the_turn_is_about() -> None:
    """Past the budget the most recent exchanges and the most relevant others stay."""
    long = "words " * 20
    conversation = chat(
        "apples and pears",
        long,
        "apples in pies",
        long,
        "apples in salad",
        long,
        "apples now",
        long,
        "apples pies crust",
    )
    assert 0 not in kept(conversation, Policy(budget=130, recent=1))
    assert kept(conversation, Policy(budget=150, recent=1))[-1] == 8
