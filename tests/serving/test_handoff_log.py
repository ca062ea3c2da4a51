"""What the handoff log holds, and what it does when its store does not keep up."""

from __future__ import annotations

import http.client
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from guard.errors import SettingsError
from serving.handofflog import HandoffLog, LogCounters
from serving.handoffs import open_engine, read_handoffs
from tests.backend import Backend
from tests.http import PIVOT, REFINE, ask, chat
from tests.servers import running_proxy, wait_until

ROOT = Path(__file__).parent.parent.parent


def rows(path: Path) -> list[dict[str, Any]]:
    """What a reader finds while the proxy runs."""
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute("SELECT * FROM handoffs ORDER BY id")]
        except sqlite3.OperationalError:  # not made yet
            return []


def test_a_pivot_is_a_row_without_text(backend: Backend, tmp_path: Path) -> None:
    """Everything about the handoff is there but what was said."""
    file = tmp_path / "log.sqlite3"
    with running_proxy(backend.url, log__url=f"sqlite:///{file}") as proxy:
        answer = ask(proxy.port, body=chat(*PIVOT, model="llama"))
        wait_until(lambda: len(rows(file)) == 1)
        (row,) = rows(file)
    assert row["decision_id"] == answer.headers["x-guard-decision-id"]
    expected = {"turn": 1, "kind": "context", "event": "pivot", "label": "PIVOT", "probability": 0.9, "thread": 1}
    expected |= {"kept_messages": 1, "dropped_messages": 2, "mode": "enforce", "suffix_model": "llama"}
    expected |= {"backend": "default", "status": 200, "outcome": "ok", "content": None}
    assert {name: row[name] for name in expected} == expected
    assert row["kept_tokens"] > 0
    assert row["dropped_tokens"] > 0
    assert row["total_ms"] > row["decision_ms"] > 0
    stored = file.read_bytes()
    assert [word for word in (b"cats", b"purr", b"python") if word in stored] == []


def test_only_handoffs_are_rows(backend: Backend, tmp_path: Path) -> None:
    """A refined turn, and a later step of an agent under the same user message, hand over nothing."""
    file = tmp_path / "log.sqlite3"
    with running_proxy(backend.url, log__url=f"sqlite:///{file}") as proxy:
        ask(proxy.port, body=chat(*REFINE))
        ask(proxy.port, body=chat(*PIVOT, "a step"))
        ask(proxy.port, body=chat(*PIVOT), headers={"x-guard-mode": "off"})
        ask(proxy.port, body=chat(*PIVOT), headers={"x-guard-mode": "shadow"})
        wait_until(lambda: len(rows(file)) > 0)
    assert [row["mode"] for row in rows(file)] == ["shadow"]


def test_text_is_stored_where_the_operator_wants_it(backend: Backend, tmp_path: Path) -> None:
    """With log.content: full the row has the turn's message, odd characters included."""
    file = tmp_path / "log.sqlite3"
    with running_proxy(backend.url, log__url=f"sqlite:///{file}", log__content="full") as proxy:
        ask(proxy.port, body=chat("a", "b", "Ünï\x00code"))
    assert [row["content"] for row in rows(file)] == ["Ünïcode"]


def test_a_clean_stop_loses_nothing(backend: Backend, tmp_path: Path) -> None:
    """What was answered before the stop is in the file after it."""
    file = tmp_path / "log.sqlite3"
    with running_proxy(backend.url, log__url=f"sqlite:///{file}") as proxy:
        for number in range(30):
            ask(proxy.port, body=chat("a", "b", f"c{number}"))
    assert len(rows(file)) == 30


@contextmanager
def counted_log(url: str, capacity: int) -> Iterator[tuple[HandoffLog, dict[str, int]]]:
    counts = {"dropped": 0, "errors": 0}

    def count(name: str) -> None:
        counts[name] += 1

    counters = LogCounters(lambda: count("dropped"), lambda: count("errors"))
    log = HandoffLog(open_engine(url), capacity, counters)
    yield log, counts
    log.close(0.1)


ROW = {
    "turn": 1,
    "kind": "context",
    "event": "pivot",
    "decision_id": "d",
    "prefix_digest": "p",
    "mode": "enforce",
    "suffix_model": "m",
    "backend": "b",
    "outcome": "ok",
} | dict.fromkeys(
    ("kept_messages", "dropped_messages", "kept_tokens", "dropped_tokens", "status", "decision_ms", "total_ms"), 0
)


def test_a_full_queue_drops_in_the_open(tmp_path: Path) -> None:
    """Rows that find no room are counted, and handing them over takes no time."""
    with counted_log(f"sqlite:///{tmp_path / 'log'}", capacity=3) as (log, counts):  # not started: nothing is taken out
        started = time.monotonic()
        for _ in range(10):
            log.put(dict(ROW))
        assert time.monotonic() - started < 1
        assert (log.waiting(), counts["dropped"]) == (3, 7)


def test_a_store_that_comes_back_gets_what_waited(tmp_path: Path) -> None:
    """Failed writes are counted and tried again."""
    folder = tmp_path / "later"
    with counted_log(f"sqlite:///{folder / 'log'}", capacity=10) as (log, counts):
        log.start()
        log.put(ROW | {"time": datetime.now(UTC)})
        wait_until(lambda: counts["errors"] > 0)
        folder.mkdir()
        wait_until(lambda: len(rows(folder / "log")) == 1)
        assert log.waiting() == 0


def test_a_store_that_is_down_fails_no_request(backend: Backend, tmp_path: Path) -> None:
    """Requests go on, and a counter says what is wrong."""
    with running_proxy(backend.url, log__url=f"sqlite:///{tmp_path}/missing/log") as proxy:
        assert [ask(proxy.port, body=chat(*PIVOT)).status for _ in range(3)] == [200] * 3
        wait_until(lambda: proxy.metric("guard_log_errors_total") > 0)
        wait_until(lambda: proxy.metric("guard_log_queue") == 3)


@pytest.mark.parametrize("url", ["no url", "mysql+nodriver://x/y"])
def test_an_unusable_url_is_refused_at_the_start(url: str) -> None:
    """A typing error is not a store that may come back."""
    with pytest.raises(SettingsError, match=r"log\.url"):
        open_engine(url)


SERVER = """
import sys
from serving.cli import main
from tests.servers import word_guard
sys.exit(main(make_guard=lambda gate: word_guard()))
"""


def test_a_killed_process_leaves_a_whole_file(backend: Backend, tmp_path: Path) -> None:
    """After kill -9 under load the file is intact, holds the earlier rows, and the next process writes on."""
    file = tmp_path / "log.sqlite3"
    before = run_and_kill(backend, file)
    assert before > 0
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len(list(read_handoffs(open_engine(f"sqlite:///{file}"), limit=10_000))) >= before
    assert run_and_kill(backend, file) > before


def run_and_kill(backend: Backend, file: Path) -> int:
    """Start the proxy, keep it busy with handoffs until it has logged some more, and kill it; how many there were."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    options = ["--backend", backend.url, "--port", str(port), "--set", f"log.url=sqlite:///{file}"]
    process = subprocess.Popen([sys.executable, "-c", SERVER, *options], cwd=ROOT, stderr=subprocess.DEVNULL)
    enough = threading.Event()

    def load() -> None:
        number = 0
        while not enough.is_set():
            number += 1
            try:
                ask(port, body=chat("a", "b", f"c{number}"))
            except (OSError, http.client.HTTPException):  # not up yet, or dead already
                time.sleep(0.05)

    clients = [threading.Thread(target=load) for _ in range(4)]
    start = len(rows(file))
    for client in clients:
        client.start()
    try:
        wait_until(lambda: len(rows(file)) > start, 30)
        return len(rows(file))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        enough.set()
        for client in clients:
            client.join()
