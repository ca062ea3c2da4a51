from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.training.calibration import resume_threshold_at, threshold_at

probabilities = st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.25, 0.5, 1.0])
scores = st.lists(probabilities, min_size=1, max_size=60)
rates = st.floats(0.0, 1.0)


@given(scores, rates)
def test_no_more_is_reset_than_is_allowed(found: list[float], rate: float) -> None:
    """Whatever the scores, ties included, at most the given share reaches the threshold."""
    threshold = threshold_at(found, rate)
    assert sum(score >= threshold for score in found) <= rate * len(found) + 1e-6


@given(scores, rates)
def test_the_threshold_is_no_higher_than_it_must_be(found: list[float], rate: float) -> None:
    """One score further down, more would be reset than is allowed, or nothing is left to reset."""
    threshold = threshold_at(found, rate)
    below = [score for score in found if score < threshold]
    if below:
        assert sum(score >= max(below) for score in found) > math.floor(rate * len(found) + 1e-9)


@given(scores, rates)
def test_no_more_is_resumed_than_is_allowed(found: list[float], rate: float) -> None:
    """At most the given share of pivots falls below the resume threshold."""
    threshold = resume_threshold_at(found, rate)
    assert sum(score < threshold for score in found) <= rate * len(found) + 1e-6


def test_a_threshold_stands_halfway_to_the_next_score() -> None:
    """One of four may be reset: the threshold is between the first and the second."""
    assert threshold_at([0.1, 0.2, 0.6, 0.8], 0.25) == pytest.approx(0.7)
    assert threshold_at([0.1, 0.2, 0.6, 0.8], 0.0) == pytest.approx(0.9)
    assert resume_threshold_at([0.2, 0.4, 0.9, 1.0], 0.25) == pytest.approx(0.3)


def test_without_pivots_nothing_is_resumed() -> None:
    """No evidence, no resume."""
    assert resume_threshold_at([], 0.02) == 0.0
