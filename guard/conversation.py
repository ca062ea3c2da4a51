"""A chat as the guard sees it: messages, grouped into exchanges.

An exchange is a user message and everything up to the next user message. System and developer messages belong to no
exchange: they are protected. What else stands before the first user message (a greeting, say) is the preamble and
belongs to the first topic.

    >>> chat = Conversation.of([Message("user", "hi"), Message("assistant", "hello"), Message("user", "bye")])
    >>> [exchange.members for exchange in chat.exchanges]
    [(0, 1), (2,)]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

INSTRUCTION_ROLES = frozenset({"system", "developer"})
RESULT_ROLES = frozenset({"tool", "function"})
ROLES = INSTRUCTION_ROLES | RESULT_ROLES | {"user", "assistant"}


@dataclass(frozen=True, slots=True)
class Message:
    """One element of a request's ``messages``, reduced to what decisions depend on.

    Attributes:
        role: one of ``ROLES``.
        text: the text of the content, parts joined by a line break; empty when there is none.
        calls: ids of the tool calls an assistant message makes, in order. A legacy ``function_call`` has its function
            name as id, and so has the ``function`` message that answers it.
        answers: id of the call that a tool or function message answers.
        size: length in bytes of the message as received, for token estimates (0: use the text).
    """

    role: str
    text: str
    calls: tuple[str, ...] = ()
    answers: str | None = None
    size: int = 0

    @property
    def tokens(self) -> int:
        """Estimated prompt tokens: four bytes a token, the usual rule of thumb, plus the role's framing."""
        return 4 + (self.size or len(self.text.encode("utf-8", "surrogatepass"))) // 4


@dataclass(frozen=True, slots=True)
class Utterance:
    """A user or assistant message's text, the unit that a gate reads."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """A user message and what followed it.

    Attributes:
        user: position of the user message in the conversation.
        members: positions of all its messages in order, the user message first; instructions excluded.
    """

    user: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages in order, with the grouping that decisions work on."""

    messages: tuple[Message, ...]
    preamble: tuple[int, ...]
    exchanges: tuple[Exchange, ...]

    @classmethod
    def of(cls, messages: Iterable[Message]) -> Conversation:
        """Group messages into exchanges."""
        messages = tuple(messages)
        preamble: list[int] = []
        groups: list[list[int]] = []
        for position, message in enumerate(messages):
            if message.role in INSTRUCTION_ROLES:
                continue
            if message.role == "user":
                groups.append([position])
            else:
                (groups[-1] if groups else preamble).append(position)
        exchanges = tuple(Exchange(group[0], tuple(group)) for group in groups)
        return cls(messages, tuple(preamble), exchanges)

    def turn_text(self, turn: int) -> str:
        """Text of the user message of exchange ``turn``."""
        return self.messages[self.exchanges[turn].user].text

    def utterances(self, exchanges: Iterable[int]) -> tuple[Utterance, ...]:
        """Texts of the given exchanges, oldest first; messages without text (tool traffic, images) are left out.

        The preamble precedes exchange 0, because it belongs to its topic.
        """
        positions: list[int] = []
        for exchange in exchanges:
            if exchange == 0:
                positions += self.preamble
            positions += self.exchanges[exchange].members
        spoken = (self.messages[p] for p in positions)
        return tuple(Utterance(m.role, m.text) for m in spoken if m.role in ("user", "assistant") and m.text.strip())

    def tokens(self, positions: Iterable[int]) -> int:
        """Estimated prompt tokens of the messages at ``positions``."""
        return sum(self.messages[p].tokens for p in positions)
