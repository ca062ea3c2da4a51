"""What a change of model is expected to cost: a fitted switch matrix, compressed to one number a model and role.

    risk(A -> B) = mu + influence[A] + susceptibility[B]        (A != B; a model that goes on with its own text: 0)

in points of the benchmark's score; negative: the prefix by A is expected to harm B. The terms are centred, so a model
that was never measured has no term that could be guessed, and no risk (decomposition of arXiv 2603.03111).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from guard.errors import SettingsError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Risk:
    """A fitted decomposition.

    Attributes:
        mu: mean effect of a switch.
        influence: how a prefix by each model moves others.
        susceptibility: how each model is moved by prefixes of others.
        benchmark: what it was fitted on.
    """

    mu: float
    influence: Mapping[str, float]
    susceptibility: Mapping[str, float]
    benchmark: str = ""

    def of(self, prefix: str, suffix: str) -> float | None:
        """Expected change in score when ``suffix`` continues ``prefix``; None when one of them was not measured."""
        if prefix == suffix:
            return 0.0
        if prefix not in self.influence or suffix not in self.susceptibility:
            return None
        return self.mu + self.influence[prefix] + self.susceptibility[suffix]

    def of_mixed(self, turns: Mapping[str, int], suffix: str) -> float | None:
        """Expected change for a prefix by several models, weighted by their turns; turns without a risk are left out.

        None when no turn has one.
        """
        known = [(risk, count) for model, count in turns.items() if (risk := self.of(model, suffix)) is not None]
        total = sum(count for _, count in known)
        return sum(risk * count for risk, count in known) / total if total else None

    def safest_first(self, models: Sequence[str], turns: Mapping[str, int]) -> list[str]:
        """The models, least expected harm first; those without a risk keep their order behind the others."""

        def key(model: str) -> tuple[bool, float]:
            risk = self.of_mixed(turns, model)
            return (risk is None, -(risk or 0.0))

        return sorted(models, key=key)

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Risk:
        """Read what ``to_dict`` wrote; other keys (intervals, provenance) are ignored.

        Raises:
            SettingsError: not a decomposition of this format.
        """
        if data.get("format") != FORMAT:
            raise SettingsError(f"risk: format must be {FORMAT}, not {data.get('format')!r}")
        influence = _numbers(data.get("influence"), "influence")
        susceptibility = _numbers(data.get("susceptibility"), "susceptibility")
        mu = _numbers({"mu": data.get("mu")}, "mu")["mu"]
        return cls(mu, influence, susceptibility, str(data.get("benchmark") or ""))

    def to_dict(self) -> dict[str, object]:
        """The decomposition as plain data."""
        return {
            "format": FORMAT,
            "benchmark": self.benchmark,
            "mu": self.mu,
            "influence": dict(self.influence),
            "susceptibility": dict(self.susceptibility),
        }


def _numbers(values: object, name: str) -> dict[str, float]:
    if not isinstance(values, Mapping) or not values:
        raise SettingsError(f"risk: {name} must map model names to numbers")
    numbers: dict[str, float] = {}
    for model, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise SettingsError(f"risk: {name} of {model} must be a finite number")
        numbers[str(model)] = float(value)
    return numbers
