"""TopiOCQA, official files of McGill-NLP: one object a turn, as a JSON list or as JSON Lines.

    {"Conversation_no": 1, "Turn_no": 1, "Question": "who directed the avengers", "Answer": "Joss Whedon",
     "Topic": "The Avengers", "Additional_answers": [{"Answer": "joss whedon"}], ...}

Adlakha et al. 2022, https://github.com/McGill-NLP/topiocqa. The validation split has additional answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from eval.datasets.source import Conversation, Utterance, conversation
from eval.errors import FormatError
from eval.sessions import read_objects


class _Answer(BaseModel):
    text: str = Field(alias="Answer")


class _Turn(BaseModel):
    conversation: int = Field(alias="Conversation_no")
    number: int = Field(alias="Turn_no")
    question: str = Field(alias="Question")
    answer: str = Field(alias="Answer")
    additional: list[_Answer] = Field(alias="Additional_answers", default=[])


def load(path: Path) -> list[Conversation]:
    """Conversations of an official file, in order of their numbers.

    Raises:
        FormatError: the file is not in this format.
    """
    turns = _turns(path)
    turns.sort(key=lambda turn: (turn.conversation, turn.number))
    grouped = groupby(turns, key=lambda turn: turn.conversation)
    loaded = [conversation(str(number), _utterances(group)) for number, group in grouped]
    return [one for one in loaded if one is not None]


def _turns(path: Path) -> list[_Turn]:
    try:
        if path.suffix == ".json":
            return TypeAdapter(list[_Turn]).validate_json(path.read_bytes())
        return [_Turn.model_validate(value) for _, value in read_objects(path)]
    except ValidationError as error:
        first = error.errors()[0]
        raise FormatError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _utterances(turns: Iterable[_Turn]) -> list[Utterance]:
    said: list[Utterance] = []
    for turn in turns:
        references = (turn.answer, *(one.text for one in turn.additional))
        said += [Utterance("user", turn.question), Utterance("assistant", turn.answer, references)]
    return said
