"""The ASGI endpoint of everything under ``/v1``.

Written against ASGI itself: a framework's request, response and routing objects would cost more than all the rest of
the proxy's work on a request.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from serving.auth import ClientAuth
from serving.client import Presence, Receive, Request, Scope, Send, send_error
from serving.decision import log_defect
from serving.errors import ApiError, ClientGone
from serving.record import Observer, Outcome, RequestRecord
from serving.urls import api_path

logger = logging.getLogger(__name__)

_DEPLOYMENT = re.compile(rb"^/deployments/[^/]+")
"""Azure's clients name the model in the path: what follows is the endpoint."""


class Route(Protocol):
    """What serves the requests of some paths."""

    async def handle(self, request: Request, presence: Presence, send: Send, record: RequestRecord) -> None:
        """Answer one request, noting in ``record`` how it went.

        Raises:
            ApiError: the proxy answers in place of a backend.
            ClientGone: the client left.
        """
        ...


@dataclass(frozen=True, slots=True)
class Api:
    """Admits requests, finds their route, and tells the observers how they ended.

    Attributes:
        routes: by method and path below ``/v1``.
        other: the route of everything else.
    """

    auth: ClientAuth
    routes: dict[tuple[str, bytes], Route]
    other: Route
    observers: Sequence[Observer]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        record = RequestRecord(scope["method"], "")
        try:
            await self._serve(scope, receive, send, record)
        except ApiError as error:
            record.status, record.outcome = error.status, Outcome.FAILED
            await send_error(error, send)
        except ClientGone:
            record.outcome = Outcome.GONE
        except Exception as error:  # noqa: BLE001 - the last line of defence; the message may quote a chat
            record.status, record.outcome = 500, Outcome.FAILED
            log_defect(logger, "request failed", error)
            await send_error(ApiError(500, "The proxy failed.", type="server_error", code="internal_error"), send)
        finally:
            record.total_s = time.perf_counter() - record.started
            for observer in self.observers:
                observer.finish(record)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, record: RequestRecord) -> None:
        path = api_path(scope["raw_path"])
        record.path = path.decode("latin-1")
        headers = scope["headers"]
        request = Request(record.method, path, scope["query_string"], headers, dict(headers), receive)
        record.traceparent = request.head.get(b"traceparent", b"").decode("latin-1")
        self.auth.check(request.method, request.head)
        route = self.routes.get((request.method, _DEPLOYMENT.sub(b"", path)), self.other)
        with Presence(receive) as presence:
            await route.handle(request, presence, send, record)
