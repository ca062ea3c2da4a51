"""Handoffs: what a turn is given of the past, and whose past it is.

Two events, both plain records for a log. A context handoff says what was dropped on the way to the backend. A model
handoff says that the next assistant turn is written by another model than wrote turns of the history. Counts of authors
are over the messages that are forwarded: a pivot that drops every foreign turn leaves nothing to be handed over, and
its event says so (``cleared``). No event holds message text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from guard.authorship import UNKNOWN, Author
from guard.controller import Label, Turn, thread_of
from guard.conversation import Conversation
from guard.policy import Mode
from guard.selector import Selection


class EventKind(StrEnum):
    """The two kinds of handoff."""

    CONTEXT = "context"
    MODEL = "model"


class Reason(StrEnum):
    """Why another model answers than answered before."""

    CLIENT = "client"
    """The client asked for another model."""
    ROUTE = "route"
    """The client asked for the same name, which now leads to another model."""
    FALLBACK = "fallback"
    """The model that the name leads to did not answer, and the next in line did."""
    CARRIED = "carried"
    """The same model as at the last turn; what others wrote before is still carried."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Who wrote the assistant messages of a history.

    Attributes:
        kept: forwarded messages by model, most first; ``unknown`` counts those nobody is known to have written.
        dropped: the same over what is not forwarded.
        last: the known author of the latest assistant message of the whole history, if it has one.
    """

    kept: Mapping[str, int]
    dropped: Mapping[str, int]
    last: Author | None = None

    def foreign(self, suffix_model: str) -> int:
        """Forwarded messages that another known model wrote."""
        return _foreign(self.kept, suffix_model)

    def foreign_dropped(self, suffix_model: str) -> int:
        """Messages by another known model that are not forwarded."""
        return _foreign(self.dropped, suffix_model)


def prefix_of(conversation: Conversation, authors: Mapping[int, Author], selection: Selection) -> Prefix:
    """Count authors over a selection; ``authors`` holds the known ones by position of the message."""
    spoken = [p for p, message in enumerate(conversation.messages) if message.role == "assistant"]
    kept = set(selection.kept)
    return Prefix(
        kept=_counted(authors, (p for p in spoken if p in kept)),
        dropped=_counted(authors, (p for p in spoken if p not in kept)),
        last=authors.get(spoken[-1]) if spoken else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """What both events share.

    Attributes:
        at: seconds since the epoch.
        decision_id: the decision's id, as the client got it in a header.
        digest: prefix digest of the live turn, hex; empty when nothing was decided.
        turn: number of the live turn, from 0.
        label: PIVOT or REFINE; empty for the first turn and for one that nobody scored.
        turn_kind: how the turn came by its thread.
        probability: p(PIVOT), if the turn was scored.
        thread: number of the turn's thread.
        mode: enforce, shadow or off.
        kept: messages that were forwarded.
        dropped: messages that were not, or in shadow mode would not have been.
        kept_tokens: estimated prompt tokens of the kept messages.
        dropped_tokens: estimated prompt tokens of the dropped messages.
        model: the model that answers.
        backend: the backend that serves it.
    """

    at: float
    decision_id: str
    digest: str = ""
    turn: int = 0
    label: str = ""
    turn_kind: str = ""
    probability: float | None = None
    thread: int = 0
    mode: Mode = Mode.ENFORCE
    kept: int = 0
    dropped: int = 0
    kept_tokens: int = 0
    dropped_tokens: int = 0
    model: str = ""
    backend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextHandoff(Handoff):
    """The turn was given less than the whole history, or would have been."""

    kind: EventKind = EventKind.CONTEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHandoff(Handoff):
    """The turn is answered by another model than wrote turns of the history.

    Attributes:
        prefix: forwarded assistant messages by author.
        reason: why another model answers.
        foreign: forwarded assistant messages by other known models.
        foreign_dropped: assistant messages by other known models that were not forwarded.
        cleared: nothing foreign is forwarded any more: the guard dropped all of it.
        risk: expected change in score, negative is harm; None when it was not measured. 0 when cleared.
        mitigations: names of the policies that changed the request because of this handoff.
        signed: provider families whose signed reasoning the history carries.
    """

    kind: EventKind = EventKind.MODEL
    prefix: Mapping[str, int] = field(default_factory=dict)
    reason: Reason = Reason.CLIENT
    foreign: int = 0
    foreign_dropped: int = 0
    cleared: bool = False
    risk: float | None = None
    mitigations: tuple[str, ...] = ()
    signed: tuple[str, ...] = ()

    @property
    def prefix_model(self) -> str:
        """The foreign model that wrote most of what is forwarded; ``none`` when cleared."""
        return main_author(self.prefix, self.model) or "none"


def cleared_now(
    conversation: Conversation, authors: Mapping[int, Author], turns: tuple[Turn, ...], suffix_model: str
) -> bool:
    """Whether the live turn leaves a thread in which another model wrote: the turn at which its text is let go of."""
    if len(turns) < 2 or turns[-1].label is not Label.PIVOT:
        return False
    members = {p for exchange in thread_of(turns[:-1]) for p in conversation.exchanges[exchange].members}
    return any(author.model != suffix_model for p, author in authors.items() if p in members)


def reason_of(prefix: Prefix, requested: str, suffix_model: str, *, fell_back: bool) -> Reason:
    """Why another model answers: what the proxy did now, else whether the client asked for the same name as before."""
    if fell_back:
        return Reason.FALLBACK
    if prefix.last is None:
        return Reason.CLIENT
    if prefix.last.model == suffix_model:
        return Reason.CARRIED
    return Reason.ROUTE if prefix.last.requested == requested else Reason.CLIENT


def main_author(counts: Mapping[str, int], suffix_model: str) -> str | None:
    """The known model other than ``suffix_model`` with most messages; of equals the first by name."""
    others = [(-count, model) for model, count in counts.items() if model not in (suffix_model, UNKNOWN)]
    return min(others)[1] if others else None


def described(turn: Turn | None) -> dict[str, object]:
    """A decision as fields of an event."""
    if turn is None:
        return {}
    return {
        "digest": turn.digest.hex(),
        "turn": turn.index,
        "label": turn.label.value if turn.label else "",
        "turn_kind": turn.kind.value,
        "probability": turn.probability,
        "thread": turn.thread,
    }


def _foreign(counts: Mapping[str, int], suffix_model: str) -> int:
    return sum(count for model, count in counts.items() if model not in (suffix_model, UNKNOWN))


def _counted(authors: Mapping[int, Author], positions: Iterable[int]) -> dict[str, int]:
    counts = Counter(authors[p].model if p in authors else UNKNOWN for p in positions)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
