from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_curve, precision_recall_fscore_support

from eval.errors import MetricError
from eval.metrics import METRICS, RECALL_AT_LIMIT, Table
from eval.pivots_report import precision_recall
from eval.records import TurnRecord
from tests.eval.builders import record

LABELS = ("PIVOT", "REFINE")
labels = st.sampled_from(LABELS)
positions = st.sets(st.integers(0, 5)).map(lambda chosen: tuple(sorted(chosen)))


@st.composite
def records(draw: st.DrawFn) -> list[TurnRecord]:
    """Records of a few sessions, some turns unscored, some shortlists unknown."""
    return [
        record(
            draw(labels),
            draw(st.none() | labels),
            f"s{draw(st.integers(0, 3))}",
            probability=draw(st.none() | st.floats(0, 1)),
            shortlist=draw(st.none() | positions),
            gold=draw(positions),
            needs=draw(st.none() | positions),
            offered=6,
            tokens_kept=draw(st.integers(0, 50)),
            tokens_offered=50,
            pivot_turn=draw(st.integers(2, 4)),
            answer_f1=draw(st.none() | st.floats(0, 1)),
            error=draw(st.sampled_from(["", "violation"])),
        )
        for _ in range(draw(st.integers(1, 20)))
    ]


SHARES = sorted(METRICS.keys() - {name for name in METRICS if name.endswith(("_s", "tokens", "_pivot_s", "per_turn"))})


@given(records())
def test_shares_stay_between_0_and_1(made: list[TurnRecord]) -> None:
    """Every share is undefined or in [0, 1]."""
    table = Table(made)
    for name in [*SHARES, RECALL_AT_LIMIT]:
        value = table.value(name)
        if not name.startswith(("first_token", "prompt_tokens")):
            assert value is None or 0 <= value <= 1


@given(records(), st.integers(0, 100))
def test_the_same_seed_gives_the_same_intervals(made: list[TurnRecord], seed: int) -> None:
    """Intervals depend on records and seed alone."""
    once, again = (
        Table(made).estimates(["f1_pivot", RECALL_AT_LIMIT], np.random.default_rng(seed), 50) for _ in range(2)
    )
    assert once == again


@given(st.lists(st.tuples(labels, labels), min_size=1, max_size=40))
def test_scikit_learn_agrees(pairs: list[tuple[str, str]]) -> None:
    """Precision, recall and F1 of both classes are scikit-learn's, and undefined where it divides by 0."""
    table = Table([record(true, said, f"s{number % 3}") for number, (true, said) in enumerate(pairs)])
    truth, said = [list(column) for column in zip(*pairs, strict=True)]
    expected = precision_recall_fscore_support(truth, said, labels=LABELS, zero_division=np.nan)
    for row, label in enumerate(("pivot", "refine")):
        for column, figure in enumerate(("precision", "recall", "f1")):
            found = table.value(f"{figure}_{label}")
            wanted = expected[column][row]
            assert (found is None and np.isnan(wanted)) or found == pytest.approx(wanted)


@given(st.lists(st.tuples(labels, st.integers(0, 8)), min_size=1, max_size=40))
def test_scikit_learn_agrees_on_the_curve(pairs: list[tuple[str, int]]) -> None:
    """The precision-recall curve has scikit-learn's points."""
    made = [record(label, "PIVOT", probability=p / 8) for label, p in pairs]
    recall, precision = precision_recall(made)
    if not any(label == "PIVOT" for label, _ in pairs):
        assert len(recall) == 0
        return
    wanted_precision, wanted_recall, _ = precision_recall_curve(
        [label == "PIVOT" for label, _ in pairs], [p / 8 for _, p in pairs]
    )
    assert recall[::-1] == pytest.approx(wanted_recall[:-1])
    assert precision[::-1] == pytest.approx(wanted_precision[:-1])


def test_over_carry_counts_pivots_with_a_shortlist() -> None:
    """OC is the share of true pivots that carry anything; an unknown shortlist is not counted."""
    made = [
        record("PIVOT", "PIVOT", shortlist=()),
        record("PIVOT", "REFINE", shortlist=(0, 1)),
        record("PIVOT", None, shortlist=None),
        record("REFINE", "REFINE", shortlist=(0,)),
    ]
    assert Table(made).value("over_carry") == 1 / 2


def test_under_carry_is_the_missing_share() -> None:
    """Under-carry is the mean share of the true shortlist that is missing."""
    made = [
        record("REFINE", "REFINE", shortlist=(0, 1), gold=(0, 1)),
        record("REFINE", "PIVOT", shortlist=(), gold=(0, 1, 2, 3)),
        record("REFINE", "REFINE", shortlist=(3,), gold=(2, 3)),
    ]
    assert Table(made).value("under_carry") == pytest.approx((0 + 1 + 1 / 2) / 3)


def test_mismatch_is_about_what_was_said() -> None:
    """A turn labelled PIVOT with a shortlist is a mismatch, right or wrong as the label may be."""
    made = [
        record("REFINE", "PIVOT", shortlist=(0,)),
        record("PIVOT", "PIVOT"),
        record("PIVOT", "REFINE", shortlist=(0,)),
    ]
    assert Table(made).value("mismatch") == 1 / 2


def test_recall_at_a_false_reset_rate() -> None:
    """Of 200 refinements two may be reset: pivots above the third highest refinement are recalled."""
    refined = [record("REFINE", "REFINE", f"s{n}", probability=n / 200) for n in range(200)]
    pivots = [record("PIVOT", "PIVOT", f"s{n}", probability=p) for n, p in enumerate((0.99, 0.986, 0.985, 0.98, 0.1))]
    assert Table([*refined, *pivots]).value(RECALL_AT_LIMIT) == 2 / 5


def test_recall_at_a_rate_below_one_turn() -> None:
    """With fewer refinements than the rate allows one of, none may be reset."""
    made = [
        record("REFINE", "REFINE", probability=0.6),
        record("PIVOT", "PIVOT", probability=0.6),
        record("PIVOT", "PIVOT", probability=0.7),
    ]
    assert Table(made).value(RECALL_AT_LIMIT) == 1 / 2


def test_an_undefined_figure_is_none() -> None:
    """Without pivots there is no recall of them, and no interval."""
    estimates = Table([record("REFINE", "REFINE")]).estimates(["recall_pivot", "needs_met"], np.random.default_rng(0))
    assert all(one.value is None and one.interval is None for one in estimates.values())


def test_an_unknown_metric_is_an_error() -> None:
    """A metric that does not exist is refused by name."""
    with pytest.raises(MetricError, match="f1_pivott"):
        Table([record("PIVOT", "PIVOT")]).value("f1_pivott")


def test_answers_before_the_pivot_do_not_count() -> None:
    """Answer F1 is over turns at and after the pivot."""
    made = [record("REFINE", None, number=n, pivot_turn=3, answer_f1=f) for n, f in ((2, 0.0), (3, 1.0), (4, 0.5))]
    assert Table(made).value("answer_f1") == 0.75
    assert Table(made).value("answer_f1_at_pivot") == 1.0
