"""Sessions with known pivots, spliced from the heads of source conversations (arXiv 2605.09268, appendix B).

V1  first k user turns of A, k in {2, 3, 4}, then first p user turns of B, p in {1..6}; each brings its answer.
V2  the sessions of V1 with a cue phrase in front of the pivot.
V3  exactly one pivot, at user turn P: first P - 1 user turns of A, then first p of B.

The first user turn of B is PIVOT, every other one but the session's first is REFINE. Sampling is a pure function of
(seed, variant, digest of the source), whatever machine or library version: draws are hashes of a counter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from eval.datasets.source import Conversation, Exchange
from eval.errors import DataError
from eval.sessions import Session, SessionTurn
from guard.controller import Label

CUES = (
    "switching gears",
    "on a different note",
    "new topic",
    "separately",
    "switching the topic",
    "changing subject",
    "another thing",
)
HEAD_TURNS = (2, 3, 4)
TAIL_TURNS = (1, 2, 3, 4, 5, 6)
MOST_UTTERANCES = 20
PIVOT_TURNS = (2, 5, 8, 11)
ATTEMPTS = 1000
"""Draws for one session before the source is declared exhausted."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a set of sessions looks like, as the paper's table 2 has it."""

    sessions: int
    user_turns: int
    mean: float
    least: int
    most: int
    pivots: int
    refines: int


class Draws:
    """Uniform draws that depend on the key alone."""

    def __init__(self, *key: object) -> None:
        self._key = "|".join(map(str, key))
        self._count = 0

    def below(self, bound: int) -> int:
        """A number from 0 to ``bound - 1``; the bias of the remainder is below 2**-50."""
        self._count += 1
        drawn = hashlib.sha256(f"{self._key}|{self._count}".encode()).digest()
        return int.from_bytes(drawn[:8], "big") % bound


def v1(
    conversations: Sequence[Conversation],
    digest: str,
    seed: int,
    sessions: int,
    most_utterances: int = MOST_UTTERANCES,
) -> list[Session]:
    """Hard concatenation, without a cue."""
    draws = Draws(seed, "v1", digest)
    pairs = _Pairs(conversations, draws)
    made: list[Session] = []
    while len(made) < sessions:
        made.append(_spliced_within(pairs, draws, f"v1-{len(made):06}", most_utterances))
    return made


def v2(sessions: Sequence[Session], digest: str, seed: int) -> list[Session]:
    """The sessions of V1, one to one, with a cue in front of each pivot."""
    draws = Draws(seed, "v2", digest)
    return [
        Session(
            session.id.replace("v1-", "v2-"),
            tuple(
                _cued(turn, CUES[draws.below(len(CUES))]) if turn.label is Label.PIVOT else turn
                for turn in session.turns
            ),
        )
        for session in sessions
    ]


def v3(
    conversations: Sequence[Conversation],
    digest: str,
    seed: int,
    sessions: int,
    pivot_turns: Sequence[int] = PIVOT_TURNS,
) -> list[Session]:
    """One pivot at each of the user turns in ``pivot_turns``, ``sessions`` of each."""
    return [
        session
        for pivot in pivot_turns
        for session in _v3_at(conversations, Draws(seed, "v3", digest, pivot), pivot, sessions)
    ]


def statistics(sessions: Sequence[Session]) -> Statistics:
    """Count what is in a set of sessions."""
    counts = [len(session.user_positions) for session in sessions]
    labels = [turn.label for session in sessions for turn in session.turns]
    return Statistics(
        len(sessions),
        sum(counts),
        sum(counts) / len(counts),
        min(counts),
        max(counts),
        labels.count(Label.PIVOT),
        labels.count(Label.REFINE),
    )


def _v3_at(conversations: Sequence[Conversation], draws: Draws, pivot: int, sessions: int) -> Iterator[Session]:
    pairs = _Pairs(conversations, draws)
    for number in range(sessions):
        tail = TAIL_TURNS[draws.below(len(TAIL_TURNS))]
        head, other = pairs.draw(pivot - 1, tail)
        yield _splice(f"v3-p{pivot:02}-{number:06}", head.exchanges[: pivot - 1], other.exchanges[:tail])


def _spliced_within(pairs: _Pairs, draws: Draws, name: str, most_utterances: int) -> Session:
    for _ in range(ATTEMPTS):
        head_turns = HEAD_TURNS[draws.below(len(HEAD_TURNS))]
        tail_turns = TAIL_TURNS[draws.below(len(TAIL_TURNS))]
        head, tail = pairs.draw(head_turns, tail_turns)
        session = _splice(name, head.exchanges[:head_turns], tail.exchanges[:tail_turns])
        if len(session.turns) <= most_utterances:
            return session
    raise DataError(f"no splice of at most {most_utterances} utterances could be drawn")


class _Pairs:
    """Draws pairs of different conversations, each pair once."""

    def __init__(self, conversations: Sequence[Conversation], draws: Draws) -> None:
        self._conversations = conversations
        self._draws = draws
        self._used: set[tuple[int, int]] = set()

    def draw(self, head_turns: int, tail_turns: int) -> tuple[Conversation, Conversation]:
        heads, tails = self._with_turns(head_turns), self._with_turns(tail_turns)
        for _ in range(ATTEMPTS if heads and tails else 0):
            pair = (heads[self._draws.below(len(heads))], tails[self._draws.below(len(tails))])
            if pair[0] != pair[1] and pair not in self._used:
                self._used.add(pair)
                return self._conversations[pair[0]], self._conversations[pair[1]]
        raise DataError(
            f"the source has too few pairs of conversations with {head_turns} and {tail_turns} user turns: "
            "ask for fewer sessions, or for earlier pivots"
        )

    def _with_turns(self, turns: int) -> list[int]:
        return [number for number, one in enumerate(self._conversations) if len(one.exchanges) >= turns]


def _splice(name: str, head: Sequence[Exchange], tail: Sequence[Exchange]) -> Session:
    turns: list[SessionTurn] = []
    for number, exchange in enumerate([*head, *tail]):
        label = None if number == 0 else Label.PIVOT if number == len(head) else Label.REFINE
        references = exchange.answers[0].answers if exchange.answers else ()
        turns.append(SessionTurn("user", exchange.user, label, answers=references))
        turns += [SessionTurn("assistant", answer.text) for answer in exchange.answers]
    return Session(name, tuple(turns))


def _cued(turn: SessionTurn, cue: str) -> SessionTurn:
    return replace(turn, text=f"{cue}, {turn.text}")
