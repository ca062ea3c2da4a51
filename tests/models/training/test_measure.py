from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from guard.cache import LRURulingCache
from guard.controller import Label
from guard.guard import Guard
from guard.policy import Policy
from guard.ports import GateQuery
from models.training.authored import parse
from models.training.development import at_turn, chained, joined, spliced
from models.training.dialogue import Dialogue, Reading, Turn
from models.training.measure import Outcome, figures, replay
from models.training.progress import Progress


class ShoutingGate:
    """A turn in capitals is a pivot, but not from a thread that has its last word."""

    gate_id = "shouting"
    threshold = 0.5
    resume_threshold = 0.5

    def score(self, queries: Sequence[GateQuery]) -> list[float | None]:
        return [float(q.turn.isupper() and q.turn.split()[-1] not in q.history[0].text) for q in queries]

    def relevance(self, turn: str, texts: Sequence[str]) -> list[float]:
        return [0.0] * len(texts)


def dialogue(name: str, user_turns: int) -> Dialogue:
    turns = [Turn(role, f"{name} {n}") for n in range(user_turns) for role in ("user", "assistant")]
    return Dialogue(name, "s", "qa", tuple(turns))


def test_figures_are_those_of_the_guard_as_served() -> None:
    """Recall, false resets, over-carry and met needs come from replaying each turn with the guard's own threads."""
    chat = "=== a\nU: A\nA: yes\nR: more\nP: NEW B\nR: OTHER C\nP: quiet pivot\nB[0,1]: BACK TO A\n"
    gate = ShoutingGate()
    guard = Guard(gate, gate, LRURulingCache())
    row = figures(replay(guard, parse(chat, "x")[0], Policy()))
    assert (row["pivots"], row["refinements"], row["returns"]) == (2, 2, 1)
    assert row["recall"] == 0.5
    assert row["false_resets"] == 0.5
    assert row["over_carry"] == 0.5
    assert row["needs_met"] == 1.0


def test_a_figure_without_turns_is_absent() -> None:
    """A row without pivots has no recall, rather than one of 0."""
    row = figures([Outcome(Reading.REFINE, (), Label.REFINE, 0.1, (0,))])
    assert row["false_resets"] == 0.0
    assert not {"recall", "f1", "over_carry", "needs_met"} & set(row)


def test_a_splice_has_one_pivot() -> None:
    """The first turn of the second dialogue is the pivot; every other later user turn refines."""
    readings = [turn.reading for turn in spliced(dialogue("a", 3), dialogue("b", 3), 2, 2).user_turns]
    assert readings == [None, Reading.REFINE, Reading.PIVOT, Reading.REFINE]


def test_a_late_pivot_stands_where_it_is_asked_for() -> None:
    """V3 sets the number of the pivot's turn."""
    for session in at_turn([dialogue("a", 9), dialogue("b", 9)], 5, Random(0), 8):
        assert [turn.reading for turn in session.user_turns].index(Reading.PIVOT) == 7


def test_cues_stand_before_the_pivot() -> None:
    """V2 is V1 with a cue."""
    pool = [dialogue("a", 5), dialogue("b", 5)]
    for session in joined(pool, 5, Random(0), ["by the way"]):
        (pivot,) = [turn for turn in session.turns if turn.reading is Reading.PIVOT]
        assert pivot.text.startswith("by the way, ")


def test_every_task_of_a_chain_opens_with_a_pivot() -> None:
    """But for the first, whose opening is nobody's pivot."""
    (session,) = chained([dialogue(name, 2) for name in "abcd"], 1, Random(0))
    assert [turn.reading for turn in session.turns] == [None, Reading.REFINE, *[Reading.PIVOT, Reading.REFINE] * 3]


def test_the_time_left_is_told_at_the_pace_of_this_run() -> None:
    """Steps of an earlier run count as done, and say nothing about the pace."""
    now = [0.0]
    progress = Progress(100, clock=lambda: now[0])
    assert progress.left() == "unknown time"
    progress.skip(40)
    for _ in range(10):
        now[0] += 6
        progress.step(0.5)
    assert progress.left() == "5.0 min"


@pytest.mark.parametrize("count", [0, 3])
def test_too_little_data_gives_no_rows(count: int) -> None:
    """One dialogue makes no splice."""
    assert joined([dialogue("a", 5)], count, Random(0)) == []
