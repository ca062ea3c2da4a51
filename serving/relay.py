"""The backend's answer on its way to the client: the same bytes, as they arrive.

An answer that the backend cut stays cut. The relay then returns without completing its own answer, on which the server
closes the connection: a client sees an incomplete body, never a clean end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import aiohttp

from serving.client import Send
from serving.headers import Header, to_client


class Tap(Protocol):
    """Sees the bytes of an answer beside the client, and changes none."""

    def feed(self, chunk: bytes) -> None:
        """Take bytes of the body, after they were sent."""
        ...


@dataclass(slots=True)
class Relayed:
    """How an answer went.

    Attributes:
        first_byte: ``time.perf_counter`` when the body began; 0 while it has not.
        cut: whether the backend broke off.
    """

    first_byte: float = 0.0
    cut: bool = False


async def relay(
    response: aiohttp.ClientResponse, send: Send, extra: Sequence[Header] = (), taps: Sequence[Tap] = ()
) -> Relayed:
    """Send an answer to the client while it comes in, with ``extra`` headers."""
    relayed = Relayed()
    headers = [*to_client(response.raw_headers), *extra]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    content = response.content
    while True:
        try:
            chunk = await content.readany()
        except (aiohttp.ClientError, OSError):  # a time-out is an OSError
            chunk = _left_behind(content)
            relayed.cut = True
        relayed.first_byte = relayed.first_byte or time.perf_counter()
        more = relayed.cut or not content.at_eof()
        if chunk or not more:
            await send({"type": "http.response.body", "body": chunk, "more_body": more})
        for tap in taps:
            tap.feed(chunk)
        if relayed.cut or not more:
            return relayed


def _left_behind(content: aiohttp.StreamReader) -> bytes:
    """What had arrived before a break; the library's reader raises first and would lose it."""
    content._exception = None  # noqa: SLF001 - no public way to it
    return content.read_nowait() if content._buffer else b""  # noqa: SLF001
