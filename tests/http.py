"""A plain HTTP client for tests: sends what it is told, and shows an answer as it came."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """An answer, nothing decoded."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, str]:
        """The error object that OpenAI clients look for."""
        found: dict[str, str] = json.loads(self.body)["error"]
        return found


def ask(
    port: int,
    method: str = "POST",
    path: str = "/v1/chat/completions",
    body: bytes | Iterator[bytes] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send one request on a connection of its own; an iterator as body goes out in chunks."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        chunked = body is not None and not isinstance(body, bytes)
        connection.request(method, path, body, dict(headers or {}), encode_chunked=chunked)
        answer = connection.getresponse()
        fields = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, fields, answer.read())
    finally:
        connection.close()


@contextmanager
def sent(port: int, body: bytes, path: str = "/v1/chat/completions", missing: int = 0) -> Iterator[socket.socket]:
    """The socket of a request that was sent, but for the last ``missing`` bytes of its body."""
    head = f"POST {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(head + body[: len(body) - missing])
        yield connection


def chat(*texts: str, **fields: object) -> bytes:
    """A chat request of alternating user and assistant messages."""
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]
    return json.dumps({"model": "m", "messages": messages, **fields}).encode()


PIVOT = ("tell me of cats", "cats purr", "python lists?")
"""Texts whose last one is a PIVOT to the word-counting gate of the fakes."""
REFINE = ("tell me of cats", "cats purr", "why do cats purr?")
"""Texts whose last one is a REFINE."""
