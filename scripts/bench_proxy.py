#!/usr/bin/env python3
"""What the proxy costs: CPU milliseconds a request, beside a bare forwarder and LiteLLM, in one run.

    python scripts/bench_proxy.py                                  # bare forwarder, off, enforce warm and cold
    python scripts/bench_proxy.py --litellm /path/to/venv          # and LiteLLM's proxy from that environment
    python scripts/bench_proxy.py --baseline "CMD with {backend} and {port}"

Every candidate forwards the same chat of 12 messages (3.5 kB) to the same fake backend, over 32 connections. Load and
backend run in this process on one core, the candidate on another. The figure is the CPU time of the candidate's
processes: on a shared machine it is far steadier than latency. Candidates are measured in turns, in small samples,
and the median counts. Loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import cast

import uvloop

CONNECTIONS = 32
WARM_UP = 200
START_S = 400
PIECES = 20
CORES = sorted(os.sched_getaffinity(0))
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Candidate:
    """A proxy to measure: how it is started, and which headers turn it into this row."""

    name: str
    command: list[str]
    headers: tuple[str, ...] = ()
    fresh: bool = False
    """Every request ends with a message of its own, so that nothing is remembered."""
    requests: int = 400
    """How many make a sample."""


@dataclass(frozen=True)
class Sample:
    """CPU milliseconds a request, and requests a second."""

    cpu: float
    rate: float


@dataclass(frozen=True)
class Row:
    """The median sample of each kind."""

    name: str
    plain: float
    stream: float
    rate: float


# The fake backend: an answer of fixed bytes to every request.


def answer(text: str) -> bytes:
    """A chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "fake", "choices": [choice], "usage": usage}
    return json.dumps(body).encode()


def events() -> Iterator[bytes]:
    """The events of a stream."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    for number in range(PIECES):
        choice = {"index": 0, "delta": {"content": f"word{number} "}, "finish_reason": None}
        yield b"data: " + json.dumps(head | {"choices": [choice]}).encode() + b"\n\n"
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    yield b"data: " + json.dumps(head | {"choices": [last]}).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


PLAIN_BODY = answer("hello " * 40)
PLAIN = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(PLAIN_BODY) + PLAIN_BODY
)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM_CHUNKS = [b"%x\r\n%s\r\n" % (len(event), event) for event in events()]


class FakeBackend(asyncio.Protocol):
    """Reads whole requests, answers at once; each piece of a stream is a write of its own."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.buffer = bytearray()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (request := take_message(self.buffer)) is not None:
            if b'"stream": true' in request or b'"stream":true' in request:
                self.task = asyncio.ensure_future(self.stream())
            else:
                self.transport.write(PLAIN)

    async def stream(self) -> None:
        """Answer in pieces."""
        self.transport.write(STREAM_HEAD)
        for chunk in STREAM_CHUNKS:
            self.transport.write(chunk)
            await asyncio.sleep(0)
        self.transport.write(b"0\r\n\r\n")


def take_message(buffer: bytearray) -> bytes | None:
    """Take one message with a known length out of the buffer; None while it is incomplete."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(buffer[:end]).lower()
    start = head.find(b"content-length:")
    length = int(head[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
    if len(buffer) < end + 4 + length:
        return None
    message = bytes(buffer[: end + 4 + length])
    del buffer[: end + 4 + length]
    return message


# The load: requests in a closed loop.


class Client(asyncio.Protocol):
    """One keep-alive connection; ``ask`` returns when the answer is complete."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.buffer = bytearray()
        self.done: asyncio.Future[bool] | None = None

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0 or self.done is None or self.done.done():
            return
        chunked = b"transfer-encoding: chunked" in bytes(self.buffer[:end]).lower()
        ok = self.buffer.startswith(b"HTTP/1.1 200")
        if (chunked and self.buffer.endswith(b"0\r\n\r\n")) or (not chunked and take_message(self.buffer) is not None):
            self.done.set_result(ok)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_exception(exc or ConnectionResetError("closed"))

    async def ask(self, request: bytes) -> None:
        """Send a request and wait for its answer."""
        self.buffer.clear()
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        if not await asyncio.wait_for(self.done, 60):
            raise RuntimeError(bytes(self.buffer[:300]))


def chat(*, stream: bool, last: str) -> bytes:
    """A chat of 12 messages, 3.5 kB."""
    filler = ("lorem ipsum dolor sit amet " * 400)[:290]
    messages = [{"role": "system", "content": "You are a helpful assistant."}]
    for number in range(10):
        role = "user" if number % 2 == 0 else "assistant"
        messages.append({"role": role, "content": f"turn {number} {filler}"})
    messages.append({"role": "user", "content": last})
    body: dict[str, object] = {"model": "fake", "messages": messages}
    return json.dumps(body | {"stream": True} if stream else body).encode()


def request_bytes(port: int, body: bytes, headers: tuple[str, ...]) -> bytes:
    """The request as it goes over the wire."""
    head = [
        "POST /v1/chat/completions HTTP/1.1",
        f"host: 127.0.0.1:{port}",
        "content-type: application/json",
        "authorization: Bearer sk-bench",
        f"content-length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


async def load(port: int, candidate: Candidate, count: int, *, stream: bool) -> float:
    """Send ``count`` requests; the result is requests a second."""
    left = count

    async def one_connection() -> None:
        nonlocal left
        _, client = await asyncio.get_running_loop().create_connection(Client, "127.0.0.1", port)
        while left > 0:
            left -= 1
            last = f"And now, what is the capital of France? {time.perf_counter_ns() if candidate.fresh else ''}"
            await client.ask(request_bytes(port, chat(stream=stream, last=last), candidate.headers))
        client.transport.close()

    started = time.perf_counter()
    await asyncio.gather(*(one_connection() for _ in range(CONNECTIONS)))
    return count / (time.perf_counter() - started)


# The measuring.


def process_tree(root: int) -> list[int]:
    """A process and all that it started."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting += parents.get(found[-1], [])
    return found


def cpu_seconds(root: int) -> float:
    """CPU time of a process and all that it started, by the scheduler's own clock: clock ticks are too coarse."""
    total = 0
    for pid in process_tree(root):
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # it ended
                total += int(thread.read_text().split()[0])
    return total / 1e9


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(candidate: Candidate, port: int, backend: int) -> Iterator[int]:
    """Start a candidate in a folder of its own and wait for its port."""
    values = {"port": str(port), "backend": f"http://127.0.0.1:{backend}/v1", "backend_port": str(backend)}
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "out").open("wb") as out:
        config = Path(folder) / "litellm.yaml"
        config.write_text(LITELLM_CONFIG.format(**values))
        command = [part.format(config=config, **values) for part in candidate.command]
        environment = os.environ | LITELLM_ENVIRONMENT | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out, start_new_session=True)
        pin(process.pid, last=True)
        try:
            wait_for(port, process, Path(folder) / "out")
            yield process.pid
        finally:
            with suppress(ProcessLookupError):  # it never started
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def pin(pid: int, *, last: bool) -> None:
    """Keep a process on the last core, or on the first."""
    os.sched_setaffinity(pid, {CORES[-1 if last else 0]})


def wait_for(port: int, process: subprocess.Popen[bytes], out: Path) -> None:
    """Wait until a candidate listens."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"did not start:\n{out.read_text()[-2000:]}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"no answer on its port for {START_S} s")


async def measure(candidate: Candidate, port: int, pid: int, *, stream: bool) -> Sample:
    """One sample of a running candidate."""
    await load(port, candidate, min(WARM_UP, candidate.requests), stream=stream)
    before = cpu_seconds(pid)
    rate = await load(port, candidate, candidate.requests, stream=stream)
    return Sample((cpu_seconds(pid) - before) * 1000 / candidate.requests, rate)


# The candidates.

LITELLM_CONFIG = """\
model_list:
  - model_name: fake
    litellm_params: {{model: openai/fake, api_base: "{backend}", api_key: sk-x}}
litellm_settings: {{telemetry: false, num_retries: 0, request_timeout: 30}}
general_settings: {{master_key: sk-bench}}
"""
LITELLM_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
    "LITELLM_LOG": "ERROR",
    "LITELLM_MODE": "PRODUCTION",
    "DISABLE_ADMIN_UI": "True",
}


def candidates(arguments: argparse.Namespace) -> list[Candidate]:
    """What is measured."""
    count = arguments.requests
    guard = [sys.executable, "-m", "serving", "--backend", "{backend}", "--port", "{port}"]
    if arguments.words:
        guard = [sys.executable, __file__, "--role", "words", "{backend}", "{port}"]
    bare = [sys.executable, __file__, "--role", "bare", "{backend}", "{port}"]
    off, enforce = ("x-guard-mode: off",), ("x-guard-mode: enforce",)
    found = [
        Candidate("bare forwarder", bare, requests=count),
        Candidate("pivot-guard off", guard, off, requests=count),
        Candidate("pivot-guard enforce, warm", guard, enforce, requests=count),
        Candidate("pivot-guard enforce, cold", guard, enforce, fresh=True, requests=max(count // 4, 50)),
    ]
    if arguments.baseline:
        found.insert(1, Candidate("given baseline", shlex.split(arguments.baseline), requests=count))
    if arguments.litellm:
        litellm = [str(Path(arguments.litellm) / "bin" / "litellm"), "--config", "{config}", "--host", "127.0.0.1"]
        litellm += ["--port", "{port}", "--num_workers", "1"]
        found.append(Candidate("LiteLLM", litellm, requests=max(count // 4, 50)))
    return found


def show(rows: list[Row]) -> None:
    """Print the table and the verdicts."""
    reference = {row.name: row for row in rows}
    against = [name for name in ("bare forwarder", "given baseline", "LiteLLM") if name in reference]
    print(f"{'CPU ms a request':28}{'plain':>8}{'stream':>8}{'req/s':>8}", *(f"{'x ' + name:>18}" for name in against))
    for row in rows:
        ratios = (f"{row.plain / reference[name].plain:18.2f}" for name in against)
        print(f"{row.name:28}{row.plain:8.3f}{row.stream:8.3f}{row.rate:8.0f}", *ratios)
    bare, off = reference["bare forwarder"], reference["pivot-guard off"]
    verdict("off, against the bare forwarder", off.plain / bare.plain, 2.5)
    if "LiteLLM" in reference:
        verdict("off, against LiteLLM", off.plain / reference["LiteLLM"].plain, 0.1)
        warm = reference["pivot-guard enforce, warm"]
        verdict("enforce warm, against LiteLLM", warm.plain / reference["LiteLLM"].plain, 0.5)


def verdict(what: str, ratio: float, most: float) -> None:
    """Hold a ratio against its target."""
    print(f"{what}: {ratio:.3f}, at most {most}: {'OK' if ratio <= most else 'FAIL'}")


# Roles of the child processes.


def bare_forwarder(backend: str, port: int) -> None:
    """What forwarding alone costs with this server and this client: no reading, no routes, no checks."""
    import aiohttp
    import uvicorn

    session: aiohttp.ClientSession | None = None
    url = backend + "/chat/completions"

    async def app(scope, receive, send):  # noqa: ANN001, ANN202, ARG001
        nonlocal session
        if session is None:
            session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body")
        headers = {"content-type": "application/json"}
        async with session.post(url, data=body, headers=headers) as response:
            head = [
                (name.lower(), value) for name, value in response.raw_headers if name.lower() != b"transfer-encoding"
            ]
            await send({"type": "http.response.start", "status": response.status, "headers": head})
            async for chunk in response.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    uvicorn.run(app, port=port, log_level="error", access_log=False, lifespan="off", http="httptools", loop="uvloop")


def word_proxy(backend: str, port: int) -> None:
    """The proxy with a gate that costs nothing, to see the proxy's own share."""
    from serving.app import create_app
    from serving.logs import configure
    from serving.server import bind, run, serve
    from serving.settings import load
    from tests.servers import word_guard

    settings = load({"backend": backend, "port": port}, {})
    configure(settings.logging)
    run(serve(create_app(settings, word_guard()), settings, bind("127.0.0.1", port), None))


async def measure_all(arguments: argparse.Namespace) -> None:
    """Start everything, then measure in rounds, so that a noisy minute falls on all candidates alike."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:  # what was started must not outlive a script that is told to stop
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    server = await loop.create_server(FakeBackend, "127.0.0.1", arguments.backend_port)
    backend = server.sockets[0].getsockname()[1]
    wanted = candidates(arguments)
    samples: dict[tuple[str, bool], list[Sample]] = {}
    with ExitStack() as stack:
        processes: dict[tuple[str, ...], tuple[int, int]] = {}
        for candidate in wanted:
            command = tuple(candidate.command)
            if command not in processes:
                port = free_port()
                processes[command] = (port, stack.enter_context(running(candidate, port, backend)))
        for number in range(arguments.rounds):
            for candidate in wanted:
                for stream in (False, True):
                    sample = await measure(candidate, *processes[tuple(candidate.command)], stream=stream)
                    samples.setdefault((candidate.name, stream), []).append(sample)
            print(f"round {number + 1} of {arguments.rounds} done", file=sys.stderr)
    show([typical(candidate.name, samples) for candidate in wanted])


def typical(name: str, samples: dict[tuple[str, bool], list[Sample]]) -> Row:
    """The row of a candidate."""
    plain, stream = samples[name, False], samples[name, True]
    cpu = (median(sample.cpu for sample in kind) for kind in (plain, stream))
    return Row(name, *cpu, median(sample.rate for sample in plain))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--litellm", metavar="VENV", help="virtual environment with litellm[proxy]")
    parser.add_argument(
        "--baseline", metavar="CMD", help="another forwarder; {backend}, {backend_port}, {port} are filled in"
    )
    parser.add_argument("--backend-port", type=int, default=0, help="port of the fake backend (default: any)")
    parser.add_argument("--requests", type=int, default=400, help="requests a sample (default 400)")
    parser.add_argument("--rounds", type=int, default=10, help="samples of each kind; the median counts (default 10)")
    parser.add_argument("--words", action="store_true", help="a gate of word overlap in place of the shipped one")
    parser.add_argument("--role", nargs=3, metavar=("ROLE", "BACKEND", "PORT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        role, backend, port = arguments.role
        {"bare": bare_forwarder, "words": word_proxy}[role](backend, int(port))
    else:
        pin(os.getpid(), last=False)
        uvloop.run(measure_all(arguments))


if __name__ == "__main__":
    main()
