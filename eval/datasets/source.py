"""A source conversation: what splices are cut from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Utterance:
    """What was said; ``answers`` on an assistant utterance are all reference answers, its own text first."""

    role: str
    text: str
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A user turn with what followed it; without an answer where the data has user turns only."""

    user: str
    answers: tuple[Utterance, ...] = ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation of a data set, as exchanges; what precedes the first user turn is left out."""

    id: str
    exchanges: tuple[Exchange, ...]


def conversation(name: str, utterances: list[Utterance]) -> Conversation | None:
    """Group utterances into exchanges, with white space normalised and nothing else changed; None if no user speaks."""
    exchanges: list[Exchange] = []
    for said in utterances:
        text = " ".join(said.text.split())
        if said.role == "user":
            exchanges.append(Exchange(text))
        elif exchanges and said.role == "assistant":
            last = exchanges[-1]
            references = tuple(" ".join(answer.split()) for answer in said.answers)
            answered = (*last.answers, Utterance(said.role, text, references))
            exchanges[-1] = Exchange(last.user, answered)
    return Conversation(name, tuple(exchanges)) if exchanges else None
