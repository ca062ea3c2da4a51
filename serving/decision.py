"""A verdict in time, or none: the guard is asked off the event loop, within a budget, and never fails a request."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from guard.controller import Kind
from guard.conversation import Conversation
from guard.errors import ScoringError
from guard.guard import Guard, Verdict
from guard.policy import Mode, Policy
from serving.errors import Header, bad_request
from serving.mitigations import NAMES as MITIGATIONS

MODE_HEADER = b"x-guard-mode"
PIN_HEADER = b"x-guard-pin"
MITIGATE_HEADER = b"x-guard-mitigate"
_INLINE_MESSAGES, _INLINE_BYTES = 200, 32 * 1024
"""Above these even a remembered verdict takes long enough to hold up other requests."""
_WARN_EVERY_S = 60.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Controls:
    """What a request's own headers ask of the guard; None: as configured."""

    mode: Mode | None
    pin: int | None
    mitigations: tuple[str, ...] | None = None


def read_controls(head: Mapping[bytes, bytes]) -> Controls:
    """Read ``x-guard-mode``, ``x-guard-pin`` and ``x-guard-mitigate``.

    Raises:
        ApiError: a value is not allowed; the message says what is.
    """
    mode, pin = head.get(MODE_HEADER), head.get(PIN_HEADER)
    names = head.get(MITIGATE_HEADER)
    return Controls(
        None if mode is None else _read_mode(mode),
        None if pin is None else _read_pin(pin),
        None if names is None else _read_mitigations(names),
    )


def _read_mitigations(value: bytes) -> tuple[str, ...]:
    names = [name.strip() for name in value.lower().decode("latin-1").split(",")]
    wanted = tuple(name for name in names if name not in ("", "none"))
    if not set(wanted) <= set(MITIGATIONS):
        message = f"x-guard-mitigate must be none, or some of: {', '.join(MITIGATIONS)}."
        raise bad_request(message, code="invalid_header", param="x-guard-mitigate")
    return wanted


def _read_mode(value: bytes) -> Mode:
    try:
        return Mode(value.strip().lower().decode("latin-1"))
    except ValueError:
        allowed = ", ".join(Mode)
        message = f"x-guard-mode must be one of: {allowed}."
        raise bad_request(message, code="invalid_header", param="x-guard-mode") from None


def _read_pin(value: bytes) -> int:
    if value.strip().isdigit() and len(value) < 10:
        return int(value)
    message = "x-guard-pin must be the number of first exchanges to keep, 0 or more."
    raise bad_request(message, code="invalid_header", param="x-guard-pin")


@dataclass(frozen=True, slots=True)
class Decision:
    """What the guard made of a request.

    Attributes:
        id: names it in headers and logs.
        mode: how far the guard was to go.
        verdict: None where there is none.
        bypass: why everything is forwarded undecided (``off``, ``timeout``, ``unreadable`` ...); empty: decided.
        seconds: time the request waited for it.
    """

    id: str
    mode: Mode
    verdict: Verdict | None = None
    bypass: str = ""
    seconds: float = 0.0

    @property
    def applied(self) -> bool:
        """Whether the request was shortened."""
        return self.mode is Mode.ENFORCE and not self.bypass and bool(self.dropped)

    @property
    def kept(self) -> tuple[int, ...]:
        """Positions of the messages that belong to the turn."""
        return self.verdict.selection.kept if self.verdict else ()

    @property
    def dropped(self) -> tuple[int, ...]:
        """Positions of the messages that do not; in shadow mode they are forwarded all the same."""
        return self.verdict.selection.dropped if self.verdict else ()

    @property
    def status(self) -> str:
        """``applied``, ``unchanged``, or ``bypassed:`` and why."""
        if self.bypass:
            return f"bypassed:{self.bypass}"
        return "applied" if self.applied else "unchanged"

    @property
    def label(self) -> str:
        """PIVOT or REFINE; empty where the live turn has none."""
        live = self.verdict.live if self.verdict else None
        return live.label.value if live and live.label else ""

    def headers(self) -> list[Header]:
        """Response headers that tell the client."""
        headers = [(b"x-guard-decision-id", self.id.encode()), (b"x-guard-status", self.status.encode())]
        if self.verdict is None:
            return headers
        live = self.verdict.live
        if self.label:
            headers.append((b"x-guard-label", self.label.encode()))
            if live and live.kind in (Kind.RESUME, Kind.REJOIN):
                headers.append((b"x-guard-resumed", str(live.thread).encode()))
        if live and live.probability is not None:
            headers.append((b"x-guard-probability", f"{live.probability:.4f}".encode()))
        headers.append((b"x-guard-kept", str(len(self.kept)).encode()))
        headers.append((b"x-guard-dropped", str(len(self.dropped)).encode()))
        return headers


def new_id() -> str:
    """A decision id."""
    return secrets.token_hex(8)


class Decider:
    """Asks the guard on a pool of threads. ``close`` ends the pool."""

    def __init__(self, guard: Guard | None, *, budget_s: float, workers: int, backlog: int) -> None:
        self._guard = guard
        self._budget_s = budget_s
        self._backlog = backlog
        self._pending = 0
        self._quiet_until = 0.0
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="guard-gate")

    @property
    def ready(self) -> bool:
        """Whether there is a gate."""
        return self._guard is not None

    async def decide(self, conversation: Conversation, policy: Policy) -> Decision:
        """Decide, or say why not; what takes too long goes on in the background and fills the cache."""
        started = time.perf_counter()
        verdict, bypass = await self._verdict(conversation, policy)
        if verdict and verdict.live and verdict.live.kind is Kind.UNSCORED:
            bypass = verdict.live.reason
        return Decision(new_id(), policy.mode, verdict, bypass, time.perf_counter() - started)

    async def _verdict(self, conversation: Conversation, policy: Policy) -> tuple[Verdict | None, str]:
        if self._guard is None:
            return None, "unavailable"
        if policy.budget is None and _is_small(conversation):
            remembered = self._guard.recall(conversation, policy)
            if remembered is not None:
                return remembered, ""
        if self._pending >= self._backlog:
            return None, "overloaded"
        return await self._ask(self._guard, conversation, policy)

    async def _ask(self, guard: Guard, conversation: Conversation, policy: Policy) -> tuple[Verdict | None, str]:
        future = asyncio.get_running_loop().run_in_executor(self._pool, guard.decide, conversation, policy)
        self._pending += 1
        future.add_done_callback(self._done)
        # Not wait_for: a request that gives up must not cancel the work, the next turn will want its result.
        finished, _ = await asyncio.wait([future], timeout=self._budget_s)
        if not finished:
            return None, "timeout"
        try:
            return future.result(), ""
        except ScoringError as error:
            self._warn(error)
            return None, error.reason
        except Exception as error:  # noqa: BLE001 - a defect of the guard must not cost the user an answer
            log_defect(logger, "the guard failed", error)
            return None, "error"

    def _warn(self, error: ScoringError) -> None:
        """Say why the gate fails, once in a while: every request is marked and counted anyway."""
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _WARN_EVERY_S
            why = {"fields": {"why": str(error)}}
            logger.warning("the gate gives no answer; requests go through unguarded", extra=why)

    def _done(self, future: asyncio.Future[Verdict]) -> None:
        self._pending -= 1
        if not future.cancelled():
            future.exception()  # marks it as seen where nobody waits any more

    def close(self) -> None:
        """Begin nothing more; what runs is left to its end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _is_small(conversation: Conversation) -> bool:
    messages = conversation.messages
    return len(messages) <= _INLINE_MESSAGES and sum(message.size for message in messages) <= _INLINE_BYTES


def log_defect(logger: logging.Logger, message: str, error: Exception) -> None:
    """Log where an unforeseen exception was raised; its own message is left out, it may quote a chat."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    logger.error(message, extra={"fields": {"error": type(error).__name__, "at": at}})
