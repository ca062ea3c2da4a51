"""The paths with a chat model in them: unguarded, and guarded behind the proxy.

The request is the same on both. On the guarded path the label is the proxy's, and the shortlist is what the guard kept
and the model says it used. The proxy's headers carry its label and how many messages it kept; which ones is decided
here by the same guard (a decision is a pure function of messages, policy and gate), and a turn where the two disagree
is marked as failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from eval.answers import answer_score
from eval.chat_client import ChatClient, ChatReply, ChatRequest
from eval.errors import BackendError
from eval.gate import LoadedGate
from eval.progress import Progress
from eval.prompt import (
    JointAnswer,
    Messages,
    ViolationError,
    answer_messages,
    joint_messages,
    parse_joint,
    schema,
)
from eval.records import TurnRecord
from eval.replay import Decision, replay
from eval.sessions import Session, SessionTurn
from guard.policy import Policy

ModelPath = Literal["unguarded", "guarded"]
Task = Literal["joint", "answer"]
MOST_FAILURES_IN_A_ROW = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """One model on one path, asked one task.

    Attributes:
        path: unguarded or guarded.
        model: its name at the server.
        task: joint or answer.
        repeat: number of the run.
        options: further fields of every body.
        structured: whether decoding is constrained to the joint answer's schema.
        violation_retries: further attempts after a malformed answer.
        salt: what stands between client and model: gate and policy.
    """

    path: ModelPath
    model: str
    task: Task
    repeat: int
    options: Mapping[str, object] = field(default_factory=dict)
    structured: bool = False
    violation_retries: int = 2
    salt: str = ""

    def request(self, session: Session, position: int, rejected: str | None = None) -> ChatRequest:
        """The request for a turn."""
        options = dict(self.options)
        if self.structured and self.task == "joint":
            options["response_format"] = schema(position)
        messages = task_messages(self.task, session, position, rejected)
        return ChatRequest(self.model, messages, options, self.repeat, self.salt)


@dataclass(frozen=True, slots=True)
class Turn:
    """A user turn to be asked.

    Attributes:
        source: data set.
        variant: v1, v2, v3, or empty.
        session: its session.
        position: its position there.
        number: number of the user turn, from 1.
        decision: what the guard makes of the request, positions as in the session.
    """

    source: str
    variant: str
    session: Session
    position: int
    number: int
    decision: Decision


def task_messages(task: Task, session: Session, position: int, rejected: str | None = None) -> Messages:
    """The messages of a task's request."""
    return joint_messages(session, position, rejected) if task == "joint" else answer_messages(session, position)


def turns_of(
    gate: LoadedGate, policy: Policy, task: Task, sessions: Sequence[Session], source: str, variant: str
) -> Iterator[Turn]:
    """Turns that a task asks: scored ones for joint; at and after the pivot, with references, for answer."""
    for session in sessions:
        for decision in _decisions(gate, policy, task, session):
            turn = session.turns[decision.position]
            if decision.number > 1 and turn.label is not None and (task == "joint" or _asks_answer(session, decision)):
                yield Turn(source, variant, session, decision.position, decision.number, decision)


class Asker:
    """Asks turns on one path; it gives up when the server fails many in a row."""

    def __init__(self, client: ChatClient, progress: Progress) -> None:
        self._client = client
        self._progress = progress
        self._failures = 0
        self.last_error = ""

    async def ask(self, plan: Plan, turns: Sequence[Turn]) -> list[TurnRecord]:
        """Ask turns in order, as many at once as the endpoint allows; answered ones come from the cache.

        Raises:
            BackendError: the server failed many turns in a row.
        """
        records: dict[int, TurnRecord] = {}
        queue = iter(enumerate(turns))

        async def work() -> None:
            for number, turn in queue:
                records[number] = await self._one(plan, turn)
                self._progress.advance()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._client.endpoint.concurrency):
                    group.create_task(work())
        except* BackendError as failed:
            raise BackendError(str(failed.exceptions[0])) from None
        return [records[number] for number in range(len(turns))]

    async def _one(self, plan: Plan, turn: Turn) -> TurnRecord:
        try:
            record = await _asked(self._client, plan, turn)
        except BackendError as error:
            self._failures += 1
            self.last_error = str(error)
            if self._failures >= MOST_FAILURES_IN_A_ROW:
                raise BackendError(f"{self._failures} turns in a row failed; the last: {error}") from None
            return _record(plan, turn, error="backend")
        self._failures = 0
        return record


def _decisions(gate: LoadedGate, policy: Policy, task: Task, session: Session) -> Iterator[Decision]:
    """Decide on the messages as they are sent; the leading instruction shifts positions by one."""
    last = session.user_positions[-1]
    sent = Session(
        session.id,
        tuple(SessionTurn(message["role"], message["content"]) for message in task_messages(task, session, last)),
    )
    for decision in replay(gate.guard, gate.cache, sent, policy):
        yield Decision(
            position=decision.position - 1,
            number=decision.number,
            label=decision.label,
            kind=decision.kind,
            probability=decision.probability,
            kept=tuple(position - 1 for position in decision.kept),
            offered=decision.offered,
            tokens_kept=decision.tokens_kept,
            tokens_offered=decision.tokens_offered,
            milliseconds=decision.milliseconds,
            error=decision.error,
        )


def _asks_answer(session: Session, decision: Decision) -> bool:
    pivot = session.pivot_turn
    return pivot is not None and decision.number >= pivot and bool(session.turns[decision.position].answers)


async def _asked(client: ChatClient, plan: Plan, turn: Turn) -> TurnRecord:
    if plan.task == "answer":
        reply = await client.complete(plan.request(turn.session, turn.position))
        return _record(plan, turn, reply=reply, answer=reply.text, error=_disagreement(plan, turn, reply))
    violations: list[str] = []
    first: ChatReply | None = None
    joint: JointAnswer | None = None
    while joint is None and len(violations) <= plan.violation_retries:
        rejected = violations[-1] if violations else None
        reply = await client.complete(plan.request(turn.session, turn.position, rejected))
        first = first or reply
        try:
            joint = parse_joint(reply.text, turn.position)
        except ViolationError as violation:
            violations.append("truncated" if reply.finish_reason == "length" else violation.slug)
    error = "" if joint else "violation"
    disagreement = "" if first is None else _disagreement(plan, turn, first)
    return _record(plan, turn, reply=first, joint=joint, violations=tuple(violations), error=disagreement or error)


def _disagreement(plan: Plan, turn: Turn, reply: ChatReply) -> str:
    """Whether the proxy decided as the guard here; a bypass is named by its reason."""
    if plan.path == "unguarded":
        return ""
    status = reply.headers.get("x-guard-status", "absent")
    if status.startswith("bypassed") or status == "absent":
        return f"guard_{status.replace(':', '_')}"
    here = turn.decision
    label = here.label.value if here.label else ""
    # The proxy counts the instruction and the live turn too.
    same = reply.headers.get("x-guard-label", "") == label
    same = same and reply.headers.get("x-guard-kept") == str(len(here.kept) + 2)
    return "" if same else "guard_disagrees"


def _record(
    plan: Plan,
    turn: Turn,
    *,
    reply: ChatReply | None = None,
    joint: JointAnswer | None = None,
    answer: str | None = None,
    violations: tuple[str, ...] = (),
    error: str = "",
) -> TurnRecord:
    said = turn.session.turns[turn.position]
    here = turn.decision
    guarded = plan.path == "guarded"
    spoken = joint.answer if joint else answer
    label = here.label.value if guarded and here.label else None
    return TurnRecord(
        path=plan.path,
        task=plan.task,
        model=plan.model,
        source=turn.source,
        variant=turn.variant,
        repeat=plan.repeat,
        session=turn.session.id,
        position=turn.position,
        number=turn.number,
        pivot_turn=turn.session.pivot_turn,
        label=None if said.label is None else said.label.value,
        predicted=label if guarded else (joint.label if joint else None),
        kind=here.kind.value if guarded else "",
        probability=here.probability if guarded else None,
        shortlist=_shortlist(plan, here, joint),
        gold=turn.session.shortlist(turn.position),
        offered=here.offered,
        tokens_kept=here.tokens_kept if guarded else here.tokens_offered,
        tokens_offered=here.tokens_offered,
        milliseconds=here.milliseconds if guarded else None,
        first_token_s=reply.first_token_s if reply else None,
        total_s=reply.total_s if reply else None,
        prompt_tokens=reply.prompt_tokens if reply else None,
        cached_tokens=reply.cached_tokens if reply else None,
        completion_tokens=reply.completion_tokens if reply else None,
        violations=violations,
        answer=spoken,
        answer_f1=answer_score(said.answers, spoken or "") if said.answers and error != "backend" else None,
        error=error,
    )


def _shortlist(plan: Plan, here: Decision, joint: JointAnswer | None) -> tuple[int, ...] | None:
    """What is carried; None when the model was sent history and never said what it used of it."""
    if plan.path == "unguarded":
        return joint.context if joint else None
    if not here.kept:
        return ()
    return tuple(position for position in joint.context if position in here.kept) if joint else None
