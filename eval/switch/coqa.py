"""CoQA: a passage, questions about it, short free answers (Reddy et al. 2019, stanfordnlp.github.io/coqa).

The last answer is scored by the official token F1 (``eval.answers``).

One episode of the official file, shortened::

    {"id": "3z...", "story": "Once upon a time, in a barn ...", "questions": [{"turn_id": 1, "input_text": "What color
    was Cotton?"}], "answers": [{"turn_id": 1, "span_text": "a little white kitten", "input_text": "white"}],
    "additional_answers": {"0": [{"turn_id": 1, "input_text": "white"}]}}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.answers import answer_score
from eval.switch.episodes import Benchmark, Episode, read_records, texts

INSTRUCTION = "Answer the questions about the passage. Answer with as few words as possible.\n\nPassage:\n"


@dataclass(frozen=True, slots=True)
class TokenF1:
    """The official F1 against a turn's references."""

    references: tuple[str, ...]

    def __call__(self, answer: str) -> float:
        return answer_score(self.references, answer)


def load_coqa(path: Path, turns: int | None = None) -> Benchmark:
    """CoQA from the official JSON file, or from JSON Lines with ``story`` and ``turns`` (one reference a turn).

    ``turns`` cuts each dialogue to its first questions, to save calls.
    """
    read = _official(path) if path.suffix == ".json" else _lines(path)
    episodes = [_episode(name, story, qa[:turns]) for name, story, qa in read if len(qa[:turns]) >= 2]
    notes = f"dialogues cut to {turns} questions" if turns else ""
    return Benchmark("CoQA", "token F1", notes, tuple(episodes))


def load_mtrag_un(path: Path, turns: int | None = None) -> Benchmark:
    """The substitute: questions and reference answers of mtrag-un dialogues.

    The file holds no passages, so the passage is made of the dialogue's own reference answers, in alphabetical order
    (so that place does not give the answer away). References are long, one a turn: F1 is lower than CoQA's.
    """
    episodes = []
    for record in read_records(path):
        questions, answers = texts(record, "user"), texts(record, "assistant")
        qa = [(q, (a.strip(),)) for q, a in zip(questions, answers, strict=True)][:turns]
        if len(qa) >= 2:
            passage = "\n".join(sorted({reference for _, (reference,) in qa}))
            episodes.append(_episode(str(record["id"]), passage, qa))
    notes = "substitute for CoQA: mtrag-un questions, the dialogue's reference answers as passage, one reference a turn"
    return Benchmark("mtrag-un (CoQA substitute)", "token F1", notes, tuple(episodes))


QA = Sequence[tuple[str, tuple[str, ...]]]


def _episode(name: str, story: str, qa: QA) -> Episode:
    return Episode(name, INSTRUCTION + story, tuple(q for q, _ in qa), TokenF1(qa[-1][1]))


def _official(path: Path) -> Iterator[tuple[str, str, QA]]:
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for story in data["data"]:
        references = [story["answers"], *story.get("additional_answers", {}).values()]
        qa = [
            (question["input_text"], tuple(_by_turn(answers, question["turn_id"]) for answers in references))
            for question in story["questions"]
        ]
        yield story["id"], story["story"], qa


def _by_turn(answers: list[dict[str, Any]], turn: int) -> str:
    return next(str(answer["input_text"]) for answer in answers if answer["turn_id"] == turn)


def _lines(path: Path) -> Iterator[tuple[str, str, QA]]:
    for record in read_records(path):
        pairs = zip(texts(record, "user"), texts(record, "assistant"), strict=True)
        yield str(record["id"]), str(record["story"]), [(q, (a,)) for q, a in pairs]
