"""A fake OpenAI backend that does what a test tells it, and remembers the bytes it got.

It speaks HTTP/1.1 by hand, because what tests need most is what server libraries prevent: answers in any chunking, cut
in the middle, stalled, or compressed; and the request exactly as it arrived.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Received:
    """A request as it arrived: target and header names unchanged."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first header of that name."""
        return next((value for key, value in self.headers if key.lower() == name), None)


class Wire:
    """The answering side of a connection, as scripts see it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.keep_open = True

    async def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, body: bytes, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Send a whole answer with its length."""
        given = {name.lower() for name, _ in headers}
        lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers)]
        if "content-type" not in given:
            lines.append("content-type: application/json")
        lines.append(f"content-length: {len(body)}")
        await self.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def begin_stream(self, headers: Sequence[tuple[str, str]] = (("content-type", "text/event-stream"),)) -> None:
        """Send the head of an answer in chunks."""
        lines = ["HTTP/1.1 200 OK", *(f"{name}: {value}" for name, value in headers), "transfer-encoding: chunked"]
        await self.write("\r\n".join(lines).encode() + b"\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        """Send one chunk, if it is not empty; an empty one would end the answer."""
        if data:
            await self.write(b"%x\r\n%s\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        """End an answer in chunks."""
        await self.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Close the connection, whatever is missing."""
        self.keep_open = False
        self._writer.close()

    async def until_left(self) -> None:
        """Wait until the other side closes."""
        with suppress(OSError):
            await self._reader.read(1)
        self.keep_open = False


Script = Callable[[Received, Wire], Awaitable[None]]


async def plain_chat(request: Received, wire: Wire) -> None:
    """Answer a chat, streamed where it asks for that, anything else with an empty list."""
    if request.method == "HEAD":
        await wire.write(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n")
    elif request.method != "POST" or not request.target.split("?")[0].endswith("/chat/completions"):
        await wire.answer(b'{"object":"list","data":[]}')
    elif json.loads(request.body).get("stream"):
        await wire.begin_stream()
        for event in stream_events("Hel", "lo"):
            await wire.chunk(event)
        await wire.end_stream()
    else:
        await wire.answer(completion("Hello"))


def completion(text: str) -> bytes:
    """A chat completion."""
    message = {"role": "assistant", "content": text}
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "fake",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    ).encode()


def stream_events(*pieces: str) -> Iterator[bytes]:
    """The events of a streamed chat completion."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    for piece in pieces:
        choice = {"index": 0, "delta": {"role": "assistant", "content": piece}, "finish_reason": None}
        yield b"data: " + json.dumps(head | {"choices": [choice]}).encode() + b"\n\n"
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    yield b"data: " + json.dumps(head | {"choices": [last]}).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


@dataclass
class Backend:
    """The running fake.

    Attributes:
        script: what it does with each request; tests replace it.
        requests: what arrived, oldest first.
        connections: how many were opened.
        left: set when the other side closed a connection while an answer was due.
    """

    script: Script = plain_chat
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    left: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    @property
    def url(self) -> str:
        """What a user would configure."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def last(self) -> Received:
        """The newest request."""
        return self.requests[-1]

    async def serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until one side closes."""
        self.connections += 1
        wire = Wire(reader, writer)
        try:
            while wire.keep_open:
                request = await _read(reader)
                self.requests.append(request)
                await self.script(request, wire)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    headers = tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
    lower = {name.lower(): value for name, value in headers}
    if lower.get("transfer-encoding") == "chunked":
        return Received(method, target, headers, await _read_chunks(reader))
    return Received(method, target, headers, await reader.readexactly(int(lower.get("content-length", 0))))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return body


@contextmanager
def running_backend(script: Script = plain_chat) -> Iterator[Backend]:
    """Run a fake in a thread, on a port of its own."""
    backend = Backend(script)
    loop = asyncio.new_event_loop()
    started = threading.Event()
    stop = asyncio.Event()

    async def serve() -> None:
        server = await asyncio.start_server(backend.serve_connection, "127.0.0.1", 0, limit=2**26)
        backend.port = server.sockets[0].getsockname()[1]
        started.set()
        await stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    started.wait(5)
    try:
        yield backend
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
