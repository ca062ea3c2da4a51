"""One request on its way to a model: what that model is given, and whether somebody else's words are handed to it.

Everything depends on the model that will answer, and that is known only when it does: after a fallback another body may
be sent, other mitigations apply, and another event is logged.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from guard.authorship import Author
from guard.conversation import Conversation
from guard.errors import UnreadableChat
from guard.handoff import (
    ModelHandoff,
    Prefix,
    Reason,
    cleared_now,
    described,
    main_author,
    prefix_of,
    reason_of,
)
from guard.policy import Mode
from guard.risk import Risk
from guard.selector import Selection
from guard.signed import family_of
from serving.authors import UNKNOWN, Authorship
from serving.decision import Decision
from serving.headers import Header
from serving.mitigations import OF_ITEMS, Edit, Handed, mitigate
from serving.routing import Target
from serving.wire import ChatBody

_NO_HEADER_VALUE = re.compile(r"[^\x21-\x2b\x2d-\x3a\x3c-\x7e]")
SIGNED_BY = "signed:"
"""Stands before the family of an author that is known by its signature alone."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a target is sent, and what the client is told about it.

    Attributes:
        body: for the backend.
        changed: whether it differs from the client's: headers that describe the client's bytes must not go along.
        headers: for the client.
        event: the handoff of models, if there is one.
    """

    body: bytes
    changed: bool
    headers: tuple[Header, ...]
    event: ModelHandoff | None


@dataclass(frozen=True)
class Handover:
    """What is known of a request when its decision is taken.

    Attributes:
        body: as received.
        chat: the same, read; None where it could not be.
        conversation: its messages, where they could be read.
        decision: what the guard made of it.
        authorship: whose words it carries.
        requested: the model name that the client asked for.
        risk: the fitted figures, if there are any.
        mitigations: names of the policies that may edit it.
        pin: first exchanges that stay as they are.
    """

    body: bytes
    chat: ChatBody | None
    conversation: Conversation | None
    decision: Decision
    requested: str
    authorship: Authorship = UNKNOWN
    risk: Risk | None = None
    mitigations: tuple[str, ...] = ()
    pin: int = 0
    edits: dict[str, Edit] = field(default_factory=dict, init=False)

    @cached_property
    def selection(self) -> Selection:
        """What is forwarded: in shadow mode, and where nothing was decided, everything."""
        if self.decision.applied:
            return Selection(self.decision.kept, self.decision.dropped)
        return Selection(tuple(range(len(self.conversation.messages) if self.conversation else 0)), ())

    def safest_first(self, targets: tuple[Target, ...]) -> tuple[Target, ...]:
        """The targets with the fallbacks in order of risk; the first stays first."""
        if self.risk is None or self.conversation is None or len(targets) < 3:
            return targets
        first, *others = targets
        turns = prefix_of(self.conversation, self.authorship.authors(), self.selection).kept
        order = self.risk.safest_first([target.model for target in others], turns)
        return (first, *sorted(others, key=lambda target: order.index(target.model)))

    def prepare(self, target: Target) -> Prepared:
        """Body, headers and event for one target."""
        edit = self._edit(target.model)
        model = target.model if target.model != self.requested else None
        touched = self.decision.applied or bool(edit.applied)
        body = self.body
        if self.chat is not None and (touched or model is not None):
            body = self.chat.rebuild(edit.kept if touched else None, edit.replaced, model)
        event = self._event(target, edit)
        headers = [*self.decision.headers(), *_headers(target, self.requested, event)]
        return Prepared(body, body is not self.body, tuple(headers), event)

    def _edit(self, model: str) -> Edit:
        """What mitigations make of the selection; nothing where they meet what they cannot write again."""
        plain = Edit(self.selection.kept)
        if self.chat is None or self.conversation is None or self.decision.mode is not Mode.ENFORCE:
            return plain
        foreign = frozenset(p for p, author in self._authors(model).items() if author.model != model)
        names = [name for name in self.mitigations if self.chat.field == "messages" or name in OF_ITEMS]
        if not names or not foreign.intersection(plain.kept):
            return plain
        kept, pin, element = plain.kept, self.pin, self.chat.element
        try:
            return mitigate(Handed(self.conversation, kept, foreign, family_of(model), pin, element), names)
        except (UnreadableChat, RecursionError, OverflowError):
            return plain

    def _authors(self, model: str) -> Mapping[int, Author]:
        """Known authors, and for unknown ones the provider that signed them, unless ``model`` is of its family."""
        family = family_of(model)
        by_signature = {
            p: Author(SIGNED_BY + min(signed - {family}), "", 0.0)
            for p, signed in self.authorship.signers.items()
            if signed - {family}
        }
        return by_signature | self.authorship.authors(model)

    def _event(self, target: Target, edit: Edit) -> ModelHandoff | None:
        if self.conversation is None:
            return None
        authors = self._authors(target.model)
        before = prefix_of(self.conversation, authors, self.selection)
        turns = self.decision.verdict.turns if self.decision.verdict and self.decision.applied else ()
        carried = before.foreign(target.model)
        if not carried and not cleared_now(self.conversation, authors, turns, target.model):
            return None
        reason = reason_of(before, self.requested, target.model, fell_back=target.rank > 0)
        if reason is Reason.CARRIED and carried and not self._at_user_message:
            return None  # a further step of the same turn by the same model
        return self._describe(target, edit, authors, reason)

    @property
    def _at_user_message(self) -> bool:
        return self.conversation is not None and len(self.conversation.exchanges[-1].members) == 1

    def _describe(self, target: Target, edit: Edit, authors: Mapping[int, Author], reason: Reason) -> ModelHandoff:
        conversation = self.conversation or Conversation.of(())
        kept = set(edit.kept)
        dropped = tuple(p for p in range(len(conversation.messages)) if p not in kept)
        prefix = prefix_of(conversation, authors, Selection(edit.kept, dropped))
        foreign = prefix.foreign(target.model)
        signed = {family for p, families in self.authorship.signers.items() if p in kept for family in families}
        event = ModelHandoff(
            at=time.time(),
            decision_id=self.decision.id,
            mode=self.decision.mode,
            kept=len(edit.kept),
            dropped=len(dropped),
            kept_tokens=conversation.tokens(edit.kept),
            dropped_tokens=conversation.tokens(dropped),
            model=target.model,
            backend=target.backend.name,
            prefix=prefix.kept,
            reason=reason,
            foreign=foreign,
            foreign_dropped=prefix.foreign_dropped(target.model),
            cleared=foreign == 0,
            risk=self._risk(prefix, target.model, foreign),
            mitigations=edit.applied,
            signed=tuple(sorted(signed)),
        )
        live = self.decision.verdict.live if self.decision.verdict else None
        facts: dict[str, Any] = described(live) or {"turn": max(0, len(conversation.exchanges) - 1)}
        return replace(event, **facts)

    def _risk(self, prefix: Prefix, model: str, foreign: int) -> float | None:
        if self.risk is None:
            return None
        return self.risk.of_mixed(prefix.kept, model) if foreign else 0.0


def _headers(target: Target, requested: str, event: ModelHandoff | None) -> list[Header]:
    headers: list[Header] = []
    if target.model != requested or target.rank:
        headers.append((b"x-guard-model", _value(target.model)))
        headers.append((b"x-guard-backend", _value(target.backend.name)))
    if event is not None:
        source = main_author(event.prefix, event.model) or "none"
        facts = [b"from=" + _value(source), b"to=" + _value(event.model), b"foreign=%d" % event.foreign]
        facts += [b"mitigated=" + b"+".join(name.encode() for name in event.mitigations)] if event.mitigations else []
        headers.append((b"x-guard-handoff", b"; ".join([event.reason.value.encode(), *facts])))
    return headers


def _value(name: str) -> bytes:
    """A name as part of a header: names come from clients, and may hold anything."""
    return _NO_HEADER_VALUE.sub("?", name)[:128].encode("ascii")
