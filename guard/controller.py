"""Stage 1: label every user turn, and with the labels the threads.

A thread is the exchanges of one topic. A PIVOT opens a thread, a REFINE extends the current one, a resumed PIVOT goes
back to a closed one. A REFINE that fits a closed thread clearly better than the current one joins the two: the earlier
topic comes back, and nothing of the current one is lost. The gate sees the current thread alone: what lies before a
pivot must not make later turns look related or unrelated. Labels are causal, turn t depends on messages up to its user
message and on nothing after it (two-stage controller of arXiv 2605.09268, with resumption added).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from guard.conversation import Conversation
from guard.digest import turn_digests
from guard.policy import Policy
from guard.ports import GateQuery, PivotScorer, Ruling, RulingCache

REJOIN_FROM = 0.02
"""p(PIVOT) below which a turn plainly belongs to the current thread, and closed ones are not asked about."""

REJOIN_MARGIN = 0.5
"""Log-odds by which a closed thread must fit a turn better than the current one to come back."""


class Label(StrEnum):
    """The two answers of stage 1."""

    PIVOT = "PIVOT"
    REFINE = "REFINE"


class Kind(StrEnum):
    """How a turn came by its thread."""

    FIRST = "first"
    REFINE = "refine"
    PIVOT = "pivot"
    RESUME = "resume"
    REJOIN = "rejoin"
    UNSCORED = "unscored"


@dataclass(frozen=True, slots=True)
class Turn:
    """The decision on one user turn.

    Attributes:
        index: number of the exchange, from 0.
        kind: how it came by its thread.
        probability: p(PIVOT) against the thread that was current; None when nobody scored it.
        thread: number of its thread, in order of opening, from 0.
        reason: why it was not scored (``no_text``, ``abstained``); empty otherwise.
        digest: prefix digest that keys caches and logs.
    """

    index: int
    kind: Kind
    probability: float | None
    thread: int
    reason: str = ""
    digest: bytes = b""

    @property
    def label(self) -> Label | None:
        """PIVOT or REFINE; None for the first turn and for a turn that nobody scored."""
        if self.kind in (Kind.PIVOT, Kind.RESUME):
            return Label.PIVOT
        return Label.REFINE if self.kind in (Kind.REFINE, Kind.REJOIN) else None


def thread_of(turns: Sequence[Turn]) -> list[int]:
    """Exchanges of the last turn's thread, in order, the turn itself last."""
    threads = _Threads()
    for turn in turns:
        threads.add(turn)
    return threads.members[threads.current]


class Controller:
    """Labels the turns of conversations with one scorer; the cache only saves work."""

    def __init__(self, scorer: PivotScorer, cache: RulingCache) -> None:
        self._scorer = scorer
        self._cache = cache

    def turns(self, conversation: Conversation, policy: Policy) -> tuple[Turn, ...]:
        """Decide every user turn, oldest first.

        Raises:
            ScoringError: the gate gave no answer for a turn.
        """
        threshold = self._scorer.threshold if policy.threshold is None else policy.threshold
        salt = f"{self._scorer.gate_id}|{threshold}|{policy.resume}|{policy.resume_depth}"
        threads = _Threads()
        turns: list[Turn] = []
        for index, digest in enumerate(turn_digests(conversation, salt)):
            turn = self._turn(conversation, index, digest, threads, policy, threshold)
            threads.add(turn)
            turns.append(turn)
        return tuple(turns)

    def _turn(
        self,
        conversation: Conversation,
        index: int,
        digest: bytes,
        threads: _Threads,
        policy: Policy,
        threshold: float,
    ) -> Turn:
        if index == 0:
            return Turn(0, Kind.FIRST, None, 0, digest=digest)
        ruling = self._cache.get(digest)
        if ruling is None:
            history = conversation.utterances(threads.members[threads.current])
            if not conversation.turn_text(index).strip() or not history:
                return Turn(index, Kind.UNSCORED, None, threads.current, "no_text", digest)
            ruling = self._rule(conversation, index, threads, policy, threshold)
            self._cache.put(digest, ruling)
        if ruling.probability is None:
            return Turn(index, Kind.UNSCORED, None, threads.current, "abstained", digest)
        if ruling.resumed is not None:
            kind = Kind.RESUME if ruling.pivot else Kind.REJOIN
            return Turn(index, kind, ruling.probability, ruling.resumed, digest=digest)
        if not ruling.pivot:
            return Turn(index, Kind.REFINE, ruling.probability, threads.current, digest=digest)
        return Turn(index, Kind.PIVOT, ruling.probability, len(threads.members), digest=digest)

    def _rule(
        self, conversation: Conversation, index: int, threads: _Threads, policy: Policy, threshold: float
    ) -> Ruling:
        text = conversation.turn_text(index)
        history = conversation.utterances(threads.members[threads.current])
        (probability,) = self._scorer.score([GateQuery(text, history)])
        if probability is None:
            return Ruling(None, pivot=False)
        resumed = None
        if policy.resume and probability >= REJOIN_FROM:
            limit = min(self._scorer.resume_threshold, _shifted(probability, -REJOIN_MARGIN))
            resumed = self._refined(conversation, text, threads, policy.resume_depth, limit)
        return Ruling(probability, probability >= threshold, resumed)

    def _refined(
        self, conversation: Conversation, text: str, threads: _Threads, depth: int, limit: float
    ) -> int | None:
        """The closed thread that the turn refines best, if it refines any by the gate's own account."""
        histories = [(n, conversation.utterances(threads.members[n])) for n in threads.recently_closed(depth)]
        asked = [(thread, history) for thread, history in histories if history]
        if not asked:
            return None
        scores = self._scorer.score([GateQuery(text, history) for _, history in asked])
        refined = [
            (score, thread)
            for score, (thread, _) in zip(scores, asked, strict=True)
            if score is not None and score < limit
        ]
        return min(refined)[1] if refined else None


def _shifted(probability: float, log_odds: float) -> float:
    """The probability moved by ``log_odds``."""
    odds = probability / max(1 - probability, 1e-12) * math.exp(log_odds)
    return odds / (1 + odds)


class _Threads:
    """Threads while turns are decided in order."""

    def __init__(self) -> None:
        self.members: list[list[int]] = []
        self.current = 0

    def add(self, turn: Turn) -> None:
        if turn.thread == len(self.members):
            self.members.append([])
        if turn.kind is Kind.REJOIN:
            joined = self.members[turn.thread] + self.members[self.current]
            self.members[self.current] = []
            self.members[turn.thread] = sorted(joined)
        self.members[turn.thread].append(turn.index)
        self.current = turn.thread

    def recently_closed(self, depth: int) -> list[int]:
        """Threads other than the current one, most recently used first."""
        closed = [n for n, members in enumerate(self.members) if members and n != self.current]
        return sorted(closed, key=lambda thread: self.members[thread][-1], reverse=True)[:depth]
