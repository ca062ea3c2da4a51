"""The guard: a conversation and a policy in, a verdict out."""

from __future__ import annotations

from dataclasses import dataclass

from guard.controller import Controller, Turn
from guard.conversation import Conversation
from guard.policy import Policy
from guard.ports import PivotScorer, RelevanceScorer, RulingCache
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

    def decide(self, conversation: Conversation, policy: Policy) -> Verdict:
        """Label every turn and select for the last one.

        Raises:
            ScoringError: the gate gave no answer; the caller forwards everything.
        """
        turns = self._controller.turns(conversation, policy)
        return Verdict(turns, select(conversation, turns, policy, self._relevance))
