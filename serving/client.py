"""The request as it comes in, and whether its client is still there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Self

from serving.errors import ApiError, ClientGone, Header, bad_request, too_large

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request, its body still to come.

    Attributes:
        method: in upper case.
        path: part below ``/v1``, as the client escaped it.
        query: as the client escaped it.
        headers: in order, names in lower case.
        head: the headers by name; of a repeated one the last.
        receive: ASGI channel that the body comes from.
    """

    method: str
    path: bytes
    query: bytes
    headers: list[Header]
    head: dict[bytes, bytes]
    receive: Receive


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body.

    Raises:
        ApiError: it is longer than ``limit``.
        ClientGone: the client left before its end.
    """
    _check_length(request, limit)
    message = await _next(request)
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return _within(body, limit)
    parts, size = [body], len(body)
    while message.get("more_body"):
        message = await _next(request)
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise too_large(limit)
    return b"".join(parts)


async def stream_body(request: Request, limit: int, complete: Callable[[], None]) -> bytes | AsyncIterator[bytes]:
    """The body for a backend that reads it while it comes: bytes where all is there already.

    Args:
        request: whose body it is.
        limit: most bytes it may have.
        complete: called once the last byte is there.

    Raises:
        ApiError: it is longer than ``limit``; raised by the iterator where only its end shows it.
        ClientGone: the client left before its end.
    """
    _check_length(request, limit)
    first = await _next(request)
    body: bytes = first.get("body", b"")
    if first.get("more_body"):
        return _rest(request, body, limit, complete)
    complete()
    return _within(body, limit)


async def _rest(request: Request, body: bytes, limit: int, complete: Callable[[], None]) -> AsyncIterator[bytes]:
    size, more = 0, True
    while True:
        size += len(body)
        if size > limit:
            raise too_large(limit)
        if not more:
            complete()
        if body:
            yield body
        if not more:
            return
        message = await _next(request)
        body, more = message.get("body", b""), bool(message.get("more_body"))


async def _next(request: Request) -> Message:
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message


def _check_length(request: Request, limit: int) -> None:
    declared = request.head.get(b"content-length", b"0")
    if not declared.isdigit():
        raise bad_request("The content-length header must be a number.", param="content-length")
    if int(declared) > limit:
        raise too_large(limit)


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise too_large(limit)
    return body


class Presence:
    """Cancels the current task when its client goes away.

    Used as a context manager. Once the body has been read the channel that it came from says one thing only, that the
    client is gone: ``watch`` listens for it. Leaving the block turns the cancellation into ``ClientGone``.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone = False
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("Presence needs a task")
        self._task = task
        return self

    def watch(self) -> None:
        """Begin to listen; the body must have been read."""
        self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
        if self._gone and kind is asyncio.CancelledError:
            self._task.uncancel()
            raise ClientGone from None


async def send_error(error: ApiError, send: Send, extra: list[Header] | None = None) -> None:
    """Answer with an error of the proxy's own."""
    body = error.body()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *error.headers,
        *(extra or ()),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
