"""Hand-written fakes that several tests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from guard.conversation import Conversation, Message
from guard.ports import GateQuery, Ruling


class WordScorer:
    """A gate that says PIVOT when the turn shares no word with the thread; counts its queries."""

    gate_id = "words"
    threshold = 0.5
    resume_threshold = 0.5

    def __init__(self) -> None:
        self.queries = 0

    def score(self, queries: Sequence[GateQuery]) -> list[float | None]:
        self.queries += len(queries)
        return [self._one(query) for query in queries]

    def _one(self, query: GateQuery) -> float:
        seen = {word for utterance in query.history for word in utterance.text.lower().split()}
        return 0.1 if seen & set(query.turn.lower().split()) else 0.9


class CallableScorer:
    """A gate made of a function from query to probability (None: abstain)."""

    gate_id = "callable"
    threshold = 0.5
    resume_threshold = 0.5

    def __init__(self, function: Callable[[GateQuery], float | None]) -> None:
        self._function = function

    def score(self, queries: Sequence[GateQuery]) -> list[float | None]:
        return [self._function(query) for query in queries]


class WordRelevance:
    """Relevance as the number of shared words."""

    def relevance(self, turn: str, texts: Sequence[str]) -> list[float]:
        words = set(turn.lower().split())
        return [float(len(words & set(text.lower().split()))) for text in texts]


class NoCache:
    """A cache that remembers nothing."""

    def get(self, key: bytes) -> Ruling | None:
        return None

    def put(self, key: bytes, ruling: Ruling) -> None:
        pass


def chat(*texts: str) -> Conversation:
    """A conversation of alternating user and assistant messages."""
    roles = ("user", "assistant")
    return Conversation.of(Message(roles[i % 2], text) for i, text in enumerate(texts))
