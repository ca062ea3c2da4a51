"""A fake OpenTelemetry collector: keeps what is sent to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Collector:
    """What arrived.

    Attributes:
        url: what a user would configure.
        bodies: OTLP messages, serialised.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[bytes] = []

    @property
    def received(self) -> bytes:
        """All bytes that arrived."""
        return b"".join(self.bodies)

    def spans(self) -> Iterator[Any]:
        """All spans that arrived."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    yield from scope.spans


@contextmanager
def running_collector() -> Iterator[Collector]:
    """Run a collector in a thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
