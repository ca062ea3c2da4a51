"""Normalised dialogues: JSON Lines, plain or gzip, in the shape of session files with the data set's name.

    {"id": "topiocqa-train-m8293", "dataset": "topiocqa", "turns": [{"role": "user", "text": "...", "shift": 0}, ...]}

The assistant's text is the reference answer of the user turn before it.
"""

from __future__ import annotations

from pathlib import Path

from eval.datasets.source import Conversation, Utterance, conversation
from eval.errors import FormatError
from eval.sessions import parse_session, read_objects


def load(path: Path, name: str) -> list[Conversation]:
    """Conversations of a file that says it holds the data set ``name`` (or a part of it, ``name_part``).

    Raises:
        FormatError: a line is not in this format, or says that it belongs to another data set.
    """
    loaded = []
    for where, value in read_objects(path):
        dataset = value.get("dataset") if isinstance(value, dict) else None
        if dataset is not None and not f"{dataset}_".startswith(f"{name}_"):
            raise FormatError(f"{where}: this is {dataset}, not {name}")
        session = parse_session(value)
        said = [Utterance(turn.role, turn.text, (turn.text,)) for turn in session.turns]
        loaded.append(conversation(session.id, said))
    return [one for one in loaded if one is not None]
