"""Every path of the API that is not guarded: streamed both ways, untouched.

Where several backends or routes are configured, a request goes to the backend of the model that it names: in the body
if that is JSON (embeddings, say), or in the path (``/models/NAME``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

from guard.errors import UnreadableChat
from serving.client import Presence, Request, Send, read_body, stream_body
from serving.errors import ApiError
from serving.forward import Forwarder
from serving.record import RequestRecord
from serving.routing import Router
from serving.upstream import Backend
from serving.wire import read_chat

_MODEL = b"/models/"


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
        backend = self.router.backends[0]
        if self.router.chooses and request.path.startswith(_MODEL):
            request, backend = self._of_model(request)
        body = await stream_body(request, self.limit, presence.watch)
        headed = b"content-length" in request.head
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

    def _of_model(self, request: Request) -> tuple[Request, Backend]:
        """A request about a model, and whom to ask; an alias stands for the model that it leads to."""
        named = unquote(request.path.removeprefix(_MODEL).decode("latin-1"))
        target = self.router.targets(named)[0]
        if target.model != named:
            request = replace(request, path=_MODEL + quote(target.model).encode())
        return request, target.backend


def _is_json(request: Request) -> bool:
    return request.head.get(b"content-type", b"").split(b";")[0].strip() == b"application/json"
