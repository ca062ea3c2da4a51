"""Every path of the API that is not guarded: streamed both ways, untouched."""

from __future__ import annotations

from dataclasses import dataclass

from serving.client import Presence, Request, Send, stream_body
from serving.forward import Forwarder
from serving.record import RequestRecord
from serving.routing import Router


@dataclass(frozen=True, slots=True)
class PassThrough:
    """The route for what needs no guarding."""

    router: Router
    forwarder: Forwarder
    limit: int

    async def handle(self, request: Request, presence: Presence, send: Send, record: RequestRecord) -> None:
        """Forward one request; its body may still be coming.

        Raises:
            ApiError: the body is too long, or no backend answers.
            ClientGone: the client left.
        """
        body = await stream_body(request, self.limit, presence.watch)
        headed = b"content-length" in request.head
        await self.forwarder.forward(request, send, self.router.pick(""), body if body or headed else None, record)
