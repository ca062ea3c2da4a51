from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from eval.errors import FormatError
from eval.sessions import read_sessions, write_sessions
from guard.controller import Label
from tests.eval.builders import session

EXAMPLE = {
    "id": "s-17",
    "note": "unknown keys are ignored",
    "turns": [
        {"role": "user", "text": "who directed the avengers", "shift": 0},
        {"role": "assistant", "text": "joss whedon"},
        {"role": "user", "text": "when was he born", "label": "REFINE"},
        {"role": "user", "text": "how long do turtle eggs take to hatch", "label": "PIVOT"},
        {"role": "user", "text": "and what else did he direct", "needs": [1, 0]},
    ],
}


def test_the_example_is_read(tmp_path: Path) -> None:
    """Labels, needs and texts come through, unknown keys do not matter."""
    (tmp_path / "a.jsonl").write_text(json.dumps(EXAMPLE) + "\n\n")
    (read,) = read_sessions(tmp_path / "a.jsonl")
    assert [turn.label for turn in read.turns] == [None, None, Label.REFINE, Label.PIVOT, None]
    assert read.turns[4].needs == (0, 1)
    assert read.pivot_turn == 3


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    """A written file, gzip or plain, gives the same sessions."""
    sessions = [
        session("one", "U: hi", "A: hello", "R: naïve “quotes”\u2028", "P: else"),
        session("two", "U: x", "S: \U0001f35e"),
    ]
    write_sessions(tmp_path / name, sessions)
    assert list(read_sessions(tmp_path / name)) == sessions


def test_gzip_is_told_by_content(tmp_path: Path) -> None:
    """A gzip file without the suffix is read all the same."""
    (tmp_path / "a.jsonl").write_bytes(gzip.compress(json.dumps(EXAMPLE).encode()))
    assert len(list(read_sessions(tmp_path / "a.jsonl"))) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "Expecting"),
        pytest.param("[" * 100_000 + "]" * 100_000, "nested too deeply", id="deep"),
        ('{"id": "a", "turns": [{"role": "user", "text": "\\ud83d"}]}', "lone surrogate"),
        ('{"id": "\\uDC00", "turns": [{"role": "user", "text": "x"}]}', "lone surrogate"),
        ("[]", "a session is a JSON object"),
        ('{"turns": [{"role": "user", "text": "x"}]}', "`id`"),
        ('{"id": "a"}', "`turns`"),
        ('{"id": "a", "turns": []}', "`turns`"),
        ('{"id": "a", "turns": [3]}', "turn 0"),
        ('{"id": "a", "turns": [{"role": "bot", "text": "x"}]}', "`role`"),
        ('{"id": "a", "turns": [{"role": ["user"], "text": "x"}]}', "`role`"),
        ('{"id": "a", "turns": [{"role": "user"}]}', "`text`"),
        ('{"id": "a", "turns": [{"role": "user", "text": "x", "label": "pivot"}]}', "`label`"),
        ('{"id": "a", "turns": [{"role": "user", "text": "x", "label": []}]}', "`label`"),
        ('{"id": "a", "turns": [{"role": "assistant", "text": "x", "label": "PIVOT"}]}', "user turns"),
        ('{"id": "a", "turns": [{"role": "user", "text": "x", "needs": [0]}]}', "`needs`"),
        ('{"id": "a", "turns": [{"role": "user", "text": "x", "needs": 0}]}', "`needs`"),
        ('{"id": "a", "turns": [{"role": "user", "text": "x", "answers": [1]}]}', "`answers`"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    """A malformed line is an error with file, line number and what is wrong."""
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(EXAMPLE) + "\n" + line + "\n")
    with pytest.raises(FormatError, match=rf"a\.jsonl:2: .*{message}"):
        list(read_sessions(path))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """A file that is not there is an error of the format, not a traceback."""
    with pytest.raises(FormatError, match=r"none\.jsonl"):
        list(read_sessions(tmp_path / "none.jsonl"))


def test_a_cut_gzip_file_is_an_error(tmp_path: Path) -> None:
    """A gzip file that ends early is an error, not fewer sessions."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(json.dumps(EXAMPLE).encode())[:-12])
    with pytest.raises(FormatError):
        list(read_sessions(tmp_path / "a.gz"))


def test_the_shortlist_is_the_segment() -> None:
    """The true shortlist is what was said since the pivot, and empty at it; instructions are not utterances."""
    spliced = session("s", "S: be brief", "U: a", "A: b", "R: c", "A: d", "P: e", "A: f", "R: g")
    assert spliced.shortlist(3) == (1, 2)
    assert spliced.shortlist(5) == ()
    assert spliced.shortlist(7) == (5, 6)
