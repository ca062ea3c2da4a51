"""The guard: a conversation and a policy in, a verdict out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guard.controller import Controller, Turn
from guard.conversation import Conversation
from guard.policy import Policy
from guard.ports import GateQuery, PivotScorer, RelevanceScorer, RulingCache
from guard.selector import Selection, select


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on the live turn and how it came about.

    Attributes:
        turns: the decision on every user turn, the live one last; empty when the chat has no user message.
        selection: what is forwarded.
    """

    turns: tuple[Turn, ...]
    selection: Selection

    @property
    def live(self) -> Turn | None:
        """The decision on the live turn."""
        return self.turns[-1] if self.turns else None


class Guard:
    """Both stages behind one call. Thread-safe as far as its scorer and cache are."""

    def __init__(self, scorer: PivotScorer, relevance: RelevanceScorer, cache: RulingCache) -> None:
        self.scorer = scorer
        self._relevance = relevance
        self._controller = Controller(scorer, cache)
        self._memory = Controller(_Unasked(scorer), cache)

    def decide(self, conversation: Conversation, policy: Policy) -> Verdict:
        """Label every turn and select for the last one.

        Raises:
            ScoringError: the gate gave no answer; the caller forwards everything.
        """
        turns = self._controller.turns(conversation, policy)
        return Verdict(turns, select(conversation, turns, policy, self._relevance))

    def recall(self, conversation: Conversation, policy: Policy) -> Verdict | None:
        """What ``decide`` would say, where every turn is remembered; None where the gate would have to be asked."""
        try:
            turns = self._memory.turns(conversation, policy)
        except _Forgotten:
            return None
        return Verdict(turns, select(conversation, turns, policy, self._relevance))


class _Forgotten(Exception):  # noqa: N818 - an answer, not a fault
    """A turn is not in the cache."""


class _Unasked:
    """Stands in for a scorer whose cached rulings alone are wanted."""

    def __init__(self, scorer: PivotScorer) -> None:
        self.gate_id = scorer.gate_id
        self.threshold = scorer.threshold
        self.resume_threshold = scorer.resume_threshold

    def score(self, queries: Sequence[GateQuery]) -> list[float | None]:
        del queries
        raise _Forgotten
