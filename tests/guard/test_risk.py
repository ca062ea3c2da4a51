import pytest

from guard.errors import SettingsError
from guard.risk import Risk

RISK = Risk(-0.02, {"a": 0.01, "b": -0.03, "c": 0.02}, {"a": 0.0, "b": 0.05, "c": -0.05}, "multi-if")


def test_risk_is_the_sum_of_the_terms() -> None:
    """A pair costs the mean, what the prefix does to others and what the suffix suffers from others."""
    assert RISK.of("a", "b") == pytest.approx(-0.02 + 0.01 + 0.05)


def test_own_prefix_is_no_risk() -> None:
    """A model that goes on with its own text is the baseline."""
    assert RISK.of("a", "a") == 0.0


def test_unmeasured_models_have_no_risk() -> None:
    """A model that was not in the matrix is not guessed at."""
    assert RISK.of("a", "z") is None
    assert RISK.of("z", "a") is None
    assert RISK.of_mixed({"z": 2}, "a") is None


def test_mixed_prefix_weighs_by_turns() -> None:
    """With three turns by a and one of its own, b bears three quarters of the risk; unknown turns do not count."""
    assert RISK.of_mixed({"a": 3, "b": 1, "unknown": 5}, "b") == pytest.approx(0.75 * 0.04)


def test_fallbacks_by_risk() -> None:
    """The least expected harm comes first, models without a figure last, in the order given."""
    assert RISK.safest_first(["z", "c", "y", "b"], {"a": 2}) == ["b", "c", "z", "y"]


def test_dict_round_trip() -> None:
    """What is written is read back."""
    assert Risk.from_dict(RISK.to_dict()) == RISK


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"mu": None}, {"mu": float("nan")}, {"influence": {}}, {"susceptibility": {"a": "1"}}],
)
def test_other_data_is_refused(change: dict[str, object]) -> None:
    """A file that is not a decomposition is named as such, not read as zeros."""
    with pytest.raises(SettingsError, match="risk"):
        Risk.from_dict({**RISK.to_dict(), **change})
