"""The handoff log from the command line."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, insert

from serving.cli import main
from serving.handoffs import handoffs, open_engine
from serving.migrate import migrate


def row(**fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """A row of a model handoff."""
    base = {
        "time": datetime(2026, 11, 30, 12, tzinfo=UTC), "decision_id": "d1", "prefix_digest": "p", "turn": 1,
        "kind": "model", "event": "refine", "label": "REFINE", "probability": 0.1, "thread": 0, "kept_messages": 3,
        "dropped_messages": 0, "kept_tokens": 30, "dropped_tokens": 0, "mode": "enforce", "prefix_authors": {"a": 1},
        "suffix_model": "b", "backend": "two", "reason": "fallback", "risk": -0.09, "status": 200, "outcome": "ok",
        "decision_ms": 1.0, "first_byte_ms": 2.0, "total_ms": 3.0, "content": None, "requested_model": "chat",
        "prefix_model": "a", "foreign_messages": 1, "cleared": False, "mitigations": None, "signed": None,
    }  # fmt: skip
    return base | fields


ROWS = [
    row(),
    row(decision_id="d2", reason="client", suffix_model="c", risk=None, mitigations="drop,mark"),
    row(decision_id="d3", cleared=True, prefix_authors={}, prefix_model=None, foreign_messages=0, risk=0.0),
    row(decision_id="d4", kind="context", event="pivot", reason=None, time=datetime(2026, 12, 1, tzinfo=UTC)),
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A log with four rows."""
    url = f"sqlite:///{tmp_path}/log.sqlite3"
    engine = open_engine(url)
    migrate(engine)
    add(engine, *ROWS)
    engine.dispose()
    return url


def add(engine: Engine, *rows: dict[str, Any]) -> None:
    with engine.begin() as connection:
        connection.execute(insert(handoffs), list(rows))


def listed(url: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["handoffs", "--set", f"log.url={url}", *arguments], {}) == 0
    return capsys.readouterr().out.splitlines()


def test_lines_say_who_handed_over_to_whom(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A line names the reason, the prefix authors with their turns, the model that answered and the risk."""
    lines = listed(url, capsys)
    assert "d1  model/fallback  turn 1  prefix by a 1  -> b at two  risk -0.090  enforce" in lines[0]
    assert lines[1].endswith("-> c at two  mitigated by drop,mark  enforce")
    assert "cleared: nothing foreign is forwarded" in lines[2]
    assert "context/pivot" in lines[3]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--kind", "context"], ["d4"]),
        (["--reason", "client"], ["d2"]),
        (["--model", "b", "--kind", "model"], ["d1", "d3"]),
        (["--prefix-model", "a", "--kind", "model"], ["d1", "d2"]),
        (["--decision", "d3"], ["d3"]),
        (["--since", "2026-12-01"], ["d4"]),
        (["--limit", "1"], ["d4"]),
        (["--limit", "all", "--reason", "fallback"], ["d1", "d3"]),
    ],
)
def test_rows_are_filtered(
    url: str, capsys: pytest.CaptureFixture[str], arguments: list[str], found: list[str]
) -> None:
    """Filters narrow the log down, together."""
    lines = listed(url, capsys, "--format", "jsonl", *arguments)
    assert [json.loads(line)["decision_id"] for line in lines] == found


def test_the_log_is_exported(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON Lines and CSV hold every column; the ending chooses."""
    for ending in ("jsonl", "csv"):
        assert listed(url, capsys, "--limit", "all", "--export", str(tmp_path / f"log.{ending}")) == []
    objects = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    with (tmp_path / "log.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [one["decision_id"] for one in objects] == [one["decision_id"] for one in table] == ["d1", "d2", "d3", "d4"]
    assert list(table[0]) == list(objects[0]) == [column.name for column in handoffs.columns]
    assert json.loads(table[0]["prefix_authors"]) == objects[0]["prefix_authors"] == {"a": 1}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--export", "log.txt"],
        ["--limit", "0"],
        ["--limit", "9" * 30],
        ["--export", "no/log.csv"],
        ["--since", "yesterday"],
        ["--kind", "other"],
    ],
)
def test_wrong_arguments_are_refused(
    url: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the command does not understand ends it with status 2 and a message, and leaves no file."""
    monkeypatch.chdir(tmp_path)
    line = ["handoffs", "--set", f"log.url={url}", *arguments]
    try:
        status = main(line, {})
    except SystemExit as stop:
        status = int(str(stop.code))
    assert status == 2
    assert capsys.readouterr().err
    assert not Path("log.txt").exists()


def test_new_rows_are_followed(url: str) -> None:
    """--follow prints what is there, then each new row as it comes."""
    code = "import sys; from serving.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "handoffs", "--set", f"log.url={url}", "--follow", "--json", "--limit", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())["decision_id"] == "d4"
            engine = open_engine(url)
            add(engine, row(decision_id="d5"))
            engine.dispose()
            assert json.loads(process.stdout.readline())["decision_id"] == "d5"
        finally:
            process.terminate()


def test_a_reader_that_has_seen_enough_ends_it_quietly(url: str) -> None:
    """As with head: no traceback, and status 0."""
    code = "import sys; from serving.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "handoffs", "--set", f"log.url={url}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_a_log_that_cannot_be_read_is_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that is not there, or is no log, is named in one line; none is made."""
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"no database" * 100)
    for file in (tmp_path / "none.sqlite3", tmp_path / "no" / "folder", foreign):
        assert main(["handoffs", "--set", f"log.url=sqlite:///{file}"], {}) == 2
        shown = capsys.readouterr().err
        assert "log.url: the handoff log cannot be read: " in shown
        assert len(shown.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [foreign]
