"""The paper's five findings (arXiv 2605.09268), re-checked on whatever ran.

A finding is confirmed when the interval of its figure lies on the side that it predicts, refuted when it lies on the
other, and open when it holds 0 or the figure could not be had.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eval.groups import Key, Run
from eval.intervals import Estimate, difference, estimate, resample
from eval.metrics import Table
from eval.records import TurnRecord
from eval.v3 import pivot_turns, slope_estimate


@dataclass(frozen=True, slots=True)
class Finding:
    """A row: one finding on one model."""

    number: int
    claim: str
    subject: str
    figure: str
    estimate: Estimate
    verdict: str


CARRIES = "carries stale context even where it labels PIVOT"
CUES = "cues (V2) raise F1_PIVOT"
DEPTH = "F1_PIVOT falls as P grows"
CHAT = "chit-chat is harder than QA"
REASONING = "reasoning models have near-zero OC"
NEAR_ZERO = 0.05


def findings(run: Run, draws: int) -> list[Finding]:
    """Every finding that this run can speak to."""
    return [*_carries(run, draws), *_cues(run, draws), *_depth(run, draws), *_chat(run, draws), *_reasoning(run, draws)]


def verdict(figure: Estimate, sign: int) -> str:
    """Confirmed, refuted or open, for a figure that the finding says has this sign."""
    if figure.interval is None:
        return "open: no interval"
    low, high = figure.interval
    if low > 0 or high < 0:
        return "confirmed" if (low > 0) == (sign > 0) else "refuted"
    return "open: the interval holds 0"


def _carries(run: Run, draws: int) -> Iterator[Finding]:
    for key, records in _joint(run):
        if key.path == "unguarded":
            figure = Table(records).estimates(["mismatch"], _generator(run), draws)["mismatch"]
            yield Finding(1, CARRIES, _subject(key), "label-shortlist mismatch rate", figure, verdict(figure, 1))


def _cues(run: Run, draws: int) -> Iterator[Finding]:
    for key, records in _joint(run):
        cued = run.groups.get(Key(key.source, "v2", key.task, key.model, key.path))
        if key.variant == "v1" and cued:
            figure = _difference(run, cued, records, draws)
            yield Finding(2, CUES, _subject(key), "F1_PIVOT of V2 - V1, paired", figure, verdict(figure, 1))


def _depth(run: Run, draws: int) -> Iterator[Finding]:
    for key, records in _joint(run):
        if key.variant == "v3" and len(pivot_turns(records)) > 1:
            figure = slope_estimate(records, "f1_pivot", _generator(run), draws)
            yield Finding(3, DEPTH, _subject(key), "slope of F1_PIVOT in P", figure, verdict(figure, -1))


def _chat(run: Run, draws: int) -> Iterator[Finding]:
    kinds = {str(one["name"]): one.get("kind") for one in run.card.sources}
    for key, records in _joint(run):
        if kinds.get(key.source) != "chit-chat":
            continue
        for other, others in _joint(run):
            same = (other.variant, other.model, other.path) == (key.variant, key.model, key.path)
            if same and kinds.get(other.source) == "qa":
                figure = _difference(run, records, others, draws, paired=False)
                subject = f"{_subject(key)} against {other.source}"
                yield Finding(4, CHAT, subject, "F1_PIVOT of chit-chat - QA", figure, verdict(figure, -1))


def _reasoning(run: Run, draws: int) -> Iterator[Finding]:
    ran = [
        (key, records) for key, records in _joint(run) if key.path == "unguarded" and key.model in run.card.reasoning
    ]
    for key, records in ran:
        figure = Table(records).estimates(["over_carry"], _generator(run), draws)["over_carry"]
        # Near zero: below NEAR_ZERO as far as the interval goes.
        distance = Estimate(
            figure.value, *(None if end is None else end - NEAR_ZERO for end in (figure.low, figure.high))
        )
        yield Finding(
            5, REASONING, _subject(key), f"OC, near zero being below {NEAR_ZERO}", figure, verdict(distance, -1)
        )
    if not ran:
        yield Finding(5, REASONING, "-", "OC", Estimate(None), "open: no model was named with --reasoning")


def _difference(
    run: Run, left: Sequence[TurnRecord], right: Sequence[TurnRecord], draws: int, *, paired: bool = True
) -> Estimate:
    key = _session_number if paired else None
    units = Table([*left, *right], key=key).units
    of_left, of_right = (Table(records, units, key).statistic("f1_pivot") for records in (left, right))
    return estimate(difference(of_left, of_right), resample(len(units), _generator(run), draws))


def _session_number(record: TurnRecord) -> Hashable:
    """V1 and V2 share sessions one to one: their ids differ in the variant alone."""
    return (record.source, record.session.split("-", 1)[-1])


def _joint(run: Run) -> Iterator[tuple[Key, list[TurnRecord]]]:
    return ((key, records) for key, records in sorted(run.groups.items()) if key.task == "joint")


def _subject(key: Key) -> str:
    return f"{key.row}, {key.source} {key.variant}"


def _generator(run: Run) -> np.random.Generator:
    return np.random.default_rng(run.card.seed)
