"""The data that a gate may be trained on, and the data that it is only measured on.

``SHIPPABLE`` is the allow list: what is not on it never reaches weights, whatever lies in the data folder. Licences are
to the project's knowledge; shipped weights carry the notices (see the model card). A source is divided by a hash of the
dialogue's id, so the division depends on nothing else, and holds for every seed.

A data folder holds ``NAME.jsonl.gz``, one dialogue a line:

    {"id": "d-1", "split": "train", "turns": [{"role": "user", "text": "..."}, {"role": "assistant", "text": "..."}]}
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from models.training.dialogue import Dialogue, Genre, Reading, Turn
from models.training.errors import TrainingError


@dataclass(frozen=True, slots=True)
class Source:
    """One data set.

    Attributes:
        name: of its file, without ``.jsonl.gz``.
        genre: what kind of talk it holds.
        licence: SPDX identifier, or words where there is none.
        about: what it is, for the model card.
        held_back: share of its dialogues that measures and calibrates and is never trained on.
        answers: whether assistant turns may be trained on.
    """

    name: str
    genre: Genre
    licence: str
    about: str
    held_back: float = 0.0
    answers: bool = True


SHIPPABLE: tuple[Source, ...] = (
    Source("mtrag_un", "qa", "Apache-2.0", "RAG chats", held_back=0.06),
    Source("mtrag_human_userturns", "qa", "Apache-2.0", "RAG chats, user turns"),
    Source("ikat", "qa", "MIT", "conversational search", held_back=0.06),
    Source("cast19_20_21", "qa", "MIT", "conversational search"),
    Source("cast22", "qa", "MIT", "conversational search"),
    Source("qrecc_dev2k_prefixes", "qa", "CC-BY-SA-3.0", "questions with follow-ups (QReCC)", held_back=0.06),
    Source("mt_eval", "task", "MIT", "tasks with follow-ups and refinements"),
    Source("mt_bench", "task", "Apache-2.0", "two-turn tasks", held_back=0.75),
    Source("ifeval", "task", "Apache-2.0", "single tasks"),
    Source("byu_chitchat", "chat", "MIT", "chit-chat", held_back=0.10),
    Source("topical_chat", "chat", "CDLA-Sharing-1.0", "chit-chat about given facts", held_back=0.06),
    Source("memorybank", "chat", "MIT", "synthetic chit-chat, the English part"),
    Source("sgd_train", "service", "CC-BY-SA-4.0", "task dialogues up to the first change of service (SGD)"),
    Source("sgd_dev", "service", "CC-BY-SA-4.0", "task dialogues up to the first change of service (SGD)"),
    Source(
        "real_chats_train_open",
        "real",
        "ODC-BY-1.0 and Apache-2.0",
        "chats of WildChat and OpenAssistant, labelled by a language model",
        held_back=0.20,
    ),
    Source(
        "real_chats_train_arena",
        "real",
        "CC-BY-4.0 (user turns)",
        "user turns of Chatbot Arena, labelled by a language model; the answers are not free and are left out",
        held_back=0.20,
        answers=False,
    ),
)
"""The allow list. To add a source, know its licence."""

MEASURED: tuple[Source, ...] = (
    Source("topiocqa_train192", "qa", "CC-BY-NC-SA-4.0", "TopiOCQA, part of train"),
    Source("personachat_valid_a", "chat", "not stated", "PersonaChat, part of valid"),
)
"""Measured on where they are there; never trained on, and no checkpoint or threshold is chosen by them."""


def files(data: Path, sources: tuple[Source, ...]) -> dict[Source, Path]:
    """The sources that a data folder holds, with their files."""
    paths = {source: data / f"{source.name}.jsonl.gz" for source in sources}
    return {source: path for source, path in paths.items() if path.is_file()}


def load(path: Path, source: Source, *, answers: bool | None = None) -> list[Dialogue]:
    """The dialogues of a file, each once, texts unchanged.

    Args:
        path: a gzip file of JSON Lines.
        source: what the file is.
        answers: whether assistant turns are kept; None: as the source's licence has it. Measuring may keep them.

    Raises:
        TrainingError: the file is malformed; the message names file and line.
    """
    dialogues = [_dialogue(row, source) for row in _rows(path) if row.get("split") != "cn"]
    if source.name == "qrecc_dev2k_prefixes":
        dialogues = _longest_prefixes(dialogues)
    if not (source.answers if answers is None else answers):
        dialogues = [replace(dialogue, turns=dialogue.user_turns) for dialogue in dialogues]
    return [dialogue for dialogue in dialogues if dialogue.user_turns]


def place(identity: str) -> float:
    """A fixed number in [0, 1) for a dialogue's id: its place when a source is divided."""
    digest = hashlib.sha256(f":{identity}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def is_held_back(identity: str, source: Source) -> bool:
    """Whether a dialogue measures. MT-Eval's follow-up chats continue MT-Bench's tasks and go with them."""
    if source.name == "mt_bench":
        return place(identity) >= 1 - source.held_back
    if source.name == "mt_eval":
        task = "mtb-" + identity.rsplit("-", 1)[-1]
        return "fu-" in identity and is_held_back(task, _MT_BENCH)
    return place(identity) < source.held_back


_MT_BENCH = next(source for source in SHIPPABLE if source.name == "mt_bench")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                yield _object(line, f"{path.name}:{number}")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise TrainingError(f"{path} cannot be read: {error}") from None


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise TrainingError(f"{where}: {error}") from None
    if not isinstance(row, dict) or "id" not in row or not isinstance(row.get("turns"), list):
        raise TrainingError(f"{where}: a dialogue is an object with `id` and `turns`")
    return row


def _dialogue(row: dict[str, Any], source: Source) -> Dialogue:
    identity = str(row["id"])
    turns = tuple(_turn(turn) for turn in _one_service(row["turns"], source) if turn["text"].strip())
    return Dialogue(identity, source.name, source.genre, turns, is_held_back(identity, source))


def _turn(turn: dict[str, Any]) -> Turn:
    reading = turn.get("reader")
    return Turn(turn["role"], turn["text"], Reading(reading) if reading else None, tuple(turn.get("needs") or ()))


def _one_service(turns: list[dict[str, Any]], source: Source) -> list[dict[str, Any]]:
    """SGD's changes of service are neither pivots nor refinements for sure: a dialogue ends before its first."""
    if source.genre != "service":
        return turns
    changes = (index for index, turn in enumerate(turns) if turn.get("shift") == 1)
    return turns[: next(changes, len(turns))]


def _longest_prefixes(dialogues: list[Dialogue]) -> list[Dialogue]:
    """QReCC's file holds a dialogue many times, up to each of its questions."""
    longest: dict[str, Dialogue] = {}
    for dialogue in dialogues:
        key = dialogue.turns[0].text
        if key not in longest or len(dialogue.turns) > len(longest[key].turns):
            longest[key] = dialogue
    return list(longest.values())
