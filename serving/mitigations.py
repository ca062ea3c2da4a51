"""What may be changed in a request when another model goes on with its history. Nothing, unless it is asked for.

With every policy off a request is forwarded as the guard's two stages left it, messages byte for byte. A policy edits:

    drop      leaves out answers of other models; the user's messages stay, and so do answers with tool calls, the live
              exchange and pinned exchanges. Still a subsequence of the request's messages.
    restate   adds the user's earlier requests of the topic to the live user message, word for word.
    mark      puts a line before each answer of another model that says so.
    strip     takes out reasoning that another provider signed, which the next provider would refuse.

Items of the Responses API are not messages: of the policies only ``strip`` knows them.

``drop`` cuts the prompt that the backend may have cached; ``restate`` and ``mark`` change messages of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from guard.conversation import Conversation
from guard.signed import without_foreign

NAMES = ("drop", "restate", "mark", "strip")
OF_ITEMS = frozenset({"strip"})
"""Policies that can edit the items of the Responses API too."""
MARK = "[The following answer was written by another assistant.]\n"
RESTATEMENT = "\n\nMy earlier requests in this conversation still apply:\n"
MOST_RESTATED = 4000
"""Characters of earlier requests that are repeated; older ones are left out first."""


@dataclass(frozen=True, slots=True)
class Handed:
    """A history on its way to another model.

    Attributes:
        conversation: the request's messages.
        kept: positions that are forwarded.
        foreign: positions of assistant messages by other models.
        family: provider family of the next model, if its name tells.
        pin: number of first exchanges that stay as they are.
        element: the message at a position, as the client sent it.
    """

    conversation: Conversation
    kept: tuple[int, ...]
    foreign: frozenset[int]
    family: str | None
    pin: int
    element: Callable[[int], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Edit:
    """What is forwarded instead.

    Attributes:
        kept: positions that are forwarded.
        replaced: new messages, as JSON, by position.
        applied: names of the policies that changed something.
    """

    kept: tuple[int, ...]
    replaced: Mapping[int, bytes] = field(default_factory=dict)
    applied: tuple[str, ...] = ()


def mitigate(handed: Handed, names: Collection[str]) -> Edit:
    """Apply policies, in the order of ``NAMES``."""
    kept = _without_answers(handed) if "drop" in names else handed.kept
    applied = ["drop"] if kept != handed.kept else []
    messages: dict[int, dict[str, Any]] = {}
    for name, change in (("restate", _restate), ("mark", _mark), ("strip", _strip)):
        if name in names:
            changed = change(handed, kept, messages)
            messages |= changed
            applied += [name] if changed else []
    # Of a Responses item that was nothing but signed reasoning nothing is left.
    kept = tuple(p for p in kept if messages.get(p) != {})
    return Edit(kept, {p: msgspec.json.encode(messages[p]) for p in kept if p in messages}, tuple(applied))


Messages = dict[int, dict[str, Any]]


def _without_answers(handed: Handed) -> tuple[int, ...]:
    exchanges = handed.conversation.exchanges
    shielded = {p for exchange in (*exchanges[: handed.pin], exchanges[-1]) for p in exchange.members}
    return tuple(
        p for p in handed.kept if p not in handed.foreign or p in shielded or handed.conversation.messages[p].calls
    )


def _restate(handed: Handed, kept: tuple[int, ...], done: Messages) -> Messages:
    live = handed.conversation.exchanges[-1].user
    earlier = [handed.conversation.messages[p] for p in kept if p < live]
    requests = [message.text.strip() for message in earlier if message.role == "user" and message.text.strip()]
    room = MOST_RESTATED
    restated: list[str] = []
    for request in reversed(requests):
        room -= len(request)
        if room < 0:
            break
        restated.insert(0, request)
    if not restated:
        return {}
    note = RESTATEMENT + "\n".join(f"{number}. {request}" for number, request in enumerate(restated, 1))
    message = done.get(live) or handed.element(live)
    content = message.get("content")
    if isinstance(content, str):
        return {live: message | {"content": content + note}}
    parts = content if isinstance(content, list) else []
    return {live: message | {"content": [*parts, {"type": "text", "text": note.lstrip()}]}}


def _mark(handed: Handed, kept: tuple[int, ...], done: Messages) -> Messages:
    marked: Messages = {}
    for p in kept:
        if p not in handed.foreign:
            continue
        message = done.get(p) or handed.element(p)
        content = message.get("content")
        if isinstance(content, str) and content.strip():
            marked[p] = message | {"content": MARK + content}
        elif isinstance(content, list) and content:
            marked[p] = message | {"content": [{"type": "text", "text": MARK.strip()}, *content]}
    return marked


def _strip(handed: Handed, kept: tuple[int, ...], done: Messages) -> Messages:
    stripped: Messages = {}
    for p in kept:
        if handed.conversation.messages[p].role == "assistant":
            message = done.get(p) or handed.element(p)
            if (bare := without_foreign(message, handed.family)) is not message:
                stripped[p] = dict(bare)
    return stripped
