"""Stage 2: which messages are forwarded for the live turn.

PIVOT: nothing but what is protected. That is a hard rule, and it holds because the new thread has no earlier exchange.
RESUME and REFINE: the exchanges of the turn's thread, cut to a budget if there is one. A turn that nobody scored
carries everything: losing wanted history hurts more than carrying unwanted history.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from guard.controller import Kind, Turn, thread_of
from guard.conversation import INSTRUCTION_ROLES, RESULT_ROLES, Conversation
from guard.policy import Policy
from guard.ports import RelevanceScorer
from guard.standing import is_standing

BLOCK_SHARE = 0.5
"""A cut goes down to this share of the budget, so that the next turns only append and prefix caches keep hitting."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Positions of the messages that are forwarded and of those that are not, each in order."""

    kept: tuple[int, ...]
    dropped: tuple[int, ...]


def select(
    conversation: Conversation, turns: tuple[Turn, ...], policy: Policy, relevance: RelevanceScorer
) -> Selection:
    """Choose the messages that belong to the last turn."""
    everything = range(len(conversation.messages))
    if len(turns) < 2 or turns[-1].kind is Kind.UNSCORED:
        return Selection(tuple(everything), ())
    thread = thread_of(turns)
    protected = _protected(conversation, thread, policy)
    exchanges = protected | set(_within_budget(conversation, thread, protected, policy, relevance))
    exchanges = _with_linked(exchanges, _call_links(conversation))
    kept = {p for p in everything if conversation.messages[p].role in INSTRUCTION_ROLES}
    kept.update(p for exchange in exchanges for p in conversation.exchanges[exchange].members)
    if 0 in exchanges:
        kept.update(conversation.preamble)
    return Selection(tuple(sorted(kept)), tuple(p for p in everything if p not in kept))


def _protected(conversation: Conversation, thread: list[int], policy: Policy) -> set[int]:
    """Exchanges that no label can drop."""
    live = thread[-1]
    protected = {live, *range(min(policy.pin, live))}
    if policy.standing:
        # Without a budget the thread stays anyway, and the patterns need not be tried on it.
        asked = set(range(live)) if policy.budget is not None else set(range(live)).difference(thread)
        protected.update(turn for turn in asked if is_standing(conversation.turn_text(turn)))
    return protected


def _within_budget(
    conversation: Conversation,
    thread: list[int],
    protected: set[int],
    policy: Policy,
    relevance: RelevanceScorer,
) -> list[int]:
    """The thread's exchanges that fit the budget, as a fold over its turns.

    The fold replays the thread: exchanges are appended until the budget is passed, then cut to a share of it. So the
    result is a function of the messages up to the live user message, and changes only at a cut.
    """
    if policy.budget is None:
        return thread
    carried: list[int] = []
    for turn in thread:
        if _cost(conversation, carried) > policy.budget:
            carried = _cut(conversation, carried, turn, policy.budget, policy.recent, protected, relevance)
        carried.append(turn)
    return carried


def _cut(
    conversation: Conversation,
    carried: list[int],
    turn: int,
    budget: int,
    recent: int,
    protected: set[int],
    relevance: RelevanceScorer,
) -> list[int]:
    """Keep protected and recent exchanges, then the most relevant others while they fit a share of the budget."""
    kept = {exchange for exchange in carried if exchange in protected} | set(carried[-recent:] if recent else ())
    others = [exchange for exchange in carried if exchange not in kept]
    room = budget * BLOCK_SHARE - _cost(conversation, kept)
    texts = ["\n".join(u.text for u in conversation.utterances([exchange])) for exchange in others]
    scores = relevance.relevance(conversation.turn_text(turn), texts) if others else []
    ranked = sorted(zip(scores, others, strict=True), key=lambda pair: (-pair[0], -pair[1]))
    for _, exchange in ranked:
        cost = _cost(conversation, [exchange])
        if cost <= room:
            kept.add(exchange)
            room -= cost
    return sorted(kept)


def _cost(conversation: Conversation, exchanges: Iterable[int]) -> int:
    return sum(conversation.tokens(conversation.exchanges[exchange].members) for exchange in exchanges)


def _call_links(conversation: Conversation) -> list[tuple[int, int]]:
    """Pairs of exchanges that share a tool call and one of its results, when a result came late.

    A result answers the latest earlier call of its id: some clients count their ids anew in every exchange. The
    preamble stays or goes with exchange 0, so its calls count as that exchange's.
    """
    owner: dict[str, int] = {}
    links: list[tuple[int, int]] = []
    groups = [(0, conversation.preamble), *((n, exchange.members) for n, exchange in enumerate(conversation.exchanges))]
    for number, members in groups:
        for position in members:
            message = conversation.messages[position]
            owner.update(dict.fromkeys(message.calls, number))
            if message.role in RESULT_ROLES and message.answers is not None:
                source = owner.get(message.answers, number)
                if source != number:
                    links.append((source, number))
    return links


def _with_linked(exchanges: set[int], links: list[tuple[int, int]]) -> set[int]:
    """Add the exchanges that hold the other end of a call, until nothing changes."""
    while True:
        more = {end for link in links for end in link if exchanges.intersection(link)} - exchanges
        if not more:
            return exchanges
        exchanges = exchanges | more
