from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.intervals import difference, estimate, ratio, resample, slope


def _weights(units: int, draws: int = 2000) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return resample(units, np.random.default_rng(1), draws)


def test_resamples_draw_as_many_units_as_there_are() -> None:
    """Every draw has as many units as the data."""
    assert set(_weights(7).sum(axis=1)) == {7.0}


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30))
def test_the_interval_stays_within_the_data(values: list[float]) -> None:
    """A mean's interval lies between the least and the greatest value, around the estimate's side of both."""
    data = np.array(values)
    found = estimate(ratio(data, np.ones_like(data)), _weights(len(values), 100))
    assert found.interval is not None
    low, high = found.interval
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9


def test_the_interval_of_a_mean_is_the_textbook_one() -> None:
    """For many units the percentile interval of a mean is near mean +- 1.96 standard errors."""
    data = np.random.default_rng(5).normal(3, 2, 400)
    found = estimate(ratio(data, np.ones(400)), _weights(400))
    error = data.std() / 20
    assert found.interval == pytest.approx((data.mean() - 1.96 * error, data.mean() + 1.96 * error), abs=0.03)


def test_pairs_stay_pairs() -> None:
    """A constant difference between paired units has an interval of no width, however much they vary."""
    data, ones = np.random.default_rng(2).normal(0, 5, 50), np.ones(50)
    found = estimate(difference(ratio(data + 1, ones), ratio(data, ones)), _weights(50))
    assert found.interval == pytest.approx((1, 1))
    assert found.excludes(0)


def test_a_slope_is_exact_on_a_line() -> None:
    """Points on a line have its slope in every draw."""
    statistics = [ratio(np.full(4, 0.9 - 0.02 * x), np.ones(4)) for x in (2, 5, 8)]
    found = estimate(slope(np.array([2.0, 5.0, 8.0]), statistics), _weights(4, 50))
    assert (found.value, found.low, found.high) == pytest.approx((-0.02, -0.02, -0.02))


def test_an_interval_that_few_draws_define_is_withheld() -> None:
    """When many draws leave a figure undefined its interval would be conditional on the others: there is none."""
    numerators, denominators = np.array([1.0, 0, 0, 0]), np.array([1.0, 0, 0, 0])
    found = estimate(ratio(numerators, denominators), _weights(4))
    assert found.value == 1
    assert found.interval is None


def test_nothing_to_draw_from_is_undefined() -> None:
    """Without units there is no figure."""
    assert estimate(ratio(np.zeros(0), np.zeros(0)), _weights(0)).value is None
