"""The real proxy for tests: uvicorn in a thread, on a port of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from guard.cache import LRURulingCache
from guard.guard import Guard
from guard.ports import PivotScorer
from serving.app import App, create_app
from serving.client import AsgiApp
from serving.server import bind, make_server
from serving.settings import Settings, load
from tests.fakes import WordRelevance, WordScorer


@dataclass(frozen=True)
class Proxy:
    """A running proxy."""

    url: str
    port: int
    app: App
    settings: Settings

    def metric(self, name: str, labels: dict[str, str] | None = None) -> float:
        """A figure of ``/metrics``; 0 where there is none yet."""
        return self.app.metrics.registry.get_sample_value(name, labels or {}) or 0.0


def word_guard(scorer: PivotScorer | None = None) -> Guard:
    """A guard that says PIVOT when a turn shares no word with its topic."""
    return Guard(scorer or WordScorer(), WordRelevance(), LRURulingCache())


@contextmanager
def running_proxy(backend_url: str, guard: Guard | None = None, **options: Any) -> Iterator[Proxy]:  # noqa: ANN401
    """Run a proxy in front of ``backend_url``; options are keys of ``guard.yaml``, dots as double underscores."""
    flags = {"backend": backend_url, "log.url": ""} | {key.replace("__", "."): value for key, value in options.items()}
    settings = load(flags, {})
    app = create_app(settings, guard or word_guard())
    with running_app(app) as port:
        yield Proxy(f"http://127.0.0.1:{port}", port, app, settings)


@contextmanager
def running_app(app: AsgiApp, *, lifespan: bool = True) -> Iterator[int]:
    """Serve an application in a thread; the value is its port."""
    socket = bind("127.0.0.1", 0)
    server = make_server(app, shutdown_s=2, lifespan=lifespan)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[socket])), daemon=True)
    thread.start()
    wait_until(lambda: server.started or not thread.is_alive())
    try:
        yield int(socket.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(10)
        socket.close()


def wait_until(condition: Any, seconds: float = 5.0) -> None:  # noqa: ANN401
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the condition did not come true")
        time.sleep(0.005)
