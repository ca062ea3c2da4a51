"""The guard's promises, on random chats."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.cache import LRURulingCache
from guard.controller import Kind
from guard.conversation import Conversation, Message
from guard.guard import Guard, Verdict
from guard.policy import Policy
from guard.standing import is_standing
from tests.fakes import NoCache, WordRelevance, WordScorer
from tests.guard.strategies import conversations, messages, policies


def decide(conversation: Conversation, policy: Policy) -> Verdict:
    """A verdict by a fresh guard that remembers nothing."""
    return Guard(WordScorer(), WordRelevance(), NoCache()).decide(conversation, policy)


@given(conversations, policies)
def test_kept_and_dropped_split_the_messages_in_order(conversation: Conversation, policy: Policy) -> None:
    """What is forwarded is a subsequence of the request's messages, and the rest is what is dropped."""
    selection = decide(conversation, policy).selection
    assert list(selection.kept) == sorted(set(selection.kept))
    assert sorted(selection.kept + selection.dropped) == list(range(len(conversation.messages)))


@given(conversations, policies)
def test_protected_messages_always_stay(conversation: Conversation, policy: Policy) -> None:
    """Instructions, the live exchange, pinned exchanges and standing instructions are never dropped."""
    kept = set(decide(conversation, policy).selection.kept)
    protected = {p for p, m in enumerate(conversation.messages) if m.role in ("system", "developer")}
    for number, exchange in enumerate(conversation.exchanges):
        live = number == len(conversation.exchanges) - 1
        standing = policy.standing and is_standing(conversation.turn_text(number))
        if live or number < policy.pin or standing:
            protected |= set(exchange.members)
    assert protected <= kept


@given(conversations, policies)
def test_a_tool_call_and_its_results_stay_or_go_together(conversation: Conversation, policy: Policy) -> None:
    """An assistant message with tool calls stays or goes with all its results, however late they come."""
    kept = set(decide(conversation, policy).selection.kept)
    caller: dict[str, int] = {}
    start = conversation.exchanges[0].user if conversation.exchanges else len(conversation.messages)
    for position, message in enumerate(conversation.messages[start:], start):
        caller.update(dict.fromkeys(message.calls, position))
        if message.answers in caller:
            assert (position in kept) == (caller[message.answers] in kept)


@given(conversations)
def test_a_plain_pivot_keeps_the_protected_messages_alone(conversation: Conversation) -> None:
    """PIVOT without resumption forwards instructions, the live exchange, and what its tool calls are tied to."""
    verdict = decide(conversation, Policy(resume=False, standing=False))
    if verdict.live is None or verdict.live.kind is not Kind.PIVOT:
        return
    live = conversation.exchanges[-1].members
    calls_before = {call for m in conversation.messages[: live[0]] for call in m.calls}
    if any(conversation.messages[p].answers in calls_before for p in live):
        return
    expected = {p for p, m in enumerate(conversation.messages) if m.role in ("system", "developer")} | set(live)
    assert set(verdict.selection.kept) == expected


@given(st.lists(conversations, min_size=1, max_size=4), policies)
def test_decisions_do_not_depend_on_what_was_asked_before(chats: list[Conversation], policy: Policy) -> None:
    """The same answer cold or warm, in any order, with a cache that forgets."""
    warm = Guard(WordScorer(), WordRelevance(), LRURulingCache(capacity=5))
    for conversation in [*chats, *reversed(chats)]:
        assert warm.decide(conversation, policy) == decide(conversation, policy)


@given(conversations, messages(), policies)
def test_a_further_message_never_changes_earlier_labels(
    conversation: Conversation, message: Message, policy: Policy
) -> None:
    """Adding to a chat leaves the decisions on its earlier turns as they were."""
    longer = Conversation.of((*conversation.messages, message))
    before, after = decide(conversation, policy).turns, decide(longer, policy).turns
    assert after[: len(before)] == before


@settings(max_examples=300)
@given(conversations)
def test_without_a_budget_a_refine_extends_the_previous_prompt(conversation: Conversation) -> None:
    """Within a thread the prompt of a turn begins with the prompt of the turn before, so prefix caches keep hitting."""
    policy = Policy()
    texts = [e.user for e in conversation.exchanges]
    plain = all(m.role in ("user", "assistant") and not m.calls for m in conversation.messages)
    if not plain:
        return
    for first, second in pairwise(texts):
        before = decide(Conversation.of(conversation.messages[: first + 1]), policy)
        after = decide(Conversation.of(conversation.messages[: second + 1]), policy)
        if after.live is not None and after.live.kind is Kind.REFINE and before.live is not None:
            if before.live.kind is Kind.UNSCORED:
                continue
            assert after.selection.kept[: len(before.selection.kept)] == before.selection.kept


def test_an_agent_loop_keeps_the_decision_of_its_user_turn() -> None:
    """Tool results at the end do not make a new turn: every loop step extends the last step's prompt."""
    guard = Guard(WordScorer(), WordRelevance(), NoCache())
    base = [
        Message("user", "red apples"),
        Message("assistant", "apples are red"),
        Message("user", "weather today"),
    ]
    steps = [
        base,
        [*base, Message("assistant", "", calls=("c1",)), Message("tool", "sunny", answers="c1")],
        [
            *base,
            Message("assistant", "", calls=("c1",)),
            Message("tool", "sunny", answers="c1"),
            Message("assistant", "", calls=("c2",)),
            Message("tool", "20 degrees", answers="c2"),
        ],
    ]
    kept = [guard.decide(Conversation.of(step), Policy()).selection.kept for step in steps]
    assert kept == [(2,), (2, 3, 4), (2, 3, 4, 5, 6)]


@pytest.mark.parametrize("length", [60, 200])
def test_a_budget_cuts_in_blocks(length: int) -> None:
    """Past the budget the prompt is cut seldom, and between two cuts it only grows at its end."""
    guard = Guard(WordScorer(), WordRelevance(), LRURulingCache())
    policy = Policy(budget=400, recent=2)
    chat: list[Message] = []
    cuts = 0
    previous: tuple[int, ...] = ()
    for number in range(length):
        chat += [Message("user", f"apples number {number} please"), Message("assistant", f"apples {number} " * 5)]
        kept = guard.decide(Conversation.of(chat[:-1]), policy).selection.kept
        if kept[: len(previous)] != previous:
            cuts += 1
        previous = kept
    assert 1 <= cuts <= length / 5
