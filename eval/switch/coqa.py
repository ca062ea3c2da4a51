"""CoQA: a passage, questions about it, short free answers (Reddy et al. 2019, stanfordnlp.github.io/coqa).

The last answer is scored by the official token F1 (``eval.answers``).

One episode of the official file, shortened::

    {"id": "3z...", "story": "Once upon a time, in a barn ...", "questions": [{"turn_id": 1, "input_text": "What color
    was Cotton?"}], "answers": [{"turn_id": 1, "span_text": "a little white kitten", "input_text": "white"}],
    "additional_answers": {"0": [{"turn_id": 1, "input_text": "white"}]}}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.answers import answer_score
from eval.datasets.coqa import Text, read_passages
from eval.errors import FormatError
from eval.switch.episodes import Benchmark, Dialogue, Episode, read_lines, usable

INSTRUCTION = "Answer the questions about the passage. Answer with as few words as possible.\n\nPassage:\n"


@dataclass(frozen=True, slots=True)
class TokenF1:
    """The official F1 against a turn's references."""

    references: tuple[str, ...]

    def __call__(self, answer: str) -> float:
        return answer_score(self.references, answer)


QA = Sequence[tuple[str, tuple[str, ...]]]


def load_coqa(path: Path, turns: int | None = None) -> Benchmark:
    """CoQA from the official JSON file, or from JSON Lines with ``story`` and ``turns`` (one reference a turn).

    ``turns`` cuts each dialogue to its first questions, to save calls.

    Raises:
        FormatError: the file is not in this format.
        DataError: no dialogue has two questions.
    """
    read = _official(path) if path.suffix == ".json" else _lines(path)
    episodes = usable(path, (_episode(name, story, qa[:turns]) for name, story, qa in read))
    notes = f"dialogues cut to {turns} questions" if turns else ""
    return Benchmark("CoQA", "token F1", notes, episodes)


def load_mtrag_un(path: Path, turns: int | None = None) -> Benchmark:
    """The substitute: questions and reference answers of mtrag-un dialogues.

    The file holds no passages, so the passage is made of the dialogue's own reference answers, in alphabetical order
    (so that place does not give the answer away). References are long, one a turn: F1 is lower than CoQA's.

    Raises:
        FormatError: the file is not in this format.
        DataError: no dialogue has two questions.
    """
    notes = "substitute for CoQA: mtrag-un questions, the dialogue's reference answers as passage, one reference a turn"
    return Benchmark("mtrag-un (CoQA substitute)", "token F1", notes, usable(path, _substitutes(path, turns)))


def _substitutes(path: Path, turns: int | None) -> Iterator[Episode]:
    for where, line in read_lines(path, Dialogue):
        qa = [(question, (answer.strip(),)) for question, answer in line.exchanges(where)][:turns]
        if qa:
            passage = "\n".join(sorted({reference for _, (reference,) in qa}))
            yield _episode(str(line.id), passage, qa)


def _episode(name: str, story: str, qa: QA) -> Episode:
    references = qa[-1][1] if qa else ()
    return Episode(name, INSTRUCTION + story, tuple(q for q, _ in qa), TokenF1(references))


def _official(path: Path) -> Iterator[tuple[str, str, QA]]:
    for passage in read_passages(path):
        where = f"{path}: {passage.id}"
        annotators = [passage.answers, *passage.additional_answers.values()]
        qa = [
            (question.input_text, tuple(_by_turn(answers, question.turn_id, where) for answers in annotators))
            for question in passage.questions
        ]
        yield passage.id, passage.story, qa


def _by_turn(answers: list[Text], turn: int, where: str) -> str:
    found = next((answer.input_text for answer in answers if answer.turn_id == turn), None)
    if found is None:
        raise FormatError(f"{where}: question {turn} lacks an answer")
    return found


class _Line(Dialogue):
    story: str


def _lines(path: Path) -> Iterator[tuple[str, str, QA]]:
    for where, line in read_lines(path, _Line):
        yield str(line.id), line.story, [(question, (answer,)) for question, answer in line.exchanges(where)]
