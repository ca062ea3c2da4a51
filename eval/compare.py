"""Several runs in one table: the same row of each, and by how much the last differs from the first.

Runs on the same sessions (their digests say so) are paired by session; others are drawn apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np

from eval.groups import Key, Run
from eval.intervals import Estimate, difference, estimate, resample
from eval.metrics import RECALL_AT_LIMIT, Table, UnitKey, unit
from eval.records import TurnRecord
from eval.report import Cell, ReportTable, cell


def comparison_tables(runs: Sequence[Run], names: Mapping[str, Sequence[str]], draws: int) -> Iterator[ReportTable]:
    """One table for each row that at least two runs have; ``names`` are the metrics by task."""
    for key in sorted({key for run in runs for key in run.groups}):
        holders = [run for run in runs if key in run.groups]
        if len(holders) > 1:
            digests = {_digest(run, key) for run in holders}
            paired = len(digests) == 1 and None not in digests
            yield ReportTable(
                f"{holders[0].title(key.source)} {key.variant.upper()}, {key.row}, {key.task} task"
                f"{'' if paired else ' (other sessions: not paired)'}",
                ("figure", *(run.name for run in holders), "last - first", "excludes 0"),
                tuple(_rows([run.groups[key] for run in holders], names[key.task], holders[0], draws, paired=paired)),
            )


def _rows(
    groups: Sequence[Sequence[TurnRecord]], names: Sequence[str], first: Run, draws: int, *, paired: bool
) -> Iterator[tuple[Cell, ...]]:
    keys = [unit if paired else _of_run(number) for number in range(len(groups))]
    units = list(dict.fromkeys(key(record) for key, group in zip(keys, groups, strict=True) for record in group))
    tables = [Table(group, units, key) for key, group in zip(keys, groups, strict=True)]
    weights = resample(len(units), np.random.default_rng(first.card.seed), draws)
    gate = all(record.path == "gate" for group in groups for record in group)
    for name in names:
        if name == RECALL_AT_LIMIT and not gate:
            continue
        statistics = [table.statistic(name) for table in tables]
        estimates = [estimate(statistic, weights) for statistic in statistics]
        if any(one.value is not None for one in estimates):
            change = estimate(difference(statistics[-1], statistics[0]), weights)
            yield (name, *map(cell, estimates), cell(change), clear(change))


def clear(change: Estimate) -> Cell:
    """Whether the interval of a difference excludes 0, in a word."""
    if change.interval is None:
        return "-"
    return "yes" if change.excludes(0) else "no"


def _of_run(number: int) -> UnitKey:
    def key(record: TurnRecord) -> Hashable:
        return (number, unit(record))

    return key


def _digest(run: Run, key: Key) -> object:
    """Of the sessions; None where the card says nothing of it."""
    return next(
        (
            one.get("digest")
            for one in run.card.sessions
            if (one.get("source"), one.get("variant")) == (key.source, key.variant)
        ),
        None,
    )
