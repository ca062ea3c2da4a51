"""What the guard needs from outside, as small protocols. Implementations live in ``models`` and ``serving``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from guard.authorship import Author
from guard.conversation import Utterance


@dataclass(frozen=True, slots=True)
class GateQuery:
    """One question to the gate: does ``turn`` leave the topic of ``history``?

    Attributes:
        turn: text of the current user message, not blank.
        history: utterances of one thread, oldest first, at least one.
    """

    turn: str
    history: tuple[Utterance, ...]


class PivotScorer(Protocol):
    """Stage 1: p(PIVOT | turn, history). Thread-safe; the answer depends on the query alone."""

    @property
    def gate_id(self) -> str:
        """Name and digest of the weights; part of every cache key."""
        ...

    @property
    def threshold(self) -> float:
        """Probability from which a turn is a PIVOT, calibrated to a false-reset rate."""
        ...

    @property
    def resume_threshold(self) -> float:
        """Probability below which a turn may be taken to refine a closed thread."""
        ...

    def score(self, queries: Sequence[GateQuery]) -> list[float | None]:
        """Probabilities in [0, 1], one a query; None where the gate abstains (a script it does not know).

        Raises:
            ScoringError: no answer could be had (time out, unreachable server, broken weights).
        """
        ...


class RelevanceScorer(Protocol):
    """How much each text matters for a turn; used only when a thread outgrows its budget."""

    def relevance(self, turn: str, texts: Sequence[str]) -> list[float]:
        """Scores, higher is more relevant, one a text."""
        ...


@dataclass(frozen=True, slots=True)
class Ruling:
    """What is remembered of a scored turn.

    Attributes:
        probability: p(PIVOT) against the thread that was current; None when the gate abstained.
        pivot: whether the turn left that thread.
        resumed: number of the closed thread that came back: alone on a pivot, joined with the current one otherwise.
    """

    probability: float | None
    pivot: bool
    resumed: int | None = None


class RulingCache(Protocol):
    """Rulings by prefix digest. It makes decisions faster, never different; it may forget at any time."""

    def get(self, key: bytes) -> Ruling | None: ...

    def put(self, key: bytes, ruling: Ruling) -> None: ...


class AuthorshipLedger(Protocol):
    """Who said what: authors of assistant messages by key (``guard.authorship.keys_of``).

    Bounded, and it may forget at any time; what it forgot has an unknown author.
    """

    async def record(self, keys: Sequence[bytes], author: Author) -> None:
        """Remember that ``author`` said what the keys stand for; by one model, the newest time counts.

        Raises:
            StoreError: the store cannot be reached.
        """
        ...

    async def lookup(self, keys: Sequence[bytes]) -> list[tuple[Author, ...]]:
        """What is remembered of each key: one author a model, none where nothing is.

        Raises:
            StoreError: the store cannot be reached.
        """
        ...

    async def close(self) -> None:
        """Write what is still to be written, and let go of the store."""
        ...
