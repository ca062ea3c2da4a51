"""Switch effects with intervals, and their decomposition.

Scores are an array s[A, B, e]: episode e, its earlier assistant turns by model A, its last one by model B.

    effect         d[A, B, e] = s[A, B, e] - s[B, B, e]           paired with B's own no-switch run
    Delta[A, B]    mean of d over episodes; negative: A's prefix harms B
    decomposition  Delta[A, B] ~ mu + influence[A] + susceptibility[B] over A != B, least squares, both terms centred

Intervals resample episodes and keep the pairs: one resample serves every cell, so what cells share (an episode that is
hard for everyone) is shared in every replicate, and terms that are linear in the cells get honest intervals too.

The decomposition follows arXiv 2603.03111; centring both terms is ours, since else only their sum is determined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np

from eval.intervals import LEVEL, Estimate, FloatArray, resample

REPLICATES = 2000
FEWEST_EPISODES = 2
NOISE_DIGITS = 12
"""Beyond these, an effect that is exactly 0 is the noise of floating point, and must not exclude 0."""
FEWEST_MODELS = 3
"""With two models the terms cannot be told apart."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Terms of a switch matrix, by model.

    Attributes:
        mu: mean effect of a switch over the cells off the diagonal.
        influence: how a prefix by each model moves the others.
        susceptibility: how each model is moved by prefixes of the others.
        r2: share of the variance of the cells off the diagonal that the terms account for.
        spare: cells minus fitted terms; with 3 models only 1 is left, and R2 is high whatever the data.
    """

    mu: Estimate
    influence: dict[str, Estimate]
    susceptibility: dict[str, Estimate]
    r2: Estimate
    spare: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """A switch matrix in numbers.

    Attributes:
        models: names, in the order of rows (prefix) and columns (suffix).
        episodes: number of episodes behind every cell.
        scores: mean score of each cell.
        own: score of each model on its own prefix, with interval: the diagonal.
        effects: Delta of each cell off the diagonal, by (prefix, suffix).
        decomposition: None with fewer than three models, and where all scores are one.
        constant: the score of every answer where they have only one; then nothing was measured.
    """

    models: tuple[str, ...]
    episodes: int
    scores: FloatArray
    own: dict[str, Estimate]
    effects: dict[tuple[str, str], Estimate]
    decomposition: Decomposition | None
    constant: float | None = None


def switch_effects(scores: FloatArray) -> FloatArray:
    """Paired effects d[A, B, e] of scores s[A, B, e]; zero on the diagonal."""
    diagonal = np.einsum("bbe->be", scores)
    effects: FloatArray = scores - diagonal[np.newaxis, :, :]
    return effects


def analyse(
    scores: FloatArray, models: Sequence[str], rng: np.random.Generator, replicates: int = REPLICATES
) -> Matrix:
    """Effects, intervals and decomposition of a complete set of scores.

    Raises:
        ValueError: the shape is not (K, K, episodes), a score is missing, or fewer than two episodes are there.
    """
    _check(scores, models)
    count = len(models)
    episodes = scores.shape[2]
    weights = _resamples(episodes, replicates, rng)
    effects = switch_effects(scores)
    delta = effects.mean(axis=2)
    drawn = effects.reshape(count * count, episodes) @ weights
    own = np.einsum("bbe->be", scores)
    own_drawn = own @ weights
    constant = float(scores.flat[0]) if np.ptp(scores) == 0 else None
    fits = count >= FEWEST_MODELS and constant is None
    return Matrix(
        models=tuple(models),
        episodes=episodes,
        scores=scores.mean(axis=2),
        own={m: _estimate(own[i].mean(), own_drawn[i], episodes) for i, m in enumerate(models)},
        effects={
            (a, b): _estimate(delta[i, j], drawn[i * count + j], episodes)
            for i, a in enumerate(models)
            for j, b in enumerate(models)
            if i != j
        },
        decomposition=_decompose(delta, drawn, models, episodes) if fits else None,
        constant=constant,
    )


def paired_difference(
    first: FloatArray, second: FloatArray, rng: np.random.Generator, replicates: int = REPLICATES
) -> Estimate:
    """Mean of first - second over episodes with a paired bootstrap interval.

    Raises:
        ValueError: the arrays differ in length, or hold fewer than two episodes.
    """
    if first.shape != second.shape or first.ndim != 1 or len(first) < FEWEST_EPISODES:
        raise ValueError("paired scores need two arrays of one length, at least 2")
    difference = first - second
    return _estimate(difference.mean(), difference @ _resamples(len(difference), replicates, rng), len(difference))


def _check(scores: FloatArray, models: Sequence[str]) -> None:
    if scores.ndim != 3 or scores.shape[:2] != (len(models), len(models)):
        raise ValueError(f"scores must have the shape (K, K, episodes) for {len(models)} models, not {scores.shape}")
    if scores.shape[2] < FEWEST_EPISODES:
        raise ValueError("an interval needs at least two episodes")
    if not np.isfinite(scores).all():
        raise ValueError("a score is missing: only episodes with every cell can be paired")


def _resamples(episodes: int, replicates: int, rng: np.random.Generator) -> FloatArray:
    """Bootstrap weights of the episodes, one column a replicate; each column sums to 1."""
    weights: FloatArray = resample(episodes, rng, replicates).T / episodes
    return weights


def _estimate(value: float, drawn: FloatArray, episodes: int) -> Estimate:
    """Percentile interval, widened for few episodes.

    The plain percentile interval is too narrow by about sqrt((n-1)/n) and by using a normal instead of a t quantile.
    The tails are moved to make up for both (the "expanded percentile" interval of Hesterberg 2015, section 5.3).
    """
    tail = _tail(episodes)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Estimate(*(round(float(one), NOISE_DIGITS) for one in (value, low, high)))


def _tail(episodes: int) -> float:
    normal = NormalDist()
    z = normal.inv_cdf((1 + LEVEL) / 2)
    freedom = episodes - 1
    # Cornish-Fisher expansion of the t quantile: good to 0.1 % from 5 episodes on.
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return normal.cdf(-sqrt(episodes / freedom) * t)


def _decompose(delta: FloatArray, drawn: FloatArray, models: Sequence[str], episodes: int) -> Decomposition:
    count = len(models)
    off = ~np.eye(count, dtype=bool)
    design = _design(count)
    solve = np.linalg.pinv(design)
    target = delta[off]
    targets = drawn[off.ravel()]
    terms, many = solve @ target, solve @ targets
    expand = _expansion(count)
    values, replicated = expand @ terms, expand @ many
    estimates = [_estimate(v, r, episodes) for v, r in zip(values, replicated, strict=True)]
    r2 = _r2(target[:, np.newaxis], design @ terms[:, np.newaxis])[0]
    return Decomposition(
        mu=estimates[0],
        influence=dict(zip(models, estimates[1 : 1 + count], strict=True)),
        susceptibility=dict(zip(models, estimates[1 + count :], strict=True)),
        r2=_estimate(r2, _r2(targets, design @ many), episodes),
        spare=len(target) - design.shape[1],
    )


def _expansion(count: int) -> FloatArray:
    """From free terms (mu, all influences but the last, all susceptibilities but the last) to all terms."""
    centred = np.vstack([np.eye(count - 1), -np.ones((1, count - 1))])
    expansion = np.zeros((1 + 2 * count, 1 + 2 * (count - 1)))
    expansion[0, 0] = 1
    expansion[1 : 1 + count, 1:count] = centred
    expansion[1 + count :, count:] = centred
    return expansion


def _design(count: int) -> FloatArray:
    """Rows: cells off the diagonal in reading order; columns: free terms."""
    rows = [(a, b) for a in range(count) for b in range(count) if a != b]
    picks = np.zeros((len(rows), 1 + 2 * count))
    for row, (a, b) in enumerate(rows):
        picks[row, [0, 1 + a, 1 + count + b]] = 1
    design: FloatArray = picks @ _expansion(count)
    return design


def _r2(targets: FloatArray, fitted: FloatArray) -> FloatArray:
    """1 - residual / total sum of squares, a column a replicate; 1 where all cells are equal."""
    residual = ((targets - fitted) ** 2).sum(axis=0)
    total = ((targets - targets.mean(axis=0)) ** 2).sum(axis=0)
    tiny = np.finfo(np.float64).tiny
    r2: FloatArray = 1 - np.where(total > tiny, residual / np.maximum(total, tiny), 0.0)
    return r2
