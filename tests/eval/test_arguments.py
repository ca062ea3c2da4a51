from __future__ import annotations

from pathlib import Path

import pytest

from eval.cli import main

SWITCH = ("switch-matrix", "--models", "m.yaml", "--data", "d.jsonl", "--out", "o")
NUMBERS = [
    (SWITCH, "--concurrency", "0 -1 x"),
    (SWITCH, "--retries", "-1"),
    (SWITCH, "--rate", "0 -1 nan inf"),
    (SWITCH, "--timeout", "0"),
    (SWITCH, "--replicates", "0 -1"),
    (SWITCH, "--episodes", "0 1"),
    (SWITCH, "--turns", "1"),
    (SWITCH, "--seed", "-1"),
    (("pivots", "--sample"), "--sessions", "0 -1"),
    (("pivots", "--sample"), "--pivot-turns", "0 1"),
    (("pivots", "--sample"), "--draws", "-1"),
    (("pivots", "--sample"), "--seed", "-1"),
    (("pivots", "--sample"), "--concurrency", "0"),
    (("score", "f.jsonl"), "--threshold", "2 -1 nan x"),
    (("score", "f.jsonl"), "--threads", "-1"),
    (("report", "run"), "--draws", "-1"),
]


@pytest.mark.parametrize(
    ("command", "option", "value"), [(c, option, value) for c, option, values in NUMBERS for value in values.split()]
)
def test_a_number_out_of_bounds_is_refused_with_what_is_wanted(
    command: tuple[str, ...], option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a number is an error of use, before anything is read or sent."""
    with pytest.raises(SystemExit) as refused:
        main([*command, f"{option}={value}"])
    assert refused.value.code == 2
    assert f"{option}: a" in (said := capsys.readouterr().err)
    assert f"is wanted, not '{value}'" in said


@pytest.mark.parametrize(
    "words",
    [
        ("pivots", "--sample", "--sessions", "1", "--variants", "v1", "--out", "FILE"),
        ("data", "sessions", "--sample", "--sessions", "1", "--to", "FILE"),
        ("data", "get", "msc", "--to", "FILE"),
        ("score", "FILE", "--per-turn", "FILE/x"),
        ("score", "FILE", "--per-turn", "FOLDER"),
    ],
)
def test_a_place_that_cannot_be_written_to_is_named(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """A file where a folder is wanted, or the other way round, ends with status 2 before any work is done."""
    (tmp_path / "file").write_text("mine")
    places = [word.replace("FILE", str(tmp_path / "file")).replace("FOLDER", str(tmp_path)) for word in words]
    assert main(places) == 2
    assert "folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"
