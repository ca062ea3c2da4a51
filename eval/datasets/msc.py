"""Multi-Session Chat, ParlAI's session files: ``msc_dialogue/session_K/{train,valid,test}.txt``, JSON Lines.

    {"dialog": [{"id": "Speaker 1", "text": "hi"}, {"id": "Speaker 2", "text": "hello"}],
     "previous_dialogs": [{"dialog": [{"text": "..."}, ...]}, ...],
     "metadata": {"initial_data_id": "valid_0", "session_id": 1}}

Xu et al. 2022, https://parl.ai/projects/msc. Each session of a dialogue is a source conversation of its own; speaker 1
plays the user. Session 1 has no file: it is the first of the previous dialogues of session 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ValidationError

from eval.datasets.source import Conversation, Utterance, conversation
from eval.errors import FormatError


class _Said(BaseModel):
    text: str
    id: str = ""


class _Dialogue(BaseModel):
    dialog: list[_Said]


class _Metadata(BaseModel):
    initial_data_id: str


class _Line(_Dialogue):
    previous_dialogs: list[_Dialogue] = []
    metadata: _Metadata


def load(path: Path) -> list[Conversation]:
    """Conversations of one session file.

    Raises:
        FormatError: a line is not in this format.
    """
    return list(_conversations(path))


def _conversations(path: Path) -> Iterator[Conversation]:
    session = path.parent.name
    with path.open("rb") as stream:
        for number, text in enumerate(stream, start=1):
            try:
                line = _Line.model_validate_json(text)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                raise FormatError(f"{path}:{number}: {where}: {first['msg']}") from None
            name = line.metadata.initial_data_id
            if session == "session_2" and line.previous_dialogs:
                yield from _conversation(f"{name}:session_1", line.previous_dialogs[0])
            yield from _conversation(f"{name}:{session}", line)


def _conversation(name: str, dialogue: _Dialogue) -> Iterator[Conversation]:
    said = [
        Utterance("user" if _is_first_speaker(one, position) else "assistant", one.text)
        for position, one in enumerate(dialogue.dialog)
    ]
    found = conversation(name, said)
    if found is not None:
        yield found


def _is_first_speaker(said: _Said, position: int) -> bool:
    return said.id == "Speaker 1" if said.id else position % 2 == 0
