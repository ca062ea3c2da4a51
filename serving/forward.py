"""One request to one backend and its answer back, with the times that were taken."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from serving.auth import ClientAuth
from serving.client import Request, Send
from serving.headers import Header
from serving.record import Outcome, RequestRecord
from serving.relay import Relayed, Tap, relay
from serving.upstream import Backend, Body, Upstream
from serving.urls import join


@dataclass(frozen=True, slots=True)
class Forwarder:
    """Puts credentials, client and relay together."""

    upstream: Upstream
    auth: ClientAuth

    async def forward(
        self,
        request: Request,
        send: Send,
        backend: Backend,
        body: Body,
        record: RequestRecord,
        extra: Sequence[Header] = (),
        taps: Sequence[Tap] = (),
    ) -> None:
        """Send ``body`` upstream and relay the answer, noting in ``record`` how it went.

        Raises:
            ApiError: there was no answer to relay.
        """
        record.backend = backend.name
        url = join(backend.base, request.path, request.query)
        headers = self.auth.upstream_headers(request.headers, backend, request.method)
        if body is not None and not isinstance(body, bytes) and b"content-length" in request.head:
            headers.append(("Content-Length", request.head[b"content-length"].decode("latin-1")))
        started = time.perf_counter()
        try:
            response = await self.upstream.send(backend, request.method, url, headers, body)
            record.status = response.status
            try:
                _note(record, await relay(response, send, extra, taps), started)
            finally:
                # Does nothing to an answer that was read to its end; else it ends the backend's work.
                response.close()
        finally:
            record.upstream_s = time.perf_counter() - started


def _note(record: RequestRecord, relayed: Relayed, started: float) -> None:
    record.first_byte_s = relayed.first_byte - started
    if relayed.cut:
        record.outcome = Outcome.CUT
