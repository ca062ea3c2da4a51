"""CoQA, official JSON: a passage, questions about it, short answers.

    {"data": [{"id": "3z...", "story": "Once upon a time ...", "questions": [{"turn_id": 1, "input_text": "What ...?"}],
               "answers": [{"turn_id": 1, "input_text": "white"}],
               "additional_answers": {"0": [{"turn_id": 1, "input_text": "white"}]}}]}

Reddy et al. 2019, https://stanfordnlp.github.io/coqa. [ours] The passage stands before the first question, as a user
would paste it: so it is part of the topic's history, and leaves with it.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ValidationError

from eval.datasets.source import Conversation, Utterance, conversation
from eval.errors import FormatError


class Text(BaseModel):
    """A question or an answer."""

    turn_id: int
    input_text: str


class Passage(BaseModel):
    """A passage with its questions, and the answers of every annotator."""

    id: str
    story: str
    questions: list[Text]
    answers: list[Text]
    additional_answers: dict[str, list[Text]] = {}


class _File(BaseModel):
    data: list[Passage]


def load(path: Path) -> list[Conversation]:
    """Conversations of an official file.

    Raises:
        FormatError: the file is not in this format.
    """
    loaded = [conversation(passage.id, _utterances(passage)) for passage in read_passages(path)]
    return [one for one in loaded if one is not None]


def read_passages(path: Path) -> list[Passage]:
    """What an official file holds.

    Raises:
        FormatError: the file is not in this format.
    """
    try:
        return _File.model_validate_json(path.read_bytes()).data
    except ValidationError as error:
        first = error.errors()[0]
        raise FormatError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _utterances(passage: Passage) -> list[Utterance]:
    references: dict[int, list[str]] = {}
    for answers in (passage.answers, *passage.additional_answers.values()):
        for answer in answers:
            references.setdefault(answer.turn_id, []).append(answer.input_text)
    said: list[Utterance] = []
    for number, question in enumerate(sorted(passage.questions, key=lambda question: question.turn_id)):
        text = f"{passage.story} {question.input_text}" if number == 0 else question.input_text
        known = tuple(references.get(question.turn_id, ()))
        said += [Utterance("user", text), Utterance("assistant", known[0] if known else "", known)]
    return said
