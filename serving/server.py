"""Sockets and servers: where the application meets the network."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Coroutine, Iterator
from typing import Any

import uvicorn

from guard.errors import SettingsError
from serving.app import App
from serving.client import AsgiApp
from serving.settings import Settings

_BACKLOG = 2048
_CLIENT_KEEPALIVE_S = 75
"""Longer than clients keep idle connections: the side that closes first can cost the other a request."""


def bind(host: str, port: int, flag: str = "--port") -> socket.socket:
    """A listening socket.

    Raises:
        SettingsError: the address cannot be had; the proxy never takes another one instead.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}; choose another with {flag}") from None


def make_server(app: AsgiApp, *, shutdown_s: int, lifespan: bool = True) -> uvicorn.Server:
    """A server that adds nothing of its own to answers."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on" if lifespan else "off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_CLIENT_KEEPALIVE_S,
        timeout_graceful_shutdown=shutdown_s,
        backlog=_BACKLOG,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    """Leaves signals to ``serve``: the library's own handling raises them again at the end, and two servers clash."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run the servers on the fastest event loop there is."""
    # What the imports made stays for good; the collector need not walk it again and again under load.
    gc.collect()
    gc.freeze()
    if sys.platform == "win32":
        asyncio.run(main)
    else:
        import uvloop

        uvloop.run(main)


async def serve(app: App, settings: Settings, api: socket.socket, admin: socket.socket | None) -> None:
    """Serve until a signal ends it; the admin pages stop last."""
    main = make_server(app, shutdown_s=settings.timeouts.shutdown_s)
    _stop_on_signals(main)
    if admin is None or app.admin is None:
        await main.serve(sockets=[api])
        return
    companion = make_server(app.admin, shutdown_s=1, lifespan=False)
    beside = asyncio.create_task(companion.serve(sockets=[admin]))
    try:
        await main.serve(sockets=[api])
    finally:
        companion.should_exit = True
        await beside


def _stop_on_signals(server: uvicorn.Server) -> None:
    """The first signal lets running requests end, a second interrupt does not."""
    if sys.platform == "win32":
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, server.handle_exit, number, None)
