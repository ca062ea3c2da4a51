"""Why a turn was reset: the decision on every user turn of a chat, in words or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import msgspec

from guard.controller import Kind, Turn
from guard.conversation import Conversation
from guard.guard import Guard
from guard.policy import Policy

_QUOTE = 70


@dataclass(frozen=True, slots=True)
class Explained:
    """One user turn, as it was decided when its message was the last.

    Attributes:
        turn: number, from 0.
        text: beginning of the user's message.
        kind: first, refine, pivot, resume or unscored.
        label: PIVOT, REFINE or None.
        probability: p(PIVOT), None where nobody scored it.
        threshold: probability from which a turn is a PIVOT.
        thread: number of its topic.
        reason: why it was not scored.
        kept: positions of the messages that are forwarded.
        dropped: positions of those that are not.
        kept_tokens: estimate.
        dropped_tokens: estimate.
    """

    turn: int
    text: str
    kind: str
    label: str | None
    probability: float | None
    threshold: float
    thread: int
    reason: str
    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    kept_tokens: int
    dropped_tokens: int


def explain(guard: Guard, conversation: Conversation, policy: Policy) -> list[Explained]:
    """Replay a chat turn by turn. Decisions are causal, so each is the one that the proxy took at the time."""
    threshold = guard.scorer.threshold if policy.threshold is None else policy.threshold
    explained = []
    for exchange in conversation.exchanges:
        seen = Conversation.of(conversation.messages[: exchange.user + 1])
        verdict = guard.decide(seen, policy)
        kept, dropped = verdict.selection.kept, verdict.selection.dropped
        explained.append(_explained(verdict.turns[-1], seen, threshold, kept, dropped))
    return explained


def _explained(
    turn: Turn, seen: Conversation, threshold: float, kept: tuple[int, ...], dropped: tuple[int, ...]
) -> Explained:
    return Explained(
        turn=turn.index,
        text=_beginning(seen.turn_text(turn.index)),
        kind=turn.kind.value,
        label=turn.label.value if turn.label else None,
        probability=turn.probability,
        threshold=threshold,
        thread=turn.thread,
        reason=turn.reason,
        kept=kept,
        dropped=dropped,
        kept_tokens=seen.tokens(kept),
        dropped_tokens=seen.tokens(dropped),
    )


def _beginning(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _QUOTE else line[: _QUOTE - 1] + "…"


def as_json(turns: Sequence[Explained]) -> str:
    """The decisions as a JSON document."""
    return msgspec.json.format(msgspec.json.encode([asdict(turn) for turn in turns]), indent=2).decode()


def in_words(turns: Sequence[Explained]) -> str:
    """The decisions for people."""
    return "\n\n".join(_paragraph(turn) for turn in turns) or "No user message, nothing to decide."


def _paragraph(turn: Explained) -> str:
    lines = [f"Turn {turn.turn}: {turn.text!r}", f"  {_judgement(turn)}"]
    lines.append(f"  Forwarded: {_positions(turn.kept)} (about {turn.kept_tokens} tokens).")
    if turn.dropped:
        lines.append(f"  Left out: {_positions(turn.dropped)} (about {turn.dropped_tokens} tokens).")
    return "\n".join(lines)


def _judgement(turn: Explained) -> str:
    odds = f"p(PIVOT) = {turn.probability:.3f}" if turn.probability is not None else ""
    return {
        Kind.FIRST: "First turn, opens topic 0.",
        Kind.REFINE: f"REFINE: {odds} is under {turn.threshold:.3f}, so it continues topic {turn.thread}.",
        Kind.PIVOT: f"PIVOT: {odds} reaches {turn.threshold:.3f}, so it opens topic {turn.thread}.",
        Kind.RESUME: f"PIVOT: {odds} reaches {turn.threshold:.3f}, and it returns to topic {turn.thread}.",
        Kind.REJOIN: f"REFINE: {odds} is under {turn.threshold:.3f}, and topic {turn.thread} comes back beside it.",
        Kind.UNSCORED: f"Not scored ({turn.reason}), so everything is forwarded.",
    }[Kind(turn.kind)]


def _positions(positions: Sequence[int]) -> str:
    """Positions as ranges: messages 0-3, 7."""
    ranges: list[list[int]] = []
    for position in positions:
        if ranges and position == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], position]
        else:
            ranges.append([position])
    return "messages " + ", ".join("-".join(str(end) for end in run) for run in ranges) if ranges else "nothing"
