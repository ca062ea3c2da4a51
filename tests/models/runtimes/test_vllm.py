from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from guard.errors import ScoringError, SettingsError
from models.artifact import Artifact, Manifest
from models.runtimes.vllm import VllmRuntime

ARTIFACT = Artifact(Path("unused"), Manifest(name="tiny"))


@contextmanager
def score_server(answer: dict[str, Any], seen: list[dict[str, Any]]) -> Iterator[str]:
    """A server that speaks the score endpoint of vLLM's pooling API."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append({"path": self.path, **json.loads(self.rfile.read(int(self.headers["content-length"])))})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_pairs_are_scored_by_the_server_in_their_order() -> None:
    """Answers are matched by index, and the server's sigmoid is undone."""
    seen: list[dict[str, Any]] = []
    answer = {"data": [{"index": 1, "score": 0.25}, {"index": 0, "score": 0.5}]}
    with score_server(answer, seen) as url:
        logits = VllmRuntime(ARTIFACT, url + "/").logits([("h0", "t0"), ("h1", "t1")])
    assert logits == pytest.approx([0.0, math.log(1 / 3)])
    assert seen == [{"path": "/score", "text_1": ["h0", "h1"], "text_2": ["t0", "t1"], "truncate_prompt_tokens": 96}]


@pytest.mark.parametrize("answer", [{}, {"data": []}, {"data": [{"index": 0}]}, {"data": None}])
def test_an_odd_answer_is_a_scoring_error(answer: dict[str, Any]) -> None:
    """A server that answers something else leaves the turn unscored instead of failing the request."""
    with score_server(answer, []) as url, pytest.raises(ScoringError) as caught:
        VllmRuntime(ARTIFACT, url).logits([("h", "t")])
    assert caught.value.reason == "unavailable"


def test_a_server_that_is_down_is_a_scoring_error() -> None:
    """A refused connection leaves the turn unscored, and says which setting leads nowhere."""
    with pytest.raises(ScoringError, match=r"gate\.url.*refused"):
        VllmRuntime(ARTIFACT, "http://127.0.0.1:9").logits([("h", "t")])


def test_the_url_is_a_setting() -> None:
    """Without the server's URL the runtime says which key is missing."""
    with pytest.raises(SettingsError, match=r"gate\.url"):
        VllmRuntime(ARTIFACT, None)
