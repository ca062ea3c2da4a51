"""A guarded request to the first target that answers, and that answer to the client.

    backend cannot be reached, or answers with a status of fallback_on    nothing was done: the next target is tried
    backend breaks or is silent before its answer's head                  it may have done its work: not tried again,
                                                                          unless routing.after_accept says so
    the head of an answer is there                                        the answer is relayed, whatever becomes of it

Second attempts come out of a budget. When no target is left the client gets the last answer that a backend gave,
unchanged; without one, the proxy's own error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import aiohttp

from serving.answers import AnswerReader
from serving.auth import ClientAuth
from serving.authors import Attribution, new_author
from serving.client import Request, Send
from serving.errors import ApiError
from serving.handover import Handover, Prepared
from serving.headers import OF_THE_BODY
from serving.record import Attempt, Outcome, RequestRecord
from serving.relay import relay
from serving.routing import Router, Target
from serving.upstream import Upstream
from serving.urls import join

NEVER_ACCEPTED = "backend_unreachable"
_LONGEST_PAUSE_S = 2.0
_FIRST_PAUSE_S = 0.25


@dataclass(slots=True)
class _Answer:
    target: Target
    prepared: Prepared
    response: aiohttp.ClientResponse
    started: float


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """Tries targets in order."""

    upstream: Upstream
    auth: ClientAuth
    router: Router
    attribution: Attribution

    async def dispatch(
        self, request: Request, send: Send, targets: Sequence[Target], handover: Handover, record: RequestRecord
    ) -> None:
        """Send a request to the first target that answers and relay the answer, noting in ``record`` how it went.

        Raises:
            ApiError: there was no answer to relay; its headers tell of the decision.
        """
        began = time.perf_counter()
        try:
            answer = await self._first_answer(request, targets, handover, record)
            try:
                await self._relay(answer, send, handover, record)
            finally:
                # Does nothing to an answer that was read to its end; else it ends the backend's work.
                answer.response.close()
        except ApiError as error:
            raise replace(error, headers=(*error.headers, *handover.decision.headers())) from error
        finally:
            record.upstream_s = time.perf_counter() - began

    async def _first_answer(
        self, request: Request, targets: Sequence[Target], handover: Handover, record: RequestRecord
    ) -> _Answer:
        """The first answer worth relaying, or the last one that a backend gave."""
        self.router.budget.earn()
        last: _Answer | ApiError | None = None
        held: _Answer | None = None
        try:
            for target in (target for target in targets for _ in range(1 + self.router.policy.retries)):
                if record.attempts and not await self._again(target, record.attempts, held):
                    break
                last = await self._try(request, target, handover, record)
                if isinstance(last, _Answer):
                    _close(held)
                    held = last
                if not self._may_go_on(last):
                    break
            return _settled(held, last)
        except BaseException:
            _close(held)
            raise

    async def _again(self, target: Target, attempts: Sequence[Attempt], held: _Answer | None) -> bool:
        """Whether the budget allows another attempt; waits first where it goes to the same target."""
        if not self.router.budget.spend():
            return False
        await _pause(target, attempts, held)
        return True

    def _may_go_on(self, last: _Answer | ApiError) -> bool:
        """Whether another attempt cannot be a second bill."""
        if isinstance(last, _Answer):
            return last.response.status in self.router.policy.fallback_on
        return last.code == NEVER_ACCEPTED or self.router.policy.after_accept

    async def _try(
        self, request: Request, target: Target, handover: Handover, record: RequestRecord
    ) -> _Answer | ApiError:
        prepared = handover.prepare(target)
        headers = request.headers
        if prepared.changed:
            headers = [header for header in headers if header[0] not in OF_THE_BODY]
        url = join(target.backend.base, request.path, request.query)
        fields = self.auth.upstream_headers(headers, target.backend, request.method)
        record.backend, record.answered = target.backend.name, target.model
        started = time.perf_counter()
        try:
            response = await self.upstream.send(target.backend, request.method, url, fields, prepared.body)
        except ApiError as error:
            self.router.failed(target.backend)
            record.attempts.append(Attempt(target.backend.name, target.model, error.code or "error"))
            return error
        if response.status >= 500:
            self.router.failed(target.backend)
        else:
            self.router.succeeded(target.backend)
        record.attempts.append(Attempt(target.backend.name, target.model, str(response.status)))
        return _Answer(target, prepared, response, started)

    async def _relay(self, answer: _Answer, send: Send, handover: Handover, record: RequestRecord) -> None:
        response, target = answer.response, answer.target
        record.backend, record.answered, record.status = target.backend.name, target.model, response.status
        good = response.status < 300
        record.fell_back = target.rank > 0
        record.handoff = answer.prepared.event if good else None
        extra = answer.prepared.headers if good else tuple(handover.decision.headers())
        reader = AnswerReader(response.headers.get("content-encoding", ""))
        watched = good and handover.conversation is not None
        try:
            relayed = await relay(response, send, extra, [reader] if watched else [])
            record.first_byte_s = relayed.first_byte - answer.started
            if relayed.cut:
                record.outcome = Outcome.CUT
                self.router.failed(target.backend)
        finally:
            if watched and handover.conversation is not None:
                # Also of an answer that was cut, or that the client left: what it got may be in its history.
                author = new_author(target.model, target.backend.name, handover.requested)
                await self.attribution.remember(reader, handover.conversation, author)


def _close(answer: _Answer | None) -> None:
    if answer is not None:
        answer.response.close()


def _settled(held: _Answer | None, last: _Answer | ApiError | None) -> _Answer:
    """What the client gets: an answer, unless the last backend may have done its work and then failed.

    An earlier backend's "try again" would then invite the client to a second bill.
    """
    if isinstance(last, ApiError) and (held is None or last.code != NEVER_ACCEPTED):
        raise last
    if held is None:
        raise ApiError(502, "No backend was asked.", type="backend_error", code="backend_unreachable")
    return held


async def _pause(target: Target, attempts: Sequence[Attempt], held: _Answer | None) -> None:
    """Wait before the same target is asked again, as long as it said; another one is asked at once."""
    tries = sum((one.backend, one.model) == (target.backend.name, target.model) for one in attempts)
    if not tries:
        return
    pause = _FIRST_PAUSE_S * 2.0 ** (tries - 1)
    if held is not None and held.target == target:
        with suppress(ValueError):
            pause = float(held.response.headers.get("retry-after", ""))
    await asyncio.sleep(min(pause, _LONGEST_PAUSE_S))
