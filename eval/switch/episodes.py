"""What a switch matrix is run on: multi-turn episodes with fixed user turns and a score for the last answer."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from eval.errors import FormatError


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


def read_records(path: Path) -> Iterator[dict[str, object]]:
    """Objects of a JSON Lines file, gzipped or not.

    Raises:
        FormatError: a line is not a JSON object.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if not isinstance(record, dict):
                raise FormatError(f"{path.name}:{number}: not a JSON object")
            yield record


def texts(record: dict[str, object], role: str) -> tuple[str, ...]:
    """Texts of a record's turns by one speaker, in order."""
    turns = record["turns"]
    if not isinstance(turns, list):
        raise FormatError(f"{record.get('id')}: turns must be a list")
    return tuple(str(turn["text"]) for turn in turns if turn["role"] == role)
