"""The project's own chats: plain text files with one chat after another, readings as tags.

    === returns
    U: how do I re-grout shower tiles
    A: Rake out the old grout, vacuum, press the new in, wipe diagonally.
    R: epoxy or cement
    P: who won the 1998 world cup
    B[0,1]: back to the tiles: how long must it cure

``===`` starts a chat and names its kind; ``held-back`` behind the kind keeps the chat for measuring. ``U`` is the first
user turn, ``A`` an answer, ``R P S B`` are later user turns (see ``Reading``); the brackets of ``B`` hold 0-based
positions of the utterances that it needs. A text may run over several lines, up to the next tag at a line's start.

A chat of kind ``alternatives`` is one history (``U`` and ``A``) and many turns that could come next, each by itself:

    === alternatives
    U: write hello world in rust
    A: fn main() { println!("Hello, world!"); }
    R: now zig
    R: error: linker `cc` not found
    P: what is a good wine for lamb
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from models.training.dialogue import Dialogue, Genre, Reading, Turn
from models.training.errors import TrainingError

CHATS = Path(__file__).parent / "chats"
SOURCE = "authored"
HELD_BACK = "held-back"
ALTERNATIVES = "alternatives"
GENRES: dict[str, Genre] = {
    "persona-chat": "chat",
    "long-chitchat": "chat",
    "knowledge-chat": "chat",
    "qa-drift": "qa",
    ALTERNATIVES: "alternatives",
}
"""Genres of the kinds that are like other sources; the other kinds are chats with an assistant as people have them."""

_HEADER = re.compile(rf"=== ([a-z0-9-]+)( {HELD_BACK})?$")
_TAG = re.compile(r"(U|A|R|P|S|B\[[0-9, ]*\]): ?(.*)$", re.DOTALL)


@dataclass(slots=True)
class _Utterance:
    """A tagged text, while its lines are gathered."""

    line: int
    tag: str
    lines: list[str]


@dataclass(slots=True)
class _Chat:
    """A chat, while its utterances are gathered."""

    line: int
    kind: str
    held_back: bool
    utterances: list[_Utterance] = field(default_factory=list)


def load_chats(folder: Path) -> list[Dialogue]:
    """All chats of the text files of a folder.

    Raises:
        TrainingError: a file is malformed; the message names file and line.
    """
    return [chat for path in sorted(folder.glob("*.txt")) for chat in parse(path.read_text("utf-8"), path.stem)]


def chat_of(dialogue: Dialogue) -> str:
    """Id of the chat that a dialogue was made of; alternatives share theirs."""
    alone = dialogue.genre != GENRES[ALTERNATIVES]
    return dialogue.id if alone else dialogue.id.rpartition("-")[0]


def parse(text: str, name: str) -> list[Dialogue]:
    """The chats of one file; ``name`` and a number make their ids.

    Raises:
        TrainingError: the text is malformed.
    """
    try:
        numbered = enumerate(_chats(text))
        return [dialogue for number, chat in numbered for dialogue in _dialogues(chat, f"{name}-{number}")]
    except _Malformed as error:
        raise TrainingError(f"{name}.txt:{error.line}: {error}") from None


class _Malformed(Exception):  # noqa: N818 - becomes a TrainingError
    """What is wrong, and in which line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def _chats(text: str) -> Iterator[_Chat]:
    chat: _Chat | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("==="):
            if chat is not None:
                yield chat
            chat = _opened(line, number)
        elif chat is None or not (chat.utterances or _TAG.match(line)):
            if line.strip():
                raise _Malformed(number, "text outside a turn")
        else:
            _add(chat, line, number)
    if chat is not None:
        yield chat


def _opened(line: str, number: int) -> _Chat:
    header = _HEADER.match(line.rstrip())
    if header is None:
        raise _Malformed(number, f"a chat begins with `=== kind` or `=== kind {HELD_BACK}`")
    return _Chat(number, header[1], held_back=header[2] is not None)


def _add(chat: _Chat, line: str, number: int) -> None:
    tagged = _TAG.match(line)
    if tagged:
        chat.utterances.append(_Utterance(number, tagged[1], [tagged[2]]))
    else:
        chat.utterances[-1].lines.append(line)


def _dialogues(chat: _Chat, identity: str) -> list[Dialogue]:
    return _alternatives(chat, identity) if chat.kind == ALTERNATIVES else [_dialogue(chat, identity)]


def _alternatives(chat: _Chat, identity: str) -> list[Dialogue]:
    """One dialogue for each turn that could come next."""
    length = next((n for n, utterance in enumerate(chat.utterances) if utterance.tag not in "UA"), len(chat.utterances))
    history, nexts = chat.utterances[:length], chat.utterances[length:]
    if not history or history[0].tag != "U" or not nexts:
        raise _Malformed(chat.line, "alternatives are a history that U opens, and at least one next turn")
    for utterance in nexts:
        if utterance.tag not in "RPS":
            raise _Malformed(utterance.line, "an alternative is R, P or S")
    told = tuple(_turn(utterance, position) for position, utterance in enumerate(history))
    return [
        Dialogue(
            f"{identity}-{number}", SOURCE, GENRES[ALTERNATIVES], (*told, _turn(utterance, length)), chat.held_back
        )
        for number, utterance in enumerate(nexts)
    ]


def _dialogue(chat: _Chat, identity: str) -> Dialogue:
    users = [utterance for utterance in chat.utterances if utterance.tag != "A"]
    if len(users) < 2:
        raise _Malformed(chat.line, "fewer than two user turns")
    for number, utterance in enumerate(users):
        if (utterance.tag == "U") != (number == 0):
            raise _Malformed(utterance.line, "the first user turn, and only it, is U")
    turns = tuple(_turn(utterance, position) for position, utterance in enumerate(chat.utterances))
    return Dialogue(identity, SOURCE, GENRES.get(chat.kind, "authored"), turns, chat.held_back)


def _turn(utterance: _Utterance, position: int) -> Turn:
    text = "\n".join(utterance.lines).strip()
    if not text:
        raise _Malformed(utterance.line, "empty turn")
    if utterance.tag == "A":
        return Turn("assistant", text)
    if utterance.tag == "U":
        return Turn("user", text)
    needs = tuple(int(number) for number in re.findall(r"\d+", utterance.tag))
    if utterance.tag.startswith("B") and (not needs or max(needs) >= position):
        raise _Malformed(utterance.line, "B needs positions of earlier utterances, e.g. B[0,1]")
    return Turn("user", text, Reading(utterance.tag[0]), needs)
