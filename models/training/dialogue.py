"""Dialogues as training sees them: utterances with readings, and the topics that the readings cut them into.

>>> said = (Turn("user", "who made it"), Turn("user", "and when"), Turn("user", "new car or used?", Reading.PIVOT))
>>> [len(segment.utterances) for segment in segments(Dialogue("d", "s", "qa", said))]
[2, 1]
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

from guard.conversation import Utterance

Genre = Literal["qa", "task", "chat", "service", "real", "authored", "alternatives"]
GENRES: tuple[Genre, ...] = get_args(Genre)


class Reading(StrEnum):
    """How a user turn relates to what was said before it."""

    REFINE = "R"
    PIVOT = "P"
    SOFT = "S"
    """A new question near the old subject, or one anchored to something earlier: history is harmless, hardly needed."""
    BACK = "B"
    """Goes back to an earlier topic after another one."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance.

    Attributes:
        role: user or assistant.
        text: what was said, not blank.
        reading: of a labelled user turn; None where nobody labelled it.
        needs: for ``BACK``, positions of the utterances that the turn goes back to.
    """

    role: str
    text: str
    reading: Reading | None = None
    needs: tuple[int, ...] = ()

    @property
    def utterance(self) -> Utterance:
        """Role and text alone: what a gate is shown."""
        return Utterance(self.role, self.text)


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One conversation of one source.

    Attributes:
        id: unique within its source.
        source: name of the source.
        genre: what kind of talk it is.
        turns: utterances in order.
        held_back: whether it measures and calibrates and is never trained on.
    """

    id: str
    source: str
    genre: Genre
    turns: tuple[Turn, ...]
    held_back: bool = False

    @property
    def user_turns(self) -> tuple[Turn, ...]:
        """The user's utterances in order."""
        return tuple(turn for turn in self.turns if turn.role == "user")

    def head(self, user_turns: int) -> tuple[Turn, ...]:
        """Its first user turns, each with its answers; what stands before the first user turn is left out."""
        starts = [index for index, turn in enumerate(self.turns) if turn.role == "user"]
        end = starts[user_turns] if user_turns < len(starts) else len(self.turns)
        return self.turns[starts[0] : end]


@dataclass(frozen=True, slots=True)
class Segment:
    """One topic of a dialogue, its opening user turn first.

    Attributes:
        source: name of the dialogue's source.
        genre: of the dialogue.
        utterances: those of the topic, in order.
        starts: positions of its user turns.
    """

    source: str
    genre: Genre
    utterances: tuple[Utterance, ...]
    starts: tuple[int, ...]

    @property
    def opening(self) -> str:
        """Text of the turn that opens the topic."""
        return self.utterances[0].text

    def head(self, user_turns: int) -> tuple[Utterance, ...]:
        """Its first user turns, each with its answers."""
        return self.utterances[: self.starts[user_turns] if user_turns < len(self.starts) else len(self.utterances)]


def segments(dialogue: Dialogue) -> list[Segment]:
    """Cut a dialogue at its pivots; what precedes the first user turn, and follows the first return, is left out."""
    runs: list[list[Utterance]] = []
    for turn in dialogue.turns:
        if turn.role == "user" and (not runs or turn.reading is Reading.PIVOT):
            runs.append([])
        if turn.reading is Reading.BACK:
            break
        if runs:
            runs[-1].append(turn.utterance)
    return [_segment(dialogue, run) for run in runs if run]


def _segment(dialogue: Dialogue, run: list[Utterance]) -> Segment:
    starts = tuple(index for index, utterance in enumerate(run) if utterance.role == "user")
    return Segment(dialogue.source, dialogue.genre, tuple(run), starts)
