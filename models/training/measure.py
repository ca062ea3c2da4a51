"""Measuring a finished gate as it is served: whole dialogues through the guard, each turn as a request brings it.

The guard's own earlier decisions make the threads, never the readings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from guard.controller import Label
from guard.conversation import Conversation, Message
from guard.guard import Guard
from guard.policy import Policy
from models.training.dialogue import Dialogue, Reading


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the guard did with one labelled turn.

    Attributes:
        reading: of the turn.
        needs: positions that it needs.
        label: what the guard called it; None where it abstained.
        probability: p(PIVOT); None where it abstained.
        kept: positions of earlier utterances that are forwarded.
    """

    reading: Reading
    needs: tuple[int, ...]
    label: Label | None
    probability: float | None
    kept: tuple[int, ...]


def replay(guard: Guard, dialogue: Dialogue, policy: Policy) -> Iterator[Outcome]:
    """Decide every labelled turn but the first user turn."""
    messages = [Message(turn.role, turn.text) for turn in dialogue.turns]
    for position, turn in enumerate(dialogue.turns):
        if turn.reading is not None and any(earlier.role == "user" for earlier in dialogue.turns[:position]):
            verdict = guard.decide(Conversation.of(messages[: position + 1]), policy)
            live = verdict.turns[-1]
            kept = tuple(index for index in verdict.selection.kept if index < position)
            yield Outcome(turn.reading, turn.needs, live.label, live.probability, kept)


def figures(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """Figures of one row; one that the row has no turns for is absent.

    recall, precision and f1 are those of PIVOT over turns read as pivots and refinements; false_resets: share of
    refinements called pivots; over_carry: share of pivots that carry anything; needs_met: share of returns that get all
    they need; soft_resets: share of soft turns called pivots; recall_at_1pct: recall where 1 % of these very
    refinements would be reset.
    """
    found = list(outcomes)
    pivots = [outcome for outcome in found if outcome.reading is Reading.PIVOT]
    refinements = [outcome for outcome in found if outcome.reading is Reading.REFINE]
    soft = [outcome for outcome in found if outcome.reading is Reading.SOFT]
    needy = [outcome for outcome in found if outcome.needs]
    hits, resets = _resets(pivots), _resets(refinements)
    row: dict[str, float] = {"pivots": len(pivots), "refinements": len(refinements), "soft": len(soft)}
    row["returns"] = len(needy)
    if refinements:
        row["false_resets"] = resets / len(refinements)
    if pivots:
        row["recall"] = hits / len(pivots)
        row["f1"] = 2 * hits / (hits + resets + len(pivots))
        row["over_carry"] = sum(bool(outcome.kept) for outcome in pivots) / len(pivots)
    if hits + resets:
        row["precision"] = hits / (hits + resets)
    if pivots and refinements:
        row["recall_at_1pct"] = _recall_at(pivots, refinements, 0.01)
    if soft:
        row["soft_resets"] = _resets(soft) / len(soft)
    if needy:
        row["needs_met"] = sum(set(outcome.needs) <= set(outcome.kept) for outcome in needy) / len(needy)
    return row


def _resets(outcomes: Sequence[Outcome]) -> int:
    return sum(outcome.label is Label.PIVOT for outcome in outcomes)


def _recall_at(pivots: Sequence[Outcome], refinements: Sequence[Outcome], rate: float) -> float:
    """An abstention resets nothing: it counts as a probability of 0."""
    ranked = sorted((outcome.probability or 0.0 for outcome in refinements), reverse=True)
    cut = ranked[int(len(ranked) * rate)]
    return sum((outcome.probability or 0.0) > cut for outcome in pivots) / len(pivots)
