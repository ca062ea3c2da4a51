"""What routes with a history do: read, decide, forward what belongs to the turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from guard.conversation import Conversation
from guard.errors import UnreadableChat
from guard.policy import Mode
from guard.risk import Risk
from serving.authors import UNKNOWN, Attribution
from serving.client import Presence, Request, Send, read_body
from serving.decision import Controls, Decider, Decision, new_id, read_controls
from serving.dispatch import Dispatcher
from serving.encoding import decoded, is_plain
from serving.handover import Handover
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
        name: in logs and metrics.
        read: how its bodies are read; another API with a history brings another reader.
    """

    name: str

    settings: Settings
    decider: Decider
    router: Router
    dispatcher: Dispatcher
    attribution: Attribution
    risk: Risk | None
    read: Callable[[bytes], ChatBody]

    async def handle(self, request: Request, presence: Presence, send: Send, record: RequestRecord) -> None:
        """Serve one request.

        Raises:
            ApiError: the request is refused, or no backend answers.
            ClientGone: the client left.
        """
        record.route = self.name
        controls = read_controls(request.head)
        body = await read_body(request, self.settings.limits.body_bytes)
        presence.watch()
        started = time.perf_counter()
        chat = await self._read(request, body)
        record.decision = await self._decide(chat, controls, record)
        handover = await self._handover(body, chat, controls, record.decision, record)
        targets = self.router.targets(record.model)
        if self.settings.routing.order == "risk":
            targets = self.router.available_first(handover.safest_first(targets))
        record.overhead_s = time.perf_counter() - started
        await self.dispatcher.dispatch(request, send, targets, handover, record)

    async def _handover(
        self, body: bytes, chat: ChatBody | None, controls: Controls, decision: Decision, record: RequestRecord
    ) -> Handover:
        """Who wrote what the request carries, and what may be done about it."""
        conversation, authorship = record.conversation, UNKNOWN
        names = self.settings.handoff.mitigations if controls.mitigations is None else controls.mitigations
        pin = self.settings.policy.pin if controls.pin is None else controls.pin
        try:
            authorship = await self.attribution.of(chat, conversation) if chat and conversation else UNKNOWN
        except UnreadableChat as error:  # what decisions read is fine, but nobody could say what is forwarded
            record.decision = decision = Decision(decision.id, decision.mode, None, error.reason, decision.seconds)
        return Handover(body, chat, conversation, decision, record.model, authorship, self.risk, tuple(names), pin)

    async def _read(self, request: Request, body: bytes) -> ChatBody | None:
        """The body as fields; None where the guard cannot read it and the backend is to judge."""
        encoding = request.head.get(b"content-encoding", b"")
        try:
            if not is_plain(encoding):
                return await asyncio.to_thread(self._decoded, body, encoding)
            return self.read(body) if len(body) <= _INLINE_BYTES else await asyncio.to_thread(self.read, body)
        except UnreadableChat:
            return None

    def _decoded(self, body: bytes, encoding: bytes) -> ChatBody:
        return self.read(decoded(body, encoding, self.settings.limits.body_bytes))

    async def _decide(self, chat: ChatBody | None, controls: Controls, record: RequestRecord) -> Decision:
        record.model = chat.model if chat else ""
        mode = controls.mode or self.settings.mode_for(record.model)
        if mode is Mode.OFF:  # the history is not even read: off costs what forwarding costs
            return Decision(new_id(), mode, bypass="off")
        try:
            record.conversation = await _conversation(chat)
        except UnreadableChat as error:
            return Decision(new_id(), mode, bypass=error.reason)
        return await self.decider.decide(record.conversation, self.settings.policy_for(mode, controls.pin))


async def _conversation(chat: ChatBody | None) -> Conversation:
    if chat is None:
        raise UnreadableChat("no fields")
    return chat.conversation() if chat.size <= _INLINE_BYTES else await asyncio.to_thread(chat.conversation)
