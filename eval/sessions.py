"""Labelled sessions: JSON Lines, plain or gzip, one session a line.

    {"id": "s-17", "turns": [
      {"role": "user", "text": "who directed the avengers"},
      {"role": "assistant", "text": "joss whedon"},
      {"role": "user", "text": "when was he born", "label": "REFINE"},
      {"role": "user", "text": "and what else did he direct", "needs": [0, 1]}]}

A user turn without ``label`` is history and is not scored. ``needs`` holds 0-based positions of utterances that must be
forwarded with the turn. ``answers`` (user turns, optional) holds reference answers. Unknown keys are ignored; whatever
else deviates is an error that names the line.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from eval.errors import FormatError
from guard.controller import Label

ROLES = ("user", "assistant", "system")
GZIP_MAGIC = b"\x1f\x8b"
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class SessionTurn:
    """One utterance.

    Attributes:
        role: user, assistant or system.
        text: what was said.
        label: PIVOT or REFINE on a scored user turn, else None.
        needs: positions of earlier utterances that the turn cannot do without; None where nothing is said about it.
        answers: reference answers to a user turn, best first.
    """

    role: str
    text: str
    label: Label | None = None
    needs: tuple[int, ...] | None = None
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation with labels."""

    id: str
    turns: tuple[SessionTurn, ...]

    @property
    def user_positions(self) -> tuple[int, ...]:
        """Positions of the user turns."""
        return tuple(position for position, turn in enumerate(self.turns) if turn.role == "user")

    @property
    def pivot_turn(self) -> int | None:
        """Number of the first user turn labelled PIVOT, counted from 1: the P of the papers."""
        for number, position in enumerate(self.user_positions, start=1):
            if self.turns[position].label is Label.PIVOT:
                return number
        return None

    def without_answers(self) -> Session:
        """The session without reference answers."""
        return Session(self.id, tuple(replace(turn, answers=()) for turn in self.turns))

    def shortlist(self, position: int) -> tuple[int, ...]:
        """Ground truth of spliced sessions: earlier user and assistant utterances of the same segment.

        A segment begins at a user turn labelled PIVOT, so the shortlist is empty at the pivot.
        """
        starts = [p for p in range(position + 1) if self.turns[p].label is Label.PIVOT]
        begin = starts[-1] if starts else 0
        return tuple(p for p in range(begin, position) if self.turns[p].role != "system")


def read_sessions(path: Path) -> Iterator[Session]:
    """Yield the sessions of a file, gzip or plain (told by content, not by name).

    Raises:
        FormatError: a line is not a session.
    """
    for where, value in read_objects(path):
        try:
            yield parse_session(value)
        except FormatError as error:
            raise FormatError(f"{where}: {error}") from None


def read_objects(path: Path) -> Iterator[tuple[str, object]]:
    """Yield the JSON values of a JSON Lines file, gzip or plain, each with its place as ``file:line``.

    Raises:
        FormatError: the file cannot be read, or a line is not JSON or holds what is no text.
    """
    for number, line in enumerate(_lines(path), start=1):
        if line.strip():
            where = f"{path}:{number}"
            try:
                value = json.loads(line)
                if SURROGATE.search(line):
                    json.dumps(value, ensure_ascii=False).encode()  # fails on a half of a pair, which is no text
            except UnicodeEncodeError as error:
                raise FormatError(f"{where}: a lone surrogate: {error.reason}") from None
            except ValueError as error:
                raise FormatError(f"{where}: {error}") from None
            except RecursionError:
                raise FormatError(f"{where}: nested too deeply") from None
            yield where, value


def write_sessions(path: Path, sessions: Iterable[Session]) -> None:
    """Write a session file; gzip when the name ends in ``.gz``, with the same bytes every time."""
    text = "".join(json.dumps(session_json(session), ensure_ascii=False) + "\n" for session in sessions)
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def session_json(session: Session) -> dict[str, object]:
    """The session as the JSON object of its line."""
    return {"id": session.id, "turns": [_turn_json(turn) for turn in session.turns]}


def parse_session(value: object) -> Session:
    """A session from the JSON object of its line.

    Raises:
        FormatError: it is not one.
    """
    if not isinstance(value, dict):
        raise FormatError("a session is a JSON object")
    name, turns = value.get("id"), value.get("turns")
    if not isinstance(name, str):
        raise FormatError("`id` must be a string")
    if not isinstance(turns, list) or not turns:
        raise FormatError("`turns` must be a list with at least one turn")
    return Session(name, tuple(_turn(turn, position) for position, turn in enumerate(turns)))


def _lines(path: Path) -> Iterator[str]:
    try:
        data = path.read_bytes()
        if data.startswith(GZIP_MAGIC):
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"{path}: {error}") from None
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}:{number}: not UTF-8: {error.reason}") from None


def _turn(value: object, position: int) -> SessionTurn:
    where = f"turn {position}"
    if not isinstance(value, dict):
        raise FormatError(f"{where}: a turn is a JSON object")
    role, text = value.get("role"), value.get("text")
    if role not in ROLES:
        raise FormatError(f"{where}: `role` must be one of {', '.join(ROLES)}")
    if not isinstance(text, str):
        raise FormatError(f"{where}: `text` must be a string")
    marks = [key for key in ("label", "needs", "answers") if value.get(key) is not None]
    if marks and role != "user":
        raise FormatError(f"{where}: `{marks[0]}` belongs to user turns")
    return SessionTurn(
        role, text, _label(value.get("label"), where), _needs(value.get("needs"), position), _answers(value, where)
    )


def _label(value: object, where: str) -> Label | None:
    if value is None:
        return None
    if value not in (Label.PIVOT.value, Label.REFINE.value):
        raise FormatError(f"{where}: `label` must be PIVOT or REFINE")
    return Label(str(value))


def _needs(value: object, position: int) -> tuple[int, ...] | None:
    if value is None:
        return None
    numbers = value if isinstance(value, list) else [None]
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < position for n in numbers):
        raise FormatError(f"turn {position}: `needs` must be a list of positions of earlier turns")
    return tuple(sorted(set(numbers)))


def _answers(value: dict[str, object], where: str) -> tuple[str, ...]:
    answers = value.get("answers") or []
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise FormatError(f"{where}: `answers` must be a list of strings")
    return tuple(answers)


def _turn_json(turn: SessionTurn) -> dict[str, object]:
    value: dict[str, object] = {"role": turn.role, "text": turn.text}
    if turn.label is not None:
        value["label"] = turn.label.value
    if turn.needs is not None:
        value["needs"] = list(turn.needs)
    if turn.answers:
        value["answers"] = list(turn.answers)
    return value
