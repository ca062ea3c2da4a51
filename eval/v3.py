"""Figures against P, the user turn of the pivot (variant V3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eval.intervals import Estimate, Statistic, estimate, resample, slope
from eval.metrics import Table
from eval.records import TurnRecord

FIGURES = ("f1_pivot", "recall_pivot", "over_carry", "false_reset")


def pivot_turns(records: Sequence[TurnRecord]) -> list[int]:
    """Every P that occurs, ascending."""
    return sorted({record.pivot_turn for record in records if record.pivot_turn is not None})


def by_pivot_turn(
    records: Sequence[TurnRecord], metric: str, generator: np.random.Generator, draws: int
) -> list[Estimate]:
    """The metric at each P."""
    weights, statistics = _statistics(records, metric, generator, draws)
    return [estimate(statistic, weights) for statistic in statistics]


def slope_estimate(records: Sequence[TurnRecord], metric: str, generator: np.random.Generator, draws: int) -> Estimate:
    """[ours] Least-squares slope of the metric in P: change a user turn."""
    weights, statistics = _statistics(records, metric, generator, draws)
    return estimate(slope(np.array(pivot_turns(records), dtype=np.float64), statistics), weights)


def _statistics(
    records: Sequence[TurnRecord], metric: str, generator: np.random.Generator, draws: int
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], list[Statistic]]:
    """The metric at each P over the same units, with their weights; sessions are drawn within their P."""
    turns = pivot_turns(records)
    parts = [[record for record in records if record.pivot_turn == turn] for turn in turns]
    units = [list(Table(part).units) for part in parts]
    weights = np.concatenate([resample(len(one), generator, draws) for one in units], axis=1)
    everything = [name for one in units for name in one]
    return weights, [Table(part, everything).statistic(metric) for part in parts]
