from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval.errors import FormatError
from eval.records import TurnRecord, read_records
from eval.replay import replay
from eval.score import FIGURES, score, score_sessions
from eval.sessions import Session, SessionTurn, write_sessions
from guard.errors import ScoringError
from guard.policy import Policy
from guard.ports import GateQuery
from tests.eval.builders import loaded_gate, score_arguments, session
from tests.fakes import CallableScorer

SPLICED = session(
    "s", "S: be brief", "U: red fox", "A: a fox is red", "R: is the fox big", "A: yes", "P: blue whales", "R: blue eyes"
)


def test_a_turn_sees_what_was_said_before_it() -> None:
    """The gate is asked about each user turn with the messages up to it, in its own threads, never the true labels."""
    asked: list[tuple[str, tuple[str, ...]]] = []

    def refine(query: GateQuery) -> float:
        asked.append((query.turn, tuple(u.text for u in query.history)))
        return 0.9 if query.turn == "is the fox big" else 0.1

    gate = loaded_gate(CallableScorer(refine))
    list(replay(gate.guard, gate.cache, SPLICED, Policy(resume=False)))
    assert asked == [
        ("is the fox big", ("red fox", "a fox is red")),
        ("blue whales", ("is the fox big", "yes")),
        ("blue eyes", ("is the fox big", "yes", "blue whales")),
    ]


def test_sessions_do_not_warm_each_other() -> None:
    """The same session twice is asked about twice: a remembered ruling would make the second look faster."""
    queries = 0

    def count(_: GateQuery) -> float:
        nonlocal queries
        queries += 1
        return 0.1

    gate = loaded_gate(CallableScorer(count))
    for _ in range(2):
        list(replay(gate.guard, gate.cache, SPLICED, Policy()))
    assert queries == 6


def test_a_pivot_keeps_nothing_and_a_refinement_its_topic() -> None:
    """What is kept are positions of utterances; the instruction is not one of them."""
    gate = loaded_gate()
    first, refine, pivot, later = replay(gate.guard, gate.cache, SPLICED, Policy())
    assert [d.kept for d in (first, refine, pivot, later)] == [(), (1, 2), (), (5,)]
    assert (refine.offered, pivot.offered, later.offered) == (2, 4, 5)
    assert refine.tokens_kept == refine.tokens_offered
    assert pivot.tokens_kept < pivot.tokens_offered


def test_a_gate_that_fails_carries_everything() -> None:
    """A turn that could not be scored has no label, keeps everything, and is counted under its reason."""

    def broken(_: GateQuery) -> float:
        raise ScoringError("unavailable", "no server")

    gate = loaded_gate(CallableScorer(broken))
    records = list(score_sessions(gate, [SPLICED], "file", Policy()))
    assert {(r.predicted, r.error) for r in records} == {(None, "unavailable")}
    assert records[1].shortlist == (1, 2, 3, 4)


def test_json_is_one_object_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output holds one JSON object keyed by file name, with every figure of the format."""
    write_sessions(tmp_path / "a.jsonl", [SPLICED])
    write_sessions(tmp_path / "b.jsonl.gz", [SPLICED, SPLICED])
    assert score(loaded_gate(), score_arguments(str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl.gz"), "--json")) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result) == ["a.jsonl", "b.jsonl.gz"]
    figures = result["a.jsonl"]
    assert {*FIGURES, "sessions", "pivot_turns", "refine_turns", "needs_count", "ms_p50", "ms_p99"} <= figures.keys()
    assert (figures["gate_id"], figures["threshold"]) == ("words", 0.5)
    assert (figures["f1_pivot"], figures["over_carry"], figures["false_reset"]) == (1.0, 0.0, 0.0)
    assert (figures["pivot_turns"], figures["refine_turns"], figures["needs_met"]) == (1, 2, None)
    assert result["b.jsonl.gz"]["sessions"] == 2


def test_files_of_one_name_keep_their_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two files of the same name are told apart by the paths given."""
    paths = [tmp_path / folder / "a.jsonl" for folder in ("x", "y")]
    for path in paths:
        path.parent.mkdir()
        write_sessions(path, [SPLICED])
    score(loaded_gate(), score_arguments(*map(str, paths), "--json"))
    assert list(json.loads(capsys.readouterr().out)) == [str(path) for path in paths]


def test_needs_fail_when_one_is_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A turn with needs is met when all of them are forwarded, whatever its label; instructions always are."""
    turns = (
        *SPLICED.turns,
        SessionTurn("user", "blue what", None, needs=(0, 5)),
        SessionTurn("user", "the fox", needs=(5,)),
    )
    write_sessions(tmp_path / "a.jsonl", [Session("s", turns)])
    score(loaded_gate(), score_arguments(str(tmp_path / "a.jsonl"), "--json"))
    figures = json.loads(capsys.readouterr().out)["a.jsonl"]
    assert (figures["needs_count"], figures["needs_met"]) == (2, 0.5)


def test_every_scored_turn_leaves_a_record(tmp_path: Path) -> None:
    """--per-turn writes a record for each turn with a label or needs, and none for the first."""
    write_sessions(tmp_path / "a.jsonl", [SPLICED])
    score(loaded_gate(), score_arguments(str(tmp_path / "a.jsonl"), "--per-turn", str(tmp_path / "new" / "out.jsonl")))
    records = read_records(tmp_path / "new" / "out.jsonl", TurnRecord)
    assert [(r.number, r.label, r.predicted) for r in records] == [
        (2, "REFINE", "REFINE"),
        (3, "PIVOT", "PIVOT"),
        (4, "REFINE", "REFINE"),
    ]


def test_a_label_on_the_first_turn_is_not_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first user turn has nothing to refine or to leave."""
    write_sessions(tmp_path / "a.jsonl", [session("s", "P: hi", "R: hi there")])
    score(loaded_gate(), score_arguments(str(tmp_path / "a.jsonl"), "--json"))
    figures = json.loads(capsys.readouterr().out)["a.jsonl"]
    assert (figures["pivot_turns"], figures["refine_turns"], figures["f1_pivot"]) == (0, 1, None)


def test_an_empty_file_has_no_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file without sessions gives undefined figures, not zeros, and is named on standard error."""
    (tmp_path / "a.jsonl").write_text("")
    score(loaded_gate(), score_arguments(str(tmp_path / "a.jsonl"), "--json"))
    out, err = capsys.readouterr()
    assert "a.jsonl holds no session" in err
    figures = json.loads(out)["a.jsonl"]
    assert (figures["sessions"], figures["f1_pivot"], figures["ms_p50"]) == (0, None, None)


def test_the_table_shows_intervals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --json the figures come as a table with intervals."""
    write_sessions(tmp_path / "a.jsonl", [SPLICED])
    score(loaded_gate(), score_arguments(str(tmp_path / "a.jsonl")))
    assert "1.000 [1.000, 1.000]" in capsys.readouterr().out


def test_a_malformed_file_stops_the_command(tmp_path: Path) -> None:
    """Nothing is scored around a malformed line."""
    (tmp_path / "a.jsonl").write_text("{}\n")
    with pytest.raises(FormatError, match=r"a\.jsonl:1"):
        score(loaded_gate(), score_arguments(str(tmp_path / "a.jsonl")))
