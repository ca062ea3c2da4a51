"""Whose words a request carries, and whose words an answer will be: the ledger's two uses.

    request    each assistant message -> fingerprint -> ledger -> author, or unknown
    answer     bytes beside the relay -> messages of all choices -> fingerprint -> ledger

Neither holds anything up for long: a store that is slow or down costs knowledge (``serving.ledger.layered``).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from guard.authorship import Author, author_of, fingerprint, keys_of
from guard.conversation import INSTRUCTION_ROLES, Conversation
from guard.errors import StoreError, UnreadableChat
from guard.ports import AuthorshipLedger
from guard.signed import signers
from serving.answers import AnswerReader
from serving.wire import ChatBody

logger = logging.getLogger(__name__)

_INLINE_MESSAGES = 100
"""Above this many messages fingerprints are made on a thread, so that they do not hold up other requests."""
_PLAIN = frozenset({"role", "content", "name", "refusal"})


@dataclass(frozen=True, slots=True)
class Authorship:
    """What is known of a history.

    Attributes:
        said: who said each assistant message, by position: in its place, and anywhere.
        signers: provider families that signed a part of the message, by position.
    """

    said: Mapping[int, tuple[Sequence[Author], Sequence[Author]]]
    signers: Mapping[int, frozenset[str]]

    def authors(self, reader: str = "") -> dict[int, Author]:
        """The known authors by position, as they are to the model that goes on."""
        found = {position: author_of(*said, reader) for position, said in self.said.items()}
        return {position: author for position, author in found.items() if author is not None}


UNKNOWN = Authorship({}, {})
Observe = Callable[[int, int], None]
"""Told how many assistant messages of a history have a known author, and how many do not."""


class Attribution:
    """Asks and feeds the ledger; without one everything is unknown."""

    def __init__(self, ledger: AuthorshipLedger | None, observe: Observe) -> None:
        self._ledger = ledger
        self._observe = observe

    async def of(self, chat: ChatBody, conversation: Conversation) -> Authorship:
        """Authors and signers of the assistant messages.

        Raises:
            UnreadableChat: a message holds what the guard does not parse.
        """
        if not any(message.role == "assistant" for message in conversation.messages):
            return UNKNOWN
        if len(conversation.messages) <= _INLINE_MESSAGES:
            keys, signed = _read(chat, conversation)
        else:
            keys, signed = await asyncio.to_thread(_read, chat, conversation)
        authorship = Authorship(await self._said(keys), signed)
        known = len(authorship.authors())
        self._observe(known, len(keys) - known)
        return authorship

    async def remember(self, reader: AnswerReader, conversation: Conversation, author: Author) -> None:
        """Note who said what an answer said."""
        if self._ledger is None:
            return
        before = _last_asked(conversation)
        for message in reader.messages():
            try:
                said = fingerprint(message)
            except (RecursionError, ValueError):  # nested too deeply, or a number too long to write
                continue
            if said is not None:
                await self._ledger.record(keys_of(said, before), author)

    async def close(self) -> None:
        """Let the ledger write what it still holds."""
        if self._ledger is not None:
            await self._ledger.close()

    async def _said(self, keys: dict[int, tuple[bytes, bytes]]) -> dict[int, tuple[Sequence[Author], Sequence[Author]]]:
        if self._ledger is None or not keys:
            return {}
        flat = [key for pair in keys.values() for key in pair]
        try:
            found = await self._ledger.lookup(flat)
        except StoreError:
            return {}
        return {position: (found[2 * i], found[2 * i + 1]) for i, position in enumerate(keys)}


def new_author(model: str, backend: str, requested: str) -> Author:
    """The author of an answer that comes in now."""
    return Author(model[:256], backend, time.time(), requested[:256])


def _read(
    chat: ChatBody, conversation: Conversation
) -> tuple[dict[int, tuple[bytes, bytes]], dict[int, frozenset[str]]]:
    """Ledger keys and signers of the assistant messages, by position; raises UnreadableChat."""
    keys: dict[int, tuple[bytes, bytes]] = {}
    signed: dict[int, frozenset[str]] = {}
    before = ""
    for position, message in enumerate(conversation.messages):
        if message.role != "assistant":
            before = before if message.role in INSTRUCTION_ROLES else message.text
            continue
        element = chat.element(position)
        said, families = _marks(element)
        if said is not None:
            keys[position] = keys_of(said, before)
        if families:
            signed[position] = families
    return keys, signed


def _marks(element: dict[str, object]) -> tuple[bytes | None, frozenset[str]]:
    """Fingerprint and signers of a message; raises UnreadableChat."""
    try:
        return fingerprint(element), frozenset() if _is_plain(element) else signers(element)
    except (RecursionError, ValueError):  # as in an answer
        raise UnreadableChat("a message is nested too deeply") from None


def _is_plain(element: dict[str, object]) -> bool:
    """Whether a message is nothing but text, and so has no signed part: what nearly every message is."""
    return isinstance(element.get("content"), str) and element.keys() <= _PLAIN


def _last_asked(conversation: Conversation) -> str:
    """Text of the message that the answer to this conversation follows: a question, or a tool's result."""
    passed_over = INSTRUCTION_ROLES | {"assistant"}
    return next((message.text for message in reversed(conversation.messages) if message.role not in passed_over), "")
