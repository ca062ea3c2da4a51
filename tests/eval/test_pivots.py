from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval.errors import BackendError, DataError
from eval.groups import Run, load_run
from eval.metrics import Table
from eval.pivots import benchmark, schedule
from eval.records import CARD, RECORDS, TurnRecord, read_records
from eval.session_sets import session_sets, sources_of
from eval.sessions import read_sessions
from guard.policy import Policy
from tests.eval.builders import loaded_gate, pivots_arguments
from tests.eval.switch.chat_server import chat_server
from tests.servers import running_proxy

ONCE = ("--variants", "v1", "--model", "m", "--repeats", "1")
TOPICS = ("fox", "whale", "tax", "piano", "bread", "moon", "chess", "rain")


@pytest.fixture(name="data")
def _data(tmp_path: Path) -> str:
    """A TopiOCQA file in the official format whose every turn names its topic: the word gate is right on it."""
    turns = [
        {
            "Conversation_no": number,
            "Turn_no": turn,
            "Question": f"{topic} q{number}{turn}",
            "Answer": f"{topic} a{turn}",
        }
        for number, topic in enumerate(TOPICS)
        for turn in range(1, 9)
    ]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(turns))
    return f"topiocqa={path}"


def _talker(body: dict[str, Any]) -> str:
    """A model that says PIVOT at every turn yet lists all it was sent; asked plainly it repeats the question."""
    said = [message["content"] for message in body["messages"] if message["role"] != "system"]
    if not said[-1].startswith("["):
        return str(said[-1])
    numbers = [int(text[1 : text.index("]")]) for text in said]
    return json.dumps({"answer": said[-1].split(" ")[1], "predicted_label": "PIVOT", "relevant_context": numbers[:-1]})


def _run(folder: Path, *words: str) -> Run:
    common = ("--sessions", "4", "--pivot-turns", "2", "4", "--draws", "20", "--cache", str(folder / "cache.sqlite3"))
    assert benchmark(loaded_gate(), pivots_arguments(*common, "--out", str(folder / "run"), *words)) == 0
    return load_run(folder / "run")


def _records(run: Run, path: str, task: str = "joint") -> list[TurnRecord]:
    return [r for key, records in run.groups.items() if (key.path, key.task) == (path, task) for r in records]


def test_the_gate_alone(tmp_path: Path, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The gate path leaves sessions, records, a card and reports, and prints the main figures."""
    run = _run(tmp_path, "--data", data)
    assert {(key.source, key.variant) for key in run.groups} == {("topiocqa", v) for v in ("v1", "v2", "v3")}
    for records in run.groups.values():
        assert Table(records).value("f1_pivot") == 1.0
        assert Table(records).value("over_carry") == 0.0
    assert len(list(read_sessions(tmp_path / "run" / "topiocqa-v3.jsonl.gz"))) == 8
    card = run.card
    assert (card.gate["gate_id"], card.seed, card.models) == ("words", 0, [])
    assert card.sources[0]["title"] == "TopiOCQA"
    assert {"v1", "v2", "v3"} == {one["variant"] for one in card.sessions}
    assert str(tmp_path) not in (tmp_path / "run" / CARD).read_text()
    assert "f1_pivot" in capsys.readouterr().out


def test_runs_are_repeatable(tmp_path: Path, data: str) -> None:
    """The same command gives the same sessions and decisions."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    runs = [_run(tmp_path / name, "--data", data) for name in ("a", "b")]
    first, second = (
        [r.model_copy(update={"milliseconds": None}) for records in run.groups.values() for r in records]
        for run in runs
    )
    assert first == second
    assert [one["digest"] for one in runs[0].card.sessions] == [one["digest"] for one in runs[1].card.sessions]


def test_the_unguarded_model_speaks_for_itself(tmp_path: Path, data: str) -> None:
    """Label and shortlist are the model's own, over the whole history."""
    with chat_server(_talker) as server:
        words = ("--variants", "v1", "--paths", "unguarded", "--model", "m")
        run = _run(tmp_path, "--data", data, *words, "--base-url", server.url)
    records = _records(run, "unguarded")
    assert {r.predicted for r in records} == {"PIVOT"}
    assert all(r.shortlist == tuple(range(r.position)) for r in records)
    table = Table(records)
    assert (table.value("over_carry"), table.value("mismatch"), table.value("false_reset")) == (1.0, 1.0, 1.0)
    assert {r.repeat for r in records} == {0, 1}
    assert all(r.error == "" and r.violations == () for r in records)
    first = server.bodies[0]
    assert (first["temperature"], first["top_p"], first["max_tokens"], first["model"]) == (0, 0.9, 256, "m")


def test_the_guarded_model_gets_what_is_left(tmp_path: Path, data: str) -> None:
    """Behind the proxy the label is the guard's, and the shortlist what it kept and the model used."""
    words = ("--data", data, *ONCE, "--paths", "unguarded", "guarded", "--answers")
    with chat_server(_talker) as server, running_proxy(server.url) as proxy:
        run = _run(tmp_path, *words, "--base-url", server.url, "--guard-url", f"{proxy.url}/v1")
    guarded = _records(run, "guarded")
    assert {r.error for r in guarded} == {""}
    assert all(r.predicted == r.label for r in guarded)
    assert all(r.shortlist == r.gold for r in guarded)
    assert Table(guarded).value("over_carry") == 0.0
    share = Table(guarded).value("tokens_share")
    assert share is not None
    assert share < 1
    answers = {path: _records(run, path, "answer") for path in ("unguarded", "guarded")}
    assert len(answers["guarded"]) == len(answers["unguarded"]) > 0
    assert all(r.number >= (r.pivot_turn or 0) and r.answer_f1 is not None for r in answers["guarded"])


def test_a_proxy_that_decides_otherwise_is_noticed(tmp_path: Path, data: str) -> None:
    """A proxy with another policy disagrees with the guard here: its turns are marked, and counted in the card."""
    words = ("--data", data, *ONCE, "--paths", "guarded")
    with chat_server(_talker) as server, running_proxy(server.url, policy__threshold=1.0) as proxy:
        run = _run(tmp_path, *words, "--base-url", server.url, "--guard-url", f"{proxy.url}/v1")
    assert run.card.failures["guard_disagrees"] > 0


def test_a_server_that_is_no_proxy_is_noticed(tmp_path: Path, data: str) -> None:
    """A guarded path without the guard's headers is marked as such."""
    words = ("--data", data, *ONCE, "--paths", "guarded")
    with chat_server(_talker) as server:
        run = _run(tmp_path, *words, "--base-url", server.url, "--guard-url", server.url)
    assert {r.error for r in _records(run, "guarded")} == {"guard_absent"}


def test_malformed_answers_are_retried_and_counted(tmp_path: Path, data: str) -> None:
    """A malformed answer is asked for again with its fault named; one that stays malformed is a failed turn."""

    def answer(body: dict[str, Any]) -> str:
        fault = "rejected" in body["messages"][0]["content"]
        return _talker(body) if fault and "fox" in body["messages"][-1]["content"] else "no idea"

    words = ("--data", data, *ONCE, "--paths", "unguarded")
    with chat_server(answer) as server:
        run = _run(tmp_path, *words, "--base-url", server.url, "--violation-retries", "1")
    records = _records(run, "unguarded")
    assert {(r.error, r.violations) for r in records} == {("", ("not_json",)), ("violation", ("not_json", "not_json"))}
    failed = [r for r in records if r.error]
    assert all(r.predicted is None and r.shortlist is None and r.answer_f1 == 0 for r in failed)
    assert run.card.failures["violation"] == len(failed)
    assert Table(records).value("violation_rate") == len(failed) / len(records)


def test_an_interrupted_run_pays_nothing_twice(tmp_path: Path, data: str) -> None:
    """A run that a dying server interrupted resumes with the calls that it lacks, and no other."""
    words = ("--data", data, *ONCE, "--paths", "unguarded", "--concurrency", "1")
    answered = 0

    def dying(body: dict[str, Any]) -> str | int:
        nonlocal answered
        answered += 1
        return _talker(body) if answered <= 5 else 400

    with chat_server(dying) as server, pytest.raises(BackendError, match="10 turns in a row"):
        _run(tmp_path, *words, "--base-url", server.url)
    assert not (tmp_path / "run" / CARD).exists()
    with chat_server(_talker) as server:
        run = _run(tmp_path, *words, "--base-url", server.url)
    total = len(_records(run, "unguarded"))
    assert len(server.bodies) == total - 5
    assert run.card.calls == {"unguarded: sent": total - 5, "unguarded: replayed": 5, "unguarded: retried": 0}
    with chat_server(_talker) as server:
        _run(tmp_path, *words, "--base-url", server.url)
    assert server.bodies == []


def test_a_dry_run_sends_nothing(tmp_path: Path, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--dry-run prints calls and tokens for each model and path, and neither asks nor writes."""
    words = ("--data", data, *ONCE, "--paths", "unguarded", "guarded", "--answers", "--dry-run")
    arguments = pivots_arguments(*words, "--sessions", "4", "--out", str(tmp_path / "run"))
    assert benchmark(loaded_gate(), arguments) == 0
    out = capsys.readouterr().out
    assert out.count("guarded") == 2 * 2
    assert not (tmp_path / "run").exists()


def test_the_path_that_begins_alternates(data: str) -> None:
    """Each path finds the other's prompts in the server's cache as often, so neither looks faster for it."""
    words = ("--data", data, *ONCE, "--paths", "unguarded", "guarded", "--concurrency", "2", "--sessions", "6")
    arguments = pivots_arguments(*words)
    sets = [one for source in sources_of(arguments) for one in session_sets(source, arguments)]
    asked = schedule(loaded_gate(), Policy(), sets, arguments)
    assert [plan.path for plan, _ in asked] == ["unguarded", "guarded", "guarded", "unguarded", "unguarded", "guarded"]


def test_fewer_sessions_for_models_still_hold_every_p(data: str) -> None:
    """--model-sessions takes as many of V3 at each P, so that its figures against P stay."""
    arguments = pivots_arguments("--data", data, "--sessions", "4", "--pivot-turns", "2", "4")
    sets = {one.variant: one for source in sources_of(arguments) for one in session_sets(source, arguments)}
    assert [session.pivot_turn for session in sets["v3"].first(2)] == [2, 2, 4, 4]
    assert sets["v1"].first(2) == list(sets["v1"].sessions[:2])
    assert sets["v1"].first(None) == list(sets["v1"].sessions)


def test_several_models_in_one_run(tmp_path: Path, data: str) -> None:
    """Each model has its own rows."""
    words = ("--data", data, *ONCE, "--model", "n", "--paths", "unguarded")
    with chat_server(_talker) as server:
        run = _run(tmp_path, *words, "--base-url", server.url)
    assert sorted(key.model for key in run.groups) == ["m", "n"]


def test_decoding_can_be_constrained(tmp_path: Path, data: str) -> None:
    """--structured sends the answer's schema, --extra any other field."""
    words = ("--data", data, *ONCE, "--paths", "unguarded", "--structured")
    with chat_server(_talker) as server:
        _run(tmp_path, *words, "--base-url", server.url, "--extra", '{"top_k": 50}')
    for body in server.bodies:
        assert body["top_k"] == 50
        form = body["response_format"]["json_schema"]["schema"]
        assert form["additionalProperties"] is False
        earlier = form["properties"]["relevant_context"]["items"]["enum"]
        assert body["messages"][-1]["content"].startswith(f"[{len(earlier)}] ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no data"),
        (("--sample", "--paths", "guarded"), "--model"),
        (("--sample", "--pivot-turns", "2", "--paths", "unguarded", "--model", "m"), "--base-url"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    """A command that lacks something says what."""
    arguments = pivots_arguments(
        *words, "--sessions", "2", "--out", str(tmp_path / "run"), "--cache", str(tmp_path / "c")
    )
    with pytest.raises(DataError, match=message):
        benchmark(loaded_gate(), arguments)


def test_the_sample_comes_with_the_package(tmp_path: Path) -> None:
    """The sample conversations load, with the licence that lets them be shipped."""
    run = _run(tmp_path, "--sample", "--pivot-turns", "2", "5", "--variants", "v1", "v3")
    assert [one["licence"] for one in run.card.sources] == ["Apache-2.0"]


def test_records_survive_the_disk(tmp_path: Path, data: str) -> None:
    """What was recorded is read back as it was."""
    run = _run(tmp_path, "--data", data)
    read = read_records(tmp_path / "run" / RECORDS, TurnRecord)
    assert sorted(map(repr, read)) == sorted(repr(r) for records in run.groups.values() for r in records)
