"""What ``POST /v1/chat/completions`` does: read, decide, forward what belongs to the turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from guard.conversation import Conversation
from guard.errors import UnreadableChat
from guard.policy import Mode
from serving.client import Presence, Request, Send, read_body
from serving.decision import Controls, Decider, Decision, new_id, read_controls
from serving.errors import ApiError
from serving.forward import Forwarder
from serving.record import RequestRecord
from serving.routing import Router
from serving.settings import Settings
from serving.wire import ChatBody

_INLINE_BYTES = 256 * 1024
"""Bodies above this are parsed on a thread, so that a large one does not hold up other requests."""


@dataclass(frozen=True, slots=True)
class GuardedRoute:
    """A route whose requests carry a history.

    Attributes:
        read: how its bodies are read; another API with a history brings another reader.
    """

    settings: Settings
    decider: Decider
    router: Router
    forwarder: Forwarder
    read: Callable[[bytes], ChatBody]

    async def handle(self, request: Request, presence: Presence, send: Send, record: RequestRecord) -> None:
        """Serve one request.

        Raises:
            ApiError: the request is refused, or no backend answers.
            ClientGone: the client left.
        """
        record.route = "chat"
        controls = read_controls(request.head)
        body = await read_body(request, self.settings.limits.body_bytes)
        presence.watch()
        started = time.perf_counter()
        chat = await self._read(request, body)
        decision = await self._decide(chat, controls, record)
        if chat is not None and decision.applied:
            body = chat.rebuild(decision.kept)
        record.decision = decision
        record.overhead_s = time.perf_counter() - started
        backend = self.router.pick(record.model)
        try:
            await self.forwarder.forward(request, send, backend, body, record, decision.headers())
        except ApiError as error:
            raise replace(error, headers=(*error.headers, *decision.headers())) from error

    async def _read(self, request: Request, body: bytes) -> ChatBody | None:
        """The body as fields; None where the guard cannot read it and the backend is to judge."""
        if request.head.get(b"content-encoding", b"identity") != b"identity":
            return None
        try:
            return self.read(body) if len(body) <= _INLINE_BYTES else await asyncio.to_thread(self.read, body)
        except UnreadableChat:
            return None

    async def _decide(self, chat: ChatBody | None, controls: Controls, record: RequestRecord) -> Decision:
        record.model = chat.model if chat else ""
        mode = controls.mode or self.settings.mode_for(record.model)
        if mode is Mode.OFF:
            return Decision(new_id(), mode, bypass="off")
        try:
            record.conversation = await _conversation(chat)
        except UnreadableChat:
            return Decision(new_id(), mode, bypass="unreadable")
        return await self.decider.decide(record.conversation, self.settings.policy_for(mode, controls.pin))


async def _conversation(chat: ChatBody | None) -> Conversation:
    if chat is None:
        raise UnreadableChat("no fields")
    return chat.conversation() if chat.size <= _INLINE_BYTES else await asyncio.to_thread(chat.conversation)
