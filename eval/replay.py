"""Replay a session through the guard, turn by turn, as the requests of a growing chat would bring it.

At each user turn the guard gets exactly the messages up to it. Its own earlier decisions count, never the true labels:
the guard relabels the history on every request, and remembers rulings by prefix digest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from eval.sessions import Session
from guard.controller import Kind, Label, Turn
from guard.conversation import INSTRUCTION_ROLES, Conversation, Message
from guard.errors import ScoringError
from guard.guard import Guard
from guard.policy import Policy
from guard.ports import Ruling


@dataclass(frozen=True, slots=True)
class Decision:
    """What the guard did with one user turn.

    Attributes:
        position: position of the user turn in the session.
        number: number of the user turn, from 1.
        label: PIVOT or REFINE; None when nobody scored the turn, and for the first.
        kind: how the turn came by its thread.
        probability: p(PIVOT) against the thread that was current.
        kept: positions of earlier user and assistant utterances that are forwarded.
        offered: how many earlier user and assistant utterances there were.
        tokens_kept: estimated prompt tokens forwarded, instructions and the turn itself included.
        tokens_offered: estimated prompt tokens of the request.
        milliseconds: time the decision took, the history decided before.
        error: slug of the reason when the gate failed; everything is kept then.
    """

    position: int
    number: int
    label: Label | None
    kind: Kind
    probability: float | None
    kept: tuple[int, ...]
    offered: int
    tokens_kept: int
    tokens_offered: int
    milliseconds: float
    error: str = ""


class SessionCache:
    """A ruling cache that forgets between sessions.

    Benchmarks share heads of conversations between sessions and variants. A ruling remembered from another session
    would make a decision look faster than it is, so the replay clears the cache when a session begins.
    """

    def __init__(self) -> None:
        self._rulings: dict[bytes, Ruling] = {}

    def get(self, key: bytes) -> Ruling | None:
        return self._rulings.get(key)

    def put(self, key: bytes, ruling: Ruling) -> None:
        self._rulings[key] = ruling

    def clear(self) -> None:
        """Forget everything."""
        self._rulings.clear()


def replay(guard: Guard, cache: SessionCache, session: Session, policy: Policy) -> Iterator[Decision]:
    """Decide every user turn of ``session`` in order; ``cache`` is the one that ``guard`` was built with."""
    cache.clear()
    messages = [message(turn.role, turn.text) for turn in session.turns]
    for number, position in enumerate(session.user_positions, start=1):
        yield _decide(guard, Conversation.of(messages[: position + 1]), policy, number)


def message(role: str, text: str) -> Message:
    """A message with the size that its JSON has in a request."""
    return Message(role, text, size=len(json.dumps({"role": role, "content": text}, ensure_ascii=False).encode()))


def _decide(guard: Guard, conversation: Conversation, policy: Policy, number: int) -> Decision:
    everything = range(len(conversation.messages))
    started = perf_counter()
    try:
        verdict = guard.decide(conversation, policy)
    except ScoringError as failure:
        turn = Turn(number - 1, Kind.UNSCORED, None, 0, failure.reason)
        kept: tuple[int, ...] = tuple(everything)
        error = failure.reason
    else:
        turn, kept, error = verdict.turns[-1], verdict.selection.kept, ""
    milliseconds = (perf_counter() - started) * 1000
    live = everything[-1]
    spoken = {p for p in everything[:-1] if conversation.messages[p].role not in INSTRUCTION_ROLES}
    return Decision(
        position=live,
        number=number,
        label=turn.label,
        kind=turn.kind,
        probability=turn.probability,
        kept=tuple(p for p in kept if p in spoken),
        offered=len(spoken),
        tokens_kept=conversation.tokens(kept),
        tokens_offered=conversation.tokens(everything),
        milliseconds=milliseconds,
        error=error,
    )
