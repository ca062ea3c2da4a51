"""Every path of the API that is not guarded: streamed both ways, untouched.

Where several backends or routes are configured, the body of a JSON request (embeddings, say) is read for its model.
"""

from __future__ import annotations

from dataclasses import dataclass

from guard.errors import UnreadableChat
from serving.client import Presence, Request, Send, read_body, stream_body
from serving.errors import ApiError
from serving.forward import Forwarder
from serving.record import RequestRecord
from serving.routing import Router
from serving.wire import read_chat


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
        if self.router.chooses and request.method == "POST" and _is_json(request):
            await self._by_model(request, presence, send, record)
            return
        body = await stream_body(request, self.limit, presence.watch)
        headed = b"content-length" in request.head
        backend = self.router.backends[0]
        await self.forwarder.forward(request, send, backend, body if body or headed else None, record)

    async def _by_model(self, request: Request, presence: Presence, send: Send, record: RequestRecord) -> None:
        """Forward a request whose model says where to; its body is read for that, and only then."""
        body = await read_body(request, self.limit)
        presence.watch()
        try:
            read = read_chat(body)
        except (ApiError, UnreadableChat):
            read = None  # the backend judges
        record.model = read.model if read else ""
        target = self.router.targets(record.model)[0]
        if read is not None and target.model != record.model:
            body = read.rebuild(None, model=target.model)
        record.answered = target.model
        await self.forwarder.forward(request, send, target.backend, body, record)


def _is_json(request: Request) -> bool:
    return request.head.get(b"content-type", b"").split(b";")[0].strip() == b"application/json"
