"""What a switch matrix is run on: multi-turn episodes with fixed user turns and a score for the last answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel, Field, ValidationError

from eval.errors import DataError, FormatError
from eval.sessions import read_objects

T = TypeVar("T", bound=BaseModel)


class Score(Protocol):
    """How the last answer of an episode is scored."""

    def __call__(self, answer: str) -> float:
        """A number in [0, 1], higher is better."""
        ...


@dataclass(frozen=True, slots=True)
class Episode:
    """One benchmark instance.

    Attributes:
        id: unique within the benchmark.
        system: instructions and passage, if the benchmark has them.
        users: the user turns, fixed by the data set; at least two, so that there is a prefix.
        score: scores the answer to the last of them.
    """

    id: str
    system: str | None
    users: tuple[str, ...]
    score: Score


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Episodes of one kind.

    Attributes:
        name: as printed; a substitute says that it is one.
        metric: what the score is, as printed.
        notes: what differs from the paper's benchmark.
        episodes: in the order of the file.
    """

    name: str
    metric: str
    notes: str
    episodes: tuple[Episode, ...]


class Turn(BaseModel):
    """One utterance of a file."""

    role: str
    text: str


class Dialogue(BaseModel):
    """One line of a file; unknown keys are ignored."""

    id: str | int
    turns: tuple[Turn, ...] = Field(min_length=1)

    def exchanges(self, where: str) -> list[tuple[str, str]]:
        """Questions with their answers.

        Raises:
            FormatError: a question lacks its answer.
        """
        users, assistants = ([turn.text for turn in self.turns if turn.role == role] for role in ("user", "assistant"))
        if len(users) != len(assistants):
            raise FormatError(f"{where}: {len(users)} questions and {len(assistants)} answers; wanted is one each")
        return list(zip(users, assistants, strict=True))


def read_lines(path: Path, kind: type[T]) -> Iterator[tuple[str, T]]:
    """Objects of a JSON Lines file, gzip or plain, each with its place as ``file:line``.

    Raises:
        FormatError: the file cannot be read, or a line is not of this kind.
    """
    for where, value in read_objects(path):
        try:
            yield where, kind.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            raise FormatError(f"{where}: {field}: {first['msg']}; is this the benchmark's file?") from None


def usable(path: Path, episodes: Iterable[Episode]) -> tuple[Episode, ...]:
    """Those with a prefix, i.e. at least two user turns.

    Raises:
        DataError: there is none.
        FormatError: two have one id.
    """
    found = tuple(episode for episode in episodes if len(episode.users) > 1)
    if not found:
        raise DataError(f"{path}: no dialogue with two user turns in it")
    repeated = [name for name, count in Counter(episode.id for episode in found).items() if count > 1]
    if repeated:
        raise FormatError(f"{path}: {repeated[0]} is the id of several dialogues")
    return found
