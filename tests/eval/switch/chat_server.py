"""A chat server on a real port whose models are functions of the request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

Answer = Callable[[dict[str, Any]], str | int]
"""From a request's body, with its headers under ``headers``, to an answer or an error status."""


class ChatServer:
    """What was asked, and where the server is."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.bodies: list[dict[str, Any]] = []
        self.url = ""
        self._lock = Lock()

    def reply(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.bodies.append(body)
        said = self.answer(body)
        if isinstance(said, int):
            return said, {"error": {"message": "scripted", "type": "server_error"}}
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        message = {"role": "assistant", "content": said}
        return 200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}


@contextmanager
def chat_server(answer: Answer) -> Iterator[ChatServer]:
    """A running server; requests that are still open are answered before it stops."""
    state = ChatServer(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, tree = state.reply(body | {"headers": {k.lower(): v for k, v in self.headers.items()}})
            data = json.dumps(tree).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
