"""From records to figures. Nothing is computed that the records do not hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eval.errors import MetricError
from eval.intervals import Estimate, FloatArray
from eval.switch.protocol import SwitchRecord
from eval.switch.statistics import FEWEST_EPISODES, Matrix, analyse, paired_difference
from guard.risk import Risk


@dataclass(frozen=True, slots=True)
class PathOutcome:
    """The matrix of one path, and how it differs from the baseline's.

    Attributes:
        path: name.
        matrix: effects and decomposition.
        gains: what the path does to the score of each cell, against the baseline; empty for the baseline.
        gain: the same over all cells off the diagonal, episodes paired; None for the baseline.
    """

    path: str
    matrix: Matrix
    gains: dict[tuple[str, str], Estimate]
    gain: Estimate | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole run in figures.

    Attributes:
        paths: the baseline first.
        episodes: ids of the episodes in which every cell of every path has a score.
        incomplete: episodes that lack a cell; no figure counts them.
    """

    paths: tuple[PathOutcome, ...]
    episodes: tuple[str, ...]
    incomplete: tuple[str, ...]

    @property
    def baseline(self) -> PathOutcome:
        """The outcome on the first path."""
        return self.paths[0]


def evaluate(records: Sequence[SwitchRecord], seed: int, replicates: int) -> Outcome:
    """Figures of a run.

    Raises:
        MetricError: fewer than two episodes are complete.
    """
    paths = list(dict.fromkeys(record.path for record in records))
    models = list(dict.fromkeys(record.prefix for record in records))
    scores = {(r.path, r.prefix, r.suffix, r.episode): r.score for r in records}
    every = list(dict.fromkeys(record.episode for record in records))

    def complete(episode: str) -> bool:
        return all(scores.get((p, a, b, episode)) is not None for p in paths for a in models for b in models)

    episodes = [episode for episode in every if complete(episode)]
    if len(episodes) < FEWEST_EPISODES:
        raise MetricError(
            f"{len(episodes)} of {len(every)} episodes are complete; an interval needs at least two"
            f"{_last_error(records)}"
        )

    def array(path: str) -> FloatArray:
        cells = [[[scores[path, a, b, e] for e in episodes] for b in models] for a in models]
        return np.array(cells, dtype=np.float64)

    arrays = {path: array(path) for path in paths}
    base = arrays[paths[0]]
    outcomes = [
        _path(path, arrays[path], None if path == paths[0] else base, models, seed, replicates) for path in paths
    ]
    return Outcome(tuple(outcomes), tuple(episodes), tuple(e for e in every if e not in set(episodes)))


def _last_error(records: Sequence[SwitchRecord]) -> str:
    errors = [record.error for record in records if record.error]
    return f"; the last error: {errors[-1]}" if errors else ""


def _path(
    path: str, scores: FloatArray, base: FloatArray | None, models: Sequence[str], seed: int, replicates: int
) -> PathOutcome:
    # Every path is given the same draws: differences between paths are then not differences of luck.
    matrix = analyse(scores, models, np.random.default_rng(seed), replicates)
    if base is None:
        return PathOutcome(path, matrix, {}, None)

    def gain(ours: FloatArray, theirs: FloatArray) -> Estimate:
        return paired_difference(ours, theirs, np.random.default_rng(seed), replicates)

    gains = {(a, b): gain(scores[i, j], base[i, j]) for i, a in enumerate(models) for j, b in enumerate(models)}
    off = ~np.eye(len(models), dtype=bool)
    return PathOutcome(path, matrix, gains, gain(scores[off].mean(axis=0), base[off].mean(axis=0)))


def fitted_risk(matrix: Matrix, benchmark: str) -> Risk | None:
    """The decomposition as the proxy reads it; None when there is none."""
    fitted = matrix.decomposition
    if fitted is None or fitted.mu.value is None:
        return None
    return Risk(fitted.mu.value, _values(fitted.influence), _values(fitted.susceptibility), benchmark)


def _values(terms: dict[str, Estimate]) -> dict[str, float]:
    return {model: term.value for model, term in terms.items() if term.value is not None}
