"""The figures, each as a sum over turns divided by another sum over turns.

A metric is a function from a turn's record to its part of numerator and denominator; its docstring is its definition
and is printed in reports. A turn that nobody labelled (the gate abstained, the model broke the shape) counts as
neither PIVOT nor REFINE: it lowers recall and is never dropped. An undefined figure is None, never 0.
Definitions follow arXiv 2605.09268 unless marked [ours].
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eval.errors import MetricError
from eval.intervals import Estimate, FloatArray, Statistic, estimate, ratio, resample
from eval.records import TurnRecord

PIVOT, REFINE = "PIVOT", "REFINE"
FALSE_RESET_LIMIT = 0.01


class Part(NamedTuple):
    """A turn's share of a metric."""

    numerator: float
    denominator: float


Metric = Callable[[TurnRecord], Part]
UnitKey = Callable[[TurnRecord], Hashable]
NOTHING = Part(0, 0)


def precision(turn: TurnRecord, label: str) -> Part:
    """TP / (TP + FP)."""
    if turn.label is None or turn.predicted != label:
        return NOTHING
    return Part(turn.label == label, 1)


def recall(turn: TurnRecord, label: str) -> Part:
    """TP / (TP + FN)."""
    return Part(turn.predicted == label, 1) if turn.label == label else NOTHING


def f1(turn: TurnRecord, label: str) -> Part:
    """2 TP / (2 TP + FP + FN)."""
    if turn.label is None:
        return NOTHING
    true, said = turn.label == label, turn.predicted == label
    return Part(2 * (true and said), true + said)


def precision_pivot(turn: TurnRecord) -> Part:
    """Share of turns labelled PIVOT that are pivots."""
    return precision(turn, PIVOT)


def recall_pivot(turn: TurnRecord) -> Part:
    """Share of pivots labelled PIVOT."""
    return recall(turn, PIVOT)


def f1_pivot(turn: TurnRecord) -> Part:
    """F1 of the class PIVOT over all scored user turns, pooled."""
    return f1(turn, PIVOT)


def precision_refine(turn: TurnRecord) -> Part:
    """Share of turns labelled REFINE that are refinements."""
    return precision(turn, REFINE)


def recall_refine(turn: TurnRecord) -> Part:
    """Share of refinements labelled REFINE."""
    return recall(turn, REFINE)


def f1_refine(turn: TurnRecord) -> Part:
    """F1 of the class REFINE over all scored user turns, pooled."""
    return f1(turn, REFINE)


def over_carry(turn: TurnRecord) -> Part:
    """OC: share of true PIVOT turns whose shortlist is not empty.

    [ours] Turns whose shortlist is unknown (a malformed answer of a model that was sent history) are left out here and
    counted by ``violation_rate``.
    """
    if turn.label != PIVOT or turn.shortlist is None:
        return NOTHING
    return Part(len(turn.shortlist) > 0, 1)


def false_reset(turn: TurnRecord) -> Part:
    """[ours] Share of true REFINE turns labelled PIVOT: wanted history that is thrown away."""
    return Part(turn.predicted == PIVOT, 1) if turn.label == REFINE else NOTHING


def under_carry(turn: TurnRecord) -> Part:
    """[ours] Mean over true REFINE turns of 1 - |kept and gold| / |gold|."""
    if turn.label != REFINE or turn.shortlist is None or not turn.gold:
        return NOTHING
    return Part(1 - len(set(turn.shortlist) & set(turn.gold)) / len(turn.gold), 1)


def mismatch(turn: TurnRecord) -> Part:
    """[ours] Share of turns labelled PIVOT by the path whose own shortlist is not empty: it says so, and carries on."""
    if turn.label is None or turn.predicted != PIVOT or turn.shortlist is None:
        return NOTHING
    return Part(len(turn.shortlist) > 0, 1)


def needs_met(turn: TurnRecord) -> Part:
    """[ours] Share of turns with ``needs`` whose needs are all kept."""
    if turn.needs is None:
        return NOTHING
    return Part(turn.shortlist is not None and set(turn.needs) <= set(turn.shortlist), 1)


def kept_share(turn: TurnRecord) -> Part:
    """[ours] Earlier utterances kept / offered, summed over true REFINE turns."""
    if turn.label != REFINE or turn.shortlist is None:
        return NOTHING
    return Part(len(turn.shortlist), turn.offered)


def tokens_share(turn: TurnRecord) -> Part:
    """[ours] Estimated prompt tokens forwarded / offered, over all scored turns; the live turn is in both."""
    return NOTHING if turn.label is None else Part(turn.tokens_kept, turn.tokens_offered)


def violation_rate(turn: TurnRecord) -> Part:
    """[ours] Share of turns that ended without a readable answer, after every retry."""
    return NOTHING if turn.label is None else Part(turn.error != "", 1)


def violations_per_turn(turn: TurnRecord) -> Part:
    """[ours] Malformed answers a turn, retries included."""
    return NOTHING if turn.label is None else Part(len(turn.violations), 1)


def answer_f1(turn: TurnRecord) -> Part:
    """[ours] Mean token F1 of the answers at and after the pivot; a malformed answer scores 0."""
    if turn.answer_f1 is None or turn.pivot_turn is None or turn.number < turn.pivot_turn:
        return NOTHING
    return Part(turn.answer_f1, 1)


def answer_f1_at_pivot(turn: TurnRecord) -> Part:
    """[ours] Mean token F1 of the answers at the pivot alone."""
    return answer_f1(turn) if turn.number == turn.pivot_turn else NOTHING


def first_token_s(turn: TurnRecord) -> Part:
    """[ours] Mean seconds to the first token."""
    return NOTHING if turn.first_token_s is None else Part(turn.first_token_s, 1)


def first_token_s_after_pivot(turn: TurnRecord) -> Part:
    """[ours] Mean seconds to the first token at and after the pivot, where a guard can save any."""
    return NOTHING if turn.pivot_turn is None or turn.number < turn.pivot_turn else first_token_s(turn)


def prompt_tokens(turn: TurnRecord) -> Part:
    """[ours] Mean prompt tokens a request, as the backend counted them."""
    return NOTHING if turn.prompt_tokens is None else Part(turn.prompt_tokens, 1)


def prompt_tokens_after_pivot(turn: TurnRecord) -> Part:
    """[ours] Mean prompt tokens of the requests at and after the pivot, as the backend counted them."""
    return NOTHING if turn.pivot_turn is None or turn.number < turn.pivot_turn else prompt_tokens(turn)


METRICS: dict[str, Metric] = {
    metric.__name__: metric
    for metric in (
        precision_pivot,
        recall_pivot,
        f1_pivot,
        precision_refine,
        recall_refine,
        f1_refine,
        over_carry,
        false_reset,
        under_carry,
        mismatch,
        needs_met,
        kept_share,
        tokens_share,
        violation_rate,
        violations_per_turn,
        answer_f1,
        answer_f1_at_pivot,
        first_token_s,
        first_token_s_after_pivot,
        prompt_tokens,
        prompt_tokens_after_pivot,
    )
}
RECALL_AT_LIMIT = "recall_pivot_at_1pct_false_reset"


class Table:
    """Records with their sessions numbered: the units that a bootstrap draws."""

    def __init__(
        self, records: Sequence[TurnRecord], units: Sequence[Hashable] | None = None, key: UnitKey | None = None
    ) -> None:
        """Take records; ``units`` fixes the numbering of sessions so that two tables can be paired.

        ``key`` names a record's unit; by default its session (source, variant and id).
        """
        name = unit if key is None else key
        self.records = list(records)
        self.units = list(dict.fromkeys(map(name, self.records))) if units is None else list(units)
        numbers = {one: number for number, one in enumerate(self.units)}
        self._unit = np.array([numbers[name(record)] for record in self.records], dtype=np.int64)

    def statistic(self, name: str) -> Statistic:
        """The metric ``name`` as a function of session weights.

        Raises:
            MetricError: there is no such metric.
        """
        if name == RECALL_AT_LIMIT:
            return self._recall_at(FALSE_RESET_LIMIT)
        metric = METRICS.get(name)
        if metric is None:
            raise MetricError(f"no metric is called {name!r}")
        parts = [metric(record) for record in self.records]
        return ratio(self._summed([p.numerator for p in parts]), self._summed([p.denominator for p in parts]))

    def estimates(
        self, names: Sequence[str], generator: np.random.Generator, draws: int | None = None
    ) -> dict[str, Estimate]:
        """Every named metric with its bootstrap interval over sessions, on the same draws."""
        weights = resample(len(self.units), generator, *([] if draws is None else [draws]))
        return {name: estimate(self.statistic(name), weights) for name in names}

    def value(self, name: str) -> float | None:
        """The metric on all sessions; None where it is undefined."""
        value = float(self.statistic(name)(np.ones((1, len(self.units))))[0])
        return None if np.isnan(value) else value

    def _summed(self, values: Sequence[float]) -> FloatArray:
        summed = np.zeros(len(self.units))
        np.add.at(summed, self._unit, np.asarray(values, dtype=np.float64))
        return summed

    def _recall_at(self, limit: float) -> Statistic:
        """[ours] Pivot recall at the lowest threshold whose false-reset rate is at most ``limit``.

        The probabilities are those of the replay at the gate's own threshold: another threshold would also change the
        threads that later turns are asked against, which this figure does not model. An unscored turn counts as never
        reset.
        """
        refine, pivot = self._probabilities(REFINE), self._probabilities(PIVOT)
        order = np.argsort(-refine[0], kind="stable")
        refine_p, refine_units = refine[0][order], refine[1][order]

        def statistic(weights: FloatArray) -> FloatArray:
            values = np.full(len(weights), np.nan)
            for row, weight in enumerate(weights):
                reset = np.cumsum(weight[refine_units])
                pivots = weight[pivot[1]]
                if len(reset) == 0 or reset[-1] == 0 or pivots.sum() == 0:
                    continue
                first_refused = refine_p[np.searchsorted(reset, limit * reset[-1], side="right")]
                values[row] = pivots[pivot[0] > first_refused].sum() / pivots.sum()
            return values

        return statistic

    def _probabilities(self, label: str) -> tuple[FloatArray, NDArray[np.int64]]:
        chosen = [number for number, record in enumerate(self.records) if record.label == label]
        probabilities = [self.records[number].probability for number in chosen]
        values = np.array([-1.0 if p is None else p for p in probabilities], dtype=np.float64)
        return values, self._unit[chosen] if chosen else np.zeros(0, dtype=np.int64)


def unit(record: TurnRecord) -> Hashable:
    """What a bootstrap draws: the session, whatever the path, the model or the repeat."""
    return (record.source, record.variant, record.session)
