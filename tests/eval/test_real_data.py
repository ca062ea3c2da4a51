"""Splices of the real data sets, where ``GUARD_DATA_DIR`` says where they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eval import splices
from eval.datasets.registry import load_source
from eval.errors import FormatError

FOLDER = os.environ.get("GUARD_DATA_DIR", "")
FILES = [
    ("topiocqa", "topiocqa_train192.jsonl.gz"),
    ("personachat", "personachat_valid_a.jsonl.gz"),
    ("mtrag_un", "mtrag_un.jsonl.gz"),
    ("mt_eval", "mt_eval.jsonl.gz"),
    ("byu_chitchat", "byu_chitchat.jsonl.gz"),
    ("kdconv", "kdconv.jsonl.gz"),
    ("crosswoz", "crosswoz.jsonl.gz"),
]

pytestmark = pytest.mark.skipif(not FOLDER, reason="GUARD_DATA_DIR is not set")


@pytest.mark.parametrize(("name", "file"), FILES)
def test_sessions_are_cut_from_every_data_set(name: str, file: str) -> None:
    """Each data set loads under its own name and gives V1 sessions with one pivot each."""
    source = load_source(name, Path(FOLDER) / file)
    sessions = splices.v1(source.conversations, source.digest, 0, 50)
    found = splices.statistics(sessions)
    assert (found.sessions, found.pivots) == (50, 50)
    assert 3 <= found.least <= found.mean <= found.most <= 10
    assert source.dataset.title != source.dataset.name


@pytest.mark.parametrize("name", ["topiocqa", "personachat"])
def test_late_pivots_can_be_cut(name: str) -> None:
    """The benchmark's P can be had from the sets that it is reported on."""
    source = load_source(name, Path(FOLDER) / dict(FILES)[name])
    sessions = splices.v3(source.conversations, source.digest, 0, 100)
    assert {session.pivot_turn for session in sessions} == set(splices.PIVOT_TURNS)


def test_personachat_is_not_msc() -> None:
    """A PersonaChat file cannot be reported as MSC."""
    with pytest.raises(FormatError, match="this is personachat, not msc"):
        load_source("msc", Path(FOLDER) / "personachat_valid_a.jsonl.gz")
