"""Synthetic matrices whose effects are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from eval.intervals import Estimate, FloatArray
from eval.switch.statistics import analyse, paired_difference, switch_effects

MODELS = ("a", "b", "c", "d")
MU = -0.02
INFLUENCE = {"a": 0.06, "b": -0.05, "c": 0.01, "d": -0.02}
SUSCEPTIBILITY = {"a": -0.03, "b": 0.04, "c": 0.02, "d": -0.03}


def truth(a: str, b: str) -> float:
    return MU + INFLUENCE[a] + SUSCEPTIBILITY[b]


def synthetic(seed: int, episodes: int, noise: float = 0.3) -> FloatArray:
    """Scores with the effects above; episodes differ in difficulty for all, cells of one episode are correlated."""
    rng = np.random.default_rng(seed)
    own = rng.uniform(0.2, 0.8, len(MODELS))[:, np.newaxis] + rng.normal(0, 0.3, episodes)
    scores = np.empty((len(MODELS), len(MODELS), episodes))
    shared = rng.normal(0, noise, (len(MODELS), episodes))
    for i, a in enumerate(MODELS):
        for j, b in enumerate(MODELS):
            effect = 0.0 if i == j else truth(a, b) + 0.5 * shared[j] + rng.exponential(noise, episodes) - noise
            scores[i, j] = own[j] + effect
    return scores


def covers(estimate: Estimate, value: float) -> bool:
    return not estimate.excludes(value)


def test_intervals_cover_known_effects() -> None:
    """Over 500 seeds, 93 to 97 % of the 95 % intervals hold the true effect, influence and susceptibility."""
    cells: list[bool] = []
    terms: list[bool] = []
    for seed in range(500):
        matrix = analyse(synthetic(seed, 60), MODELS, np.random.default_rng([seed, 1]), replicates=1000)
        cells += [covers(estimate, truth(a, b)) for (a, b), estimate in matrix.effects.items()]
        fitted = matrix.decomposition
        assert fitted is not None
        terms += [covers(fitted.mu, MU)]
        terms += [covers(fitted.influence[m], INFLUENCE[m]) for m in MODELS]
        terms += [covers(fitted.susceptibility[m], SUSCEPTIBILITY[m]) for m in MODELS]
    assert 0.93 <= np.mean(cells) <= 0.97
    assert 0.93 <= np.mean(terms) <= 0.97


def test_terms_are_recovered() -> None:
    """With many episodes the fitted terms are the true ones, and account for all variance between cells."""
    matrix = analyse(synthetic(1, 40_000), MODELS, np.random.default_rng(0), replicates=50)
    fitted = matrix.decomposition
    assert fitted is not None
    assert fitted.mu.value == pytest.approx(MU, abs=0.01)
    for model in MODELS:
        assert fitted.influence[model].value == pytest.approx(INFLUENCE[model], abs=0.01)
        assert fitted.susceptibility[model].value == pytest.approx(SUSCEPTIBILITY[model], abs=0.01)
    assert fitted.r2.value == pytest.approx(1, abs=0.02)
    assert fitted.spare == 5


def test_terms_are_centred() -> None:
    """Influences sum to zero, and so do susceptibilities; mu is then the mean of a balanced matrix."""
    matrix = analyse(synthetic(2, 50), MODELS, np.random.default_rng(0), replicates=50)
    fitted = matrix.decomposition
    assert fitted is not None
    assert sum(e.value or 0 for e in fitted.influence.values()) == pytest.approx(0, abs=1e-12)
    assert sum(e.value or 0 for e in fitted.susceptibility.values()) == pytest.approx(0, abs=1e-12)
    assert fitted.mu.value == pytest.approx(np.mean([e.value or 0 for e in matrix.effects.values()]))


def test_no_effect_is_rarely_significant() -> None:
    """Where switching does nothing, about one cell in twenty is marked."""
    marked: list[bool] = []
    for seed in range(100):
        scores = np.random.default_rng([seed, 2]).binomial(1, 0.5, (3, 3, 80)).astype(np.float64)
        matrix = analyse(scores, "abc", np.random.default_rng(seed), replicates=400)
        marked += [estimate.excludes(0) for estimate in matrix.effects.values()]
    assert 0.02 <= np.mean(marked) <= 0.08


@given(arrays.arrays(np.float64, (3, 3, 4), elements=st.floats(0, 1)))
def test_diagonal_is_the_baseline(scores: FloatArray) -> None:
    """A model that goes on with its own prefix has no switch effect, whatever the scores."""
    assert not np.einsum("bbe->be", switch_effects(scores)).any()


@given(arrays.arrays(np.float64, (3, 3, 6), elements=st.floats(0, 1)))
def test_estimates_are_ordered_and_means(scores: FloatArray) -> None:
    """An effect is the mean of its paired differences, and its interval is not upside down."""
    matrix = analyse(scores, "xyz", np.random.default_rng(0), replicates=60)
    effect = matrix.effects["x", "y"]
    assert effect.value == pytest.approx((scores[0, 1] - scores[1, 1]).mean())
    assert effect.low is not None
    assert effect.high is not None
    assert effect.low <= effect.high


def test_same_seed_same_interval() -> None:
    """An analysis is repeatable."""
    scores = synthetic(3, 30)
    first = analyse(scores, MODELS, np.random.default_rng(7), replicates=50)
    assert first.effects == analyse(scores, MODELS, np.random.default_rng(7), replicates=50).effects


def test_two_models_have_no_decomposition() -> None:
    """Influence and susceptibility of two models cannot be told apart, so none are given."""
    scores = synthetic(4, 30)[:2, :2]
    assert analyse(scores, "ab", np.random.default_rng(0), replicates=50).decomposition is None


@pytest.mark.parametrize("scores", [np.zeros((2, 3, 5)), np.zeros((2, 2, 1)), np.full((2, 2, 5), np.nan)])
def test_incomplete_scores_are_refused(scores: FloatArray) -> None:
    """A missing score is an error, not a zero."""
    with pytest.raises(ValueError, match=r"score|episodes"):
        analyse(scores, "ab", np.random.default_rng(0))


def test_paired_difference() -> None:
    """Two paths over the same episodes are compared pair by pair: a constant gain has no spread."""
    base = np.random.default_rng(0).normal(0, 1, 30)
    gain = paired_difference(base + 0.1, base, np.random.default_rng(0))
    assert (gain.value, gain.low, gain.high) == pytest.approx((0.1, 0.1, 0.1))
