"""Training samples, and those that labelled dialogues give directly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guard.conversation import Utterance
from models.training.dialogue import Dialogue, Reading, Turn

TARGETS = {Reading.REFINE: 0.0, Reading.PIVOT: 1.0, Reading.SOFT: 0.10}
WEIGHTS = {Reading.REFINE: 1.0, Reading.PIVOT: 1.0, Reading.SOFT: 0.4}
"""Soft turns are told from pivots by nobody with certainty: they count less."""

BETWEEN = "back_middle"
"""Recipe of a return, asked against the thread in between."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One question to the gate and its answer.

    Attributes:
        thread: utterances of the current thread, oldest first.
        turn: text of the user turn.
        target: p(PIVOT): 0 for a refinement, 1 for a pivot, a little for a soft turn.
        recipe: what made it.
        weight: of its loss.
    """

    thread: tuple[Utterance, ...]
    turn: str
    target: float
    recipe: str
    weight: float = 1.0


def labelled(dialogue: Dialogue) -> list[Sample]:
    """One sample for each labelled turn, against the thread that the labels give.

    A return gives two: a refinement of its own thread, and a pivot from the thread in between.
    """
    samples: list[Sample] = []
    threads: list[list[int]] = []
    current: list[int] = []
    for position, turn in enumerate(dialogue.turns):
        if turn.reading is Reading.BACK:
            returned = next((thread for thread in threads if set(turn.needs) & set(thread)), current)
            if returned is not current:
                samples.append(_sample(dialogue, current, turn, 1.0, BETWEEN, 0.7))
                samples.append(_sample(dialogue, returned, turn, 0.0, "back"))
                current = returned
        elif turn.reading and current:
            target, weight = TARGETS[turn.reading], WEIGHTS[turn.reading]
            samples.append(_sample(dialogue, current, turn, target, f"labelled_{turn.reading}", weight))
        if turn.role == "user" and (turn.reading is Reading.PIVOT or not threads):
            current = []
            threads.append(current)
        if threads:
            current.append(position)
    return samples


def _sample(
    dialogue: Dialogue, thread: Sequence[int], turn: Turn, target: float, recipe: str, weight: float = 1.0
) -> Sample:
    return Sample(tuple(dialogue.turns[index].utterance for index in thread), turn.text, target, recipe, weight)
