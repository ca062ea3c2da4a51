"""The client side of the proxy: one pooled HTTP client for all backends.

What a proxy needs and HTTP clients do not do by default: bodies are not decompressed, cookies of one client never meet
those of another, redirects are the client's to follow, no header is added, and a request that a backend may have
accepted is never sent twice.
"""

from __future__ import annotations

import select
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from multidict import CIMultiDict
from yarl import URL

from serving.errors import ApiError, ClientGone, broken, silent, unreachable
from serving.settings import Backend as BackendSettings
from serving.settings import Timeouts
from serving.urls import base_url

Body = bytes | AsyncIterator[bytes] | None
_ADDED_BY_CLIENT = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_SLICE = 256 * 1024
"""Bodies above this are written in slices, so that a large one does not hold up other requests."""
_STALE_TRIES = 64
_HEADER_BYTES = 64 * 1024
"""Some backends answer with cookies and policies far above the library's 8 kB."""


@dataclass(frozen=True, slots=True)
class Backend:
    """An OpenAI-compatible server as requests see it.

    Attributes:
        name: from the settings; appears in logs, metrics and errors.
        base: URL that paths below ``/v1`` are appended to.
        authorization: replaces the client's; None: the client's own goes upstream.
        timeout: how long a connection, and a silence, may take.
    """

    name: str
    base: str
    authorization: str | None
    timeout: aiohttp.ClientTimeout

    @classmethod
    def of(cls, settings: BackendSettings, timeouts: Timeouts) -> Backend:
        """From its settings, and the time-outs of those that have none of their own."""
        key = settings.api_key.get_secret_value() if settings.api_key else None
        own = settings.timeouts
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=own.connect_s or timeouts.connect_s, sock_read=own.read_s or timeouts.read_s
        )
        return cls(settings.name, base_url(settings.url), f"Bearer {key}" if key else None, timeout)


class Upstream:
    """Sends requests to backends. Made inside a running event loop; ``close`` ends it."""

    def __init__(self, keepalive_s: float) -> None:
        self._session = aiohttp.ClientSession(
            connector=_FreshConnector(limit=0, keepalive_timeout=keepalive_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
            skip_auto_headers=_ADDED_BY_CLIENT,
        )

    async def send(
        self, backend: Backend, method: str, url: str, headers: list[tuple[str, str]], body: Body
    ) -> aiohttp.ClientResponse:
        """Send a request and wait for the head of its answer; the caller closes the answer.

        Raises:
            ApiError: there is no answer; its status says whether the backend may have accepted the request.
        """
        fields = CIMultiDict(headers)
        if isinstance(body, bytes) and len(body) > _SLICE:
            fields["Content-Length"] = str(len(body))
            body = _slices(body)
        try:
            response = await self._session.request(
                method,
                URL(url, encoded=True),
                headers=fields,
                data=body,
                allow_redirects=False,
                timeout=backend.timeout,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _answer_for(error, backend.name) from error
        if 200 <= response.status < 600:
            return response
        response.close()  # another protocol, or none
        raise broken(backend.name)

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()


def _answer_for(error: Exception, backend: str) -> Exception:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ClientGone | ApiError):  # raised by the body's source
            return cause
        cause = cause.__cause__
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return unreachable(backend)
    return silent(backend) if isinstance(error, TimeoutError) else broken(backend)


async def _slices(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _SLICE):
        yield body[start : start + _SLICE]


class _FreshConnector(aiohttp.TCPConnector):
    """Never hands out a pooled connection that the backend has closed already.

    The library learns of a close when the event loop gets round to it; a request written in between is lost, and
    whether it was accepted cannot be known, so it could not be repeated. The kernel knows earlier: an idle connection
    with something to read is at its end.
    """

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the library's signature
    ) -> Connection:
        for _ in range(_STALE_TRIES):
            connection = await super().connect(req, traces, timeout)
            if not _has_input(connection):
                return connection
            connection.close()
        return await super().connect(req, traces, timeout)


def _has_input(connection: Connection) -> bool:
    socket = connection.transport.get_extra_info("socket") if connection.transport else None
    if socket is None or connection.transport is None or connection.transport.get_extra_info("ssl_object"):
        return False  # under TLS a session ticket may be waiting, which says nothing
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))
