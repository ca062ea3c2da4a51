"""Bootstrap intervals over units that are independent: sessions, episodes. Turns of one session are not.

A statistic is a function of weights: row r of the weights says how often each unit was drawn in resample r. Written so,
every draw is evaluated in one matrix product, several statistics share the same draws, and pairs stay pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Statistic = Callable[[FloatArray], FloatArray]
"""Weights (draws x units) to one value a draw; NaN where the draw leaves the statistic undefined."""

RESAMPLES = 1000
LEVEL = 0.95
UNDEFINED_SHARE = 0.05
"""An interval is withheld when more than this share of the draws leaves the statistic undefined."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval; None where it is undefined."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Low and high, if there are any."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def excludes(self, value: float) -> bool:
        """Whether the interval exists and does not hold ``value``."""
        return self.interval is not None and not self.interval[0] <= value <= self.interval[1]


def resample(units: int, generator: np.random.Generator, draws: int = RESAMPLES) -> FloatArray:
    """Weights of ``draws`` resamples of ``units`` units with replacement."""
    if units == 0:
        return np.zeros((draws, 0))
    return generator.multinomial(units, np.full(units, 1 / units), size=draws).astype(np.float64)


def estimate(statistic: Statistic, weights: FloatArray, level: float = LEVEL) -> Estimate:
    """The statistic on the data as it is, with the percentile interval over the resamples in ``weights``."""
    value = float(statistic(np.ones((1, weights.shape[1])))[0])
    if np.isnan(value):
        return Estimate(None)
    drawn = statistic(weights)
    defined = drawn[~np.isnan(drawn)]
    if len(drawn) == 0 or len(defined) < (1 - UNDEFINED_SHARE) * len(drawn):
        return Estimate(value)
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high))


def ratio(numerators: FloatArray, denominators: FloatArray) -> Statistic:
    """Sum of numerators over sum of denominators, one of each a unit."""

    def statistic(weights: FloatArray) -> FloatArray:
        return divide(weights @ numerators, weights @ denominators)

    return statistic


def difference(left: Statistic, right: Statistic) -> Statistic:
    """``left - right`` on the same draws: paired when both count the same units."""

    def statistic(weights: FloatArray) -> FloatArray:
        return left(weights) - right(weights)

    return statistic


def slope(abscissae: FloatArray, statistics: list[Statistic]) -> Statistic:
    """Least-squares slope of statistics against ``abscissae``; statistics undefined in a draw are left out of it."""

    def statistic(weights: FloatArray) -> FloatArray:
        values = np.stack([one(weights) for one in statistics], axis=1)
        known = ~np.isnan(values)
        x = np.where(known, abscissae, np.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a draw without any value has no mean
            x = x - np.nanmean(x, axis=1, keepdims=True)
            y = values - np.nanmean(values, axis=1, keepdims=True)
        return divide(np.nansum(x * y, axis=1), np.nansum(x * x, axis=1))

    return statistic


def divide(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Quotient, NaN where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.full_like(numerator, np.nan), where=denominator != 0)
