"""What the gate sees: the current thread and the current turn, as two plain strings of bounded length.

A cross-encoder reads a pair of texts. The first is a digest of the thread, the second is the turn. Both are cut between
words, by the tokenizer's own count, so that the pair never exceeds the spec's ``max_tokens``, whatever the depth:

    [unused1] act as a translator … [unused2] sure , send it [unused1] the weather is   |   my dog ate the homework

Room is granted by recency: the last user message and the last answer first, the thread's first user message always (it
may set up all that follows: "act as a translator"), older ones a few words each. A message that does not fit keeps head
and tail.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from tokenizers import Tokenizer

from guard.conversation import Utterance

USER_MARK = "[unused1]"
ASSISTANT_MARK = "[unused2]"
ELISION = "…"
PAIR_SPECIALS = 3
"""[CLS] history [SEP] turn [SEP]"""

_RESERVED = re.compile(r"\[(?=(?:unused\d+|SEP|CLS|PAD|MASK|UNK)\])")
_EDGE_CHARACTERS = 480


class WindowSpec(BaseModel):
    """How much of a thread is shown; part of an artifact's manifest.

    Attributes:
        max_tokens: of the whole pair, special tokens counted.
        turn_tokens: at most this many of the turn, when the history needs the room.
        older_users: how many user messages between the first and the last are shown.
        older_answers: how many answers before the last are shown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tokens: int = Field(default=96, ge=16, le=512)
    turn_tokens: int = Field(default=40, ge=8, le=256)
    older_users: int = Field(default=6, ge=0)
    older_answers: int = Field(default=2, ge=0)


class Word(NamedTuple):
    """Where a word stands in its text, and how many tokens it takes."""

    start: int
    end: int
    tokens: int


@dataclass(frozen=True)
class Measured:
    """A text, white space folded and reserved marks broken, with its words and their token counts."""

    text: str
    words: tuple[Word, ...]
    tokens: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", sum(word.tokens for word in self.words))

    def cut(self, budget: int) -> str:
        """The text in at most ``budget`` tokens: whole, or its head and tail around an elision mark."""
        if self.tokens <= budget:
            return self.text
        if budget < 1:
            return ""
        head_budget = (budget - 1) * 3 // 5
        head, used = self._fit(range(len(self.words)), head_budget)
        tail, _ = self._fit(range(len(self.words) - 1, head - 1, -1), budget - 1 - used)
        parts = [self.text[: self.words[head - 1].end] if head else "", ELISION]
        if tail:
            parts.append(self.text[self.words[-tail].start :])
        return " ".join(part for part in parts if part)

    def _fit(self, order: range, budget: int) -> tuple[int, int]:
        count = used = 0
        for index in order:
            if used + self.words[index].tokens > budget:
                break
            used += self.words[index].tokens
            count += 1
        return count, used


class Window:
    """Renders pairs with one tokenizer. Messages are measured once, so a warm chat pays for its new ones only."""

    def __init__(self, tokenizer: Tokenizer, spec: WindowSpec, cache_size: int = 4096) -> None:
        self._tokenizer = tokenizer
        self.spec = spec
        self.measure = lru_cache(maxsize=cache_size)(self._measure)

    def render(self, thread: Sequence[Utterance], turn: str) -> tuple[str, str]:
        """The pair (history, turn) for the tokenizer; at most ``max_tokens`` once it is tokenized."""
        spec = self.spec
        room = spec.max_tokens - PAIR_SPECIALS
        messages = [(message.role, self.measure(message.text)) for message in thread]
        measured_turn = self.measure(turn)
        wanted = sum(text.tokens + 1 for _, text in messages)
        turn_room = min(measured_turn.tokens, max(spec.turn_tokens, room - wanted))
        shares = _share(messages, room - turn_room, spec)
        history = " ".join(
            f"{USER_MARK if role == 'user' else ASSISTANT_MARK} {text.cut(share)}"
            for (role, text), share in zip(messages, shares, strict=True)
            if share
        )
        return history, measured_turn.cut(turn_room)

    def _measure(self, text: str) -> Measured:
        if len(text) > 2 * _EDGE_CHARACTERS:
            text = f"{text[:_EDGE_CHARACTERS]} {ELISION} {text[-_EDGE_CHARACTERS:]}"
        text = _RESERVED.sub("[ ", " ".join(text.split()))
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        words: list[Word] = []
        last: int | None = None
        for index, (start, end) in zip(encoding.word_ids, encoding.offsets, strict=True):
            if index is not None and index == last:
                words[-1] = Word(words[-1].start, end, words[-1].tokens + 1)
            else:
                words.append(Word(start, end, 1))
            last = index
        return Measured(text, tuple(words))


def _share(messages: Sequence[tuple[str, Measured]], room: int, spec: WindowSpec) -> list[int]:
    """Tokens granted to each message. Every message shown also costs one token for its role mark."""
    shares = [0] * len(messages)
    for index, cap in _grants([role for role, _ in messages], spec):
        wanted = min(messages[index][1].tokens, cap)
        mark = 0 if shares[index] else 1
        if wanted <= shares[index] or room < mark + min(4, wanted):
            continue
        granted = min(wanted - shares[index], room - mark)
        shares[index] += granted
        room -= granted + mark
    return shares


def _grants(roles: Sequence[str], spec: WindowSpec) -> list[tuple[int, int]]:
    """(message, cap) in the order in which room is given: rising caps, recent before old."""
    users = [index for index, role in enumerate(roles) if role == "user"]
    answers = [index for index, role in enumerate(roles) if role != "user"]
    first, last = users[:1], users[-1:]
    older = users[-2:0:-1][: spec.older_users]
    answer, older_answers = answers[-1:], answers[-2::-1][: spec.older_answers]
    rounds = (
        (last, 16), (first, 14), (answer, 14), (older, 8), (last, 32), (answer, 24), (first, 24),
        (older, 16), (older_answers, 10), (last, 64), (answer, 64), (first, 48), (older, 32), (older_answers, 24),
    )  # fmt: skip
    return [(index, cap) for indices, cap in rounds for index in indices]
