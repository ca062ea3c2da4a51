"""The command line."""

from __future__ import annotations

import io
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from serving.cli import main
from serving.settings import Gate
from tests.backend import Backend
from tests.http import PIVOT, ask, chat
from tests.servers import running_proxy, wait_until, word_guard

ROOT = Path(__file__).parent.parent.parent
BACKEND = ["--backend", "http://localhost:1/v1"]


def run(*arguments: str, environ: dict[str, str] | None = None) -> int:
    """Run a command with a gate of word overlap."""
    return main(arguments, environ or {}, lambda _: word_guard())


def test_check_validates_and_exits(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Right settings are 0 and a sentence, wrong ones 2 and the key."""
    quiet = ["--set", f"log.url=sqlite:///{tmp_path}/log"]
    assert run(*BACKEND, *quiet, "--check") == 0
    assert "valid" in capsys.readouterr().out
    assert run(*BACKEND, "--check", "--mode", "strict") == 2
    assert "mode: Input should be 'enforce', 'shadow' or 'off'" in capsys.readouterr().err
    assert run("--check") == 2
    assert "--backend http://localhost:11434/v1" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["log.url", "ledger.url"])
def test_check_finds_a_file_that_cannot_be(capsys: pytest.CaptureFixture[str], tmp_path: Path, key: str) -> None:
    """A missing folder shows before the start, not with the first request."""
    quiet = ["--set", "log.url="]
    for file, said in (("missing/file", "no folder"), ("", "cannot be written")):
        assert run(*BACKEND, *quiet, "--check", "--set", f"{key}=sqlite:///{tmp_path}/{file}") == 2
        shown = capsys.readouterr().err
        assert key in shown
        assert said in shown


def test_a_port_in_use_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The proxy takes no other port instead."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(*BACKEND, "--port", str(port), "--set", "log.url=") == 2
    assert f"127.0.0.1:{port}" in capsys.readouterr().err


def test_the_environment_reaches_the_gate(capsys: pytest.CaptureFixture[str]) -> None:
    """The gate is made from the settings, wherever they come from."""
    seen: list[Gate] = []

    def make(gate: Gate):  # type: ignore[no-untyped-def]  # noqa: ANN202
        seen.append(gate)
        return word_guard()

    assert main([*BACKEND, "--check", "--set", "log.url="], {"GUARD_GATE__THREADS": "3"}, make) == 0
    assert seen[0].threads == 3


def test_explain_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An engineer reads for each turn what was decided, why, and what it meant for the messages."""
    file = tmp_path / "chat.json"
    file.write_bytes(chat(*PIVOT, "lists hold items", "tell me more of cats"))
    assert run("explain", str(file)) == 0
    shown = re.sub(r"about \d+", "about N", capsys.readouterr().out)
    assert shown.splitlines() == [
        "Turn 0: 'tell me of cats'",
        "  First turn, opens topic 0.",
        "  Forwarded: messages 0 (about N tokens).",
        "",
        "Turn 1: 'python lists?'",
        "  PIVOT: p(PIVOT) = 0.900 reaches 0.500, so it opens topic 1.",
        "  Forwarded: messages 2 (about N tokens).",
        "  Left out: messages 0-1 (about N tokens).",
        "",
        "Turn 2: 'tell me more of cats'",
        "  PIVOT: p(PIVOT) = 0.900 reaches 0.500, and it returns to topic 0.",
        "  Forwarded: messages 0-1, 4 (about N tokens).",
        "  Left out: messages 2-3 (about N tokens).",
    ]


def test_explain_as_json_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for programs."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(chat(*PIVOT))))
    assert run("explain", "-", "--json") == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["kind"], first["label"]) == ("first", None)
    assert (second["label"], second["probability"], second["threshold"]) == ("PIVOT", 0.9, 0.5)
    assert (second["kept"], second["dropped"]) == ([2], [0, 1])


@pytest.mark.parametrize("content", [None, b"{", b'{"a": 1}', b"[]"])
def test_explain_says_what_is_wrong_with_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes | None
) -> None:
    """A missing file, bad JSON or no chat is a message, not a traceback."""
    file = tmp_path / "chat.json"
    if content is not None:
        file.write_bytes(content)
    assert run("explain", str(file)) == 2
    assert capsys.readouterr().err.startswith("guard-serve: ")


def test_handoffs_are_listed(backend: Backend, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The log can be read from the command line, in lines or JSON Lines, while the proxy runs."""
    url = f"sqlite:///{tmp_path}/log"
    with running_proxy(backend.url, log__url=url) as proxy:
        answer = ask(proxy.port, body=chat(*PIVOT))
        wait_until(lambda: json.loads(ask(proxy.port, "GET", "/handoffs").body))
        page = ask(proxy.port, "GET", "/handoffs")
        assert run("handoffs", "--set", f"log.url={url}", "--json") == 0
    row = json.loads(capsys.readouterr().out)
    assert row["decision_id"] == answer.headers["x-guard-decision-id"]
    assert json.loads(page.body) == [row]
    assert run("handoffs", "--set", f"log.url={url}") == 0
    line = capsys.readouterr().out
    assert "context/pivot  turn 1  p=0.900  kept 1  dropped 2" in line


SERVER = """
import sys
from serving.cli import main
from tests.servers import word_guard
sys.exit(main(make_guard=lambda gate: word_guard()))
"""


def test_a_started_proxy_serves_and_stops_cleanly(backend: Backend, tmp_path: Path) -> None:
    """The command serves API and admin ports, logs no key and no text, and ends on SIGTERM with status 0."""
    ports = []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as unused:
            ports.append(unused.getsockname()[1])
    options = ["--backend", backend.url, "--port", str(ports[0]), "--set", f"admin.port={ports[1]}"]
    options += ["--set", f"log.url=sqlite:///{tmp_path}/log", "--set", "auth.client_keys=sk-client"]
    process = subprocess.Popen([sys.executable, "-c", SERVER, *options], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: is_up(ports[0]) and is_up(ports[1]), 30)
        answer = ask(ports[0], body=chat(*PIVOT), headers={"authorization": "Bearer sk-client"})
        assert answer.headers["x-guard-status"] == "applied"
        assert ask(ports[0], path="/v1/models?key=sk-query", body=b"").status == 401
        assert b"guard_requests_total" in ask(ports[1], "GET", "/metrics").body
    finally:
        process.terminate()
        _, log = process.communicate(timeout=20)
    assert process.returncode == 0, log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    requests = [line for line in lines if line["message"] == "request"]
    assert [line["status"] for line in requests] == [200, 401]
    assert requests[0]["label"] == "PIVOT"
    assert [word for word in ("sk-client", "sk-query", "cats", "python", "purr") if word in log] == []


def is_up(port: int) -> bool:
    """Whether somebody listens."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
