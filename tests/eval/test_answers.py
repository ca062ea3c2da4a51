from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.answers import answer_score, token_f1


@pytest.mark.parametrize(
    ("reference", "answer", "expected"),
    [
        ("June 23, 1964", "june 23 1964", 1.0),
        ("the cat", "a cat", 1.0),
        ("joss whedon", "it was Joss Whedon!", 2 * (2 / 4) * 1 / (2 / 4 + 1)),
        ("yes yes no", "yes", 2 * 1 * (1 / 3) / (1 + 1 / 3)),
        ("", "", 1.0),
        ("the", "!", 1.0),
        ("", "something", 0.0),
        ("red", "blue", 0.0),
    ],
)
def test_token_f1_by_hand(reference: str, answer: str, expected: float) -> None:
    """Hand-computed cases of the official normalisation."""
    assert token_f1(reference, answer) == pytest.approx(expected)


def test_several_references_leave_one_out() -> None:
    """With references r1, r2, r3 the score is the mean over i of the best F1 against the others."""
    assert answer_score(["white", "white", "grey"], "white") == 1.0
    assert answer_score(["white", "grey"], "white") == pytest.approx((0 + 1) / 2)


def test_an_answer_needs_a_reference() -> None:
    """Without a reference there is nothing to score against."""
    with pytest.raises(ValueError, match="at least one"):
        answer_score([], "white")


@given(st.text(), st.text())
def test_f1_is_symmetric_and_bounded(one: str, other: str) -> None:
    """F1 lies in [0, 1] and does not care which side is the reference."""
    assert 0 <= token_f1(one, other) <= 1
    assert token_f1(one, other) == pytest.approx(token_f1(other, one))
