"""The whole command against a server whose models follow a rule, so that every effect is known."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval.cli import main
from eval.records import read_records
from eval.switch.protocol import SwitchRecord
from guard.risk import Risk
from tests.eval.switch.chat_server import chat_server

EPISODES = 12


def copycat(body: dict[str, Any]) -> str:
    """Models ``firm`` and ``good`` answer the question; ``weak`` repeats what the assistant said before, if anything.

    ``bad`` answers nonsense. So ``weak`` is harmed by a prefix of ``bad``, and nothing else is harmed by anything.
    """
    model, messages = body["model"], body["messages"]
    question = messages[-1]["content"]
    right = str(question.split()[-1])
    spoken = [m["content"] for m in messages if m["role"] == "assistant"]
    if model == "bad":
        return "zzz"
    if model == "weak":
        return "zzz" if "zzz" in spoken else right.upper()
    return right


def data(folder: Path) -> Path:
    path = folder / "coqa.jsonl"
    turns = [
        {"role": role, "text": text} for i in (1, 2) for role, text in (("user", f"say w{i}"), ("assistant", f"w{i}"))
    ]
    lines = [json.dumps({"id": f"e{i}", "story": f"story {i}", "turns": turns}) for i in range(EPISODES)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def models(folder: Path, url: str, **more: object) -> Path:
    path = folder / "models.yaml"
    named = [
        {"name": "firm", "base_url": url},
        {"name": "weak", "base_url": url, "system": "Be brief.", "price": {"input": 1, "output": 2}},
        {"name": "bad", "base_url": url},
    ]
    path.write_text(yaml.safe_dump({"models": named, **more}), encoding="utf-8")
    return path


def arguments(folder: Path, url: str, *more: str, **config: object) -> list[str]:
    return [
        "switch-matrix", "--benchmark", "coqa", "--models", str(models(folder, url, **config)),
        "--data", str(data(folder)), "--out", str(folder / "out"), "--cache", str(folder / "cache.sqlite3"),
        "--replicates", "100", "--retries", "0", *more,
    ]  # fmt: skip


def records(folder: Path) -> list[SwitchRecord]:
    return read_records(folder / "out" / "records.jsonl", SwitchRecord)


def test_effects_come_out(tmp_path: Path) -> None:
    """The harmed pair is found, no other is, and the risk file says so."""
    with chat_server(copycat) as server:
        assert main(arguments(tmp_path, server.url)) == 0
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "| bad | 0.000 [0.000, 0.000] | -1.000 [-1.000, -1.000] * |" in report
    risk = Risk.from_dict(json.loads((tmp_path / "out" / "risk.json").read_text(encoding="utf-8")))
    assert min(risk.influence, key=risk.influence.__getitem__) == "bad"
    assert min(risk.susceptibility, key=risk.susceptibility.__getitem__) == "weak"
    assert json.loads((tmp_path / "out" / "card.json").read_text(encoding="utf-8"))["calls"]["sent"] == EPISODES * (
        3 + 9
    )


def test_a_benchmark_that_nobody_passes_is_said_to_measure_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where every answer has one score, zeros are no finding: the report says so, and no risk file claims otherwise."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "risk.json").write_text("{}")
    with chat_server(lambda _: "zzz") as server:
        assert main(arguments(tmp_path, server.url)) == 0
    assert "Every last answer scored 0.000" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "Every last answer scored 0.000" in capsys.readouterr().out
    assert not (tmp_path / "out" / "risk.json").exists()


def test_prefix_is_written_once_and_the_suffix_has_its_own_instructions(tmp_path: Path) -> None:
    """An episode costs K (L - 1) + K K calls, and the last turn is asked under the suffix model's system prompt."""
    with chat_server(copycat) as server:
        assert main(arguments(tmp_path, server.url, "--episodes", "2")) == 0
        firsts = [body for body in server.bodies if len([m for m in body["messages"] if m["role"] == "user"]) == 1]
        lasts = [body for body in server.bodies if body not in firsts]
    assert (len(firsts), len(lasts)) == (2 * 3, 2 * 9)
    for body in server.bodies:
        assert body["messages"][0]["content"].startswith("Be brief.") == (body["model"] == "weak")
        assert body["temperature"] == 0


def test_an_interrupted_run_resumes(tmp_path: Path) -> None:
    """After failures the same command asks only for what is missing; incomplete episodes are counted, not dropped."""
    down = {"weak"}

    def sometimes(body: dict[str, Any]) -> str | int:
        return 503 if body["model"] in down and "story 3" in str(body["messages"]) else copycat(body)

    with chat_server(sometimes) as server:
        assert main(arguments(tmp_path, server.url)) == 0
        failed = [record for record in records(tmp_path) if record.error]
        assert {record.episode for record in failed} == {"e3"}
        assert "11 complete, 1 incomplete" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
        down.clear()
        server.bodies.clear()
        assert main(arguments(tmp_path, server.url)) == 0
        assert {"story 3" in str(body["messages"]) for body in server.bodies} == {True}
        assert not [record for record in records(tmp_path) if record.error]


def test_an_unfinished_run_can_be_looked_at(tmp_path: Path) -> None:
    """--cached makes figures of the episodes that are whole so far, and asks nobody."""
    with chat_server(copycat) as server:
        assert main(arguments(tmp_path, server.url, "--episodes", "5")) == 0
        server.bodies.clear()
        assert main(arguments(tmp_path, server.url, "--cached")) == 0
        assert server.bodies == []
    assert "5 complete, 7 incomplete" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_paths_share_prefixes_and_are_compared(tmp_path: Path) -> None:
    """A path that cures the harm shows as a gain, at the price of K K calls more an episode."""

    def cured(body: dict[str, Any]) -> str:
        if body["headers"].get("x-cure"):
            return str(body["messages"][-1]["content"].split()[-1])
        return copycat(body)

    paths = [{"name": "plain"}, {"name": "cured", "headers": {"x-cure": "1"}}]
    with chat_server(cured) as server:
        assert main(arguments(tmp_path, server.url, paths=paths)) == 0
        assert len(server.bodies) == EPISODES * (3 + 2 * 9)
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "| cured | 0.500 [0.500, 0.500] *" in report


def test_dry_run_asks_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls, tokens and cost are printed, and no request is sent."""

    def never(body: dict[str, Any]) -> str:
        raise AssertionError

    with chat_server(never) as server:
        assert main(arguments(tmp_path, server.url, "--dry-run", "--max-tokens", "10")) == 0
        assert server.bodies == []
    printed = capsys.readouterr().out
    assert "12 episodes, 144 calls" in printed
    assert "weak" in printed
    assert not (tmp_path / "out").exists()


def test_progress_tells_cost_and_time_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without a terminal leaves lines with calls, tokens, cost and the time left."""
    with chat_server(copycat) as server:
        assert main(arguments(tmp_path, server.url)) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "left" in line]
    assert lines[-1].startswith("144/144 calls, 0 failed")
    assert "cost" in lines[-1]


@pytest.mark.parametrize("tree", [{"models": []}, {"models": [{"name": "a", "base_url": "u"}] * 2}, {"odd": 1}, "["])
def test_wrong_files_are_refused(tmp_path: Path, tree: object, capsys: pytest.CaptureFixture[str]) -> None:
    """A models file that is no such file ends with status 2 and names the place."""
    path = tmp_path / "wrong.yaml"
    path.write_text(tree if isinstance(tree, str) else yaml.safe_dump(tree), encoding="utf-8")
    line = ["switch-matrix", "--models", str(path), "--data", str(data(tmp_path)), "--out", str(tmp_path / "out")]
    assert main(line) == 2
    assert "wrong.yaml" in capsys.readouterr().err


def test_a_report_of_an_earlier_run_keeps_its_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--report-only takes benchmark and limits from the card; another benchmark or data file is refused."""
    with chat_server(copycat) as server:
        command = arguments(tmp_path, server.url, "--max-tokens", "9")
        assert main(command) == 0
    again = [word for word in command if word not in ("--benchmark", "coqa", "--max-tokens", "9")] + ["--report-only"]
    assert main(again) == 0
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "token F1" in report
    assert "answers capped at 9 tokens" in report
    assert main([*again, "--benchmark", "mtrag-un"]) == 2
    assert "--benchmark mtrag-un: the run in" in capsys.readouterr().err
    data(tmp_path).write_text(data(tmp_path).read_text().replace("e0", "e99"))
    assert main(again) == 2
    assert "not the file" in capsys.readouterr().err


def test_where_every_call_fails_the_error_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong key or address is seen at once."""
    with chat_server(lambda _: 401) as server:
        assert main(arguments(tmp_path, server.url, "--episodes", "2")) == 2
    assert "0 of 2 episodes are complete" in (said := capsys.readouterr().err)
    assert "the last error: prefix: HTTP 401" in said
