"""Held-back dialogues and splices of them: what a gate is chosen by, and what it is measured on.

Splices are those of the pivot benchmark (arXiv 2605.09268): V1 joins the heads of two dialogues, V2 puts a cue before
the pivot, V3 sets the pivot's turn number P. Each row is a pure function of (data folder, seed, size).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from models.training.authored import SOURCE
from models.training.dialogue import Dialogue, Genre, Reading, Turn
from models.training.material import begins_midway
from models.training.phrases import PHRASES
from models.training.sources import MEASURED, files, load

DEPTHS = (2, 5, 8, 11)
"""Turn numbers of the pivot in V3."""

REAL = "real chats"
AUTHORED = "authored chats"
NATURAL = (REAL, AUTHORED)
"""Rows of chats as people have them, not splices: thresholds are calibrated on them."""

_MOST_UTTERANCES = 20

Rows = dict[str, list[Dialogue]]


@dataclass(frozen=True, slots=True)
class Development:
    """Rows of dialogues with readings.

    Attributes:
        chosen_by: rows of data that may ship; checkpoints, thresholds and scaling depend on them.
        reported: those and rows of data that are only measured on.
    """

    chosen_by: Rows
    reported: Rows


def build(data: Path, held_back: Sequence[Dialogue], seed: int, size: int) -> Development:
    """Make the rows; a row that there is no data for is left out.

    Args:
        data: the data folder.
        held_back: dialogues that are not trained on.
        seed: of the splices.
        size: sessions a row.
    """
    chosen = _held_back_rows(held_back, seed, size)
    measured = {source.name: load(path, source) for source, path in files(data, MEASURED).items()}
    reported = chosen | _measured_rows(measured, seed, size)
    return Development(_filled(chosen), _filled(reported))


def spliced(first: Dialogue, second: Dialogue, k: int, p: int, cue: str = "", most: int = _MOST_UTTERANCES) -> Dialogue:
    """``k`` user turns of one dialogue, then ``p`` of another, in at most ``most`` utterances."""
    head, tail = first.head(k), second.head(p)
    tail = tail[: max(1, most - len(head))]
    opening = replace(tail[0], text=f"{cue}, {tail[0].text}") if cue else tail[0]
    turns = (*_read(head, None), *_read((opening, *tail[1:]), Reading.PIVOT))
    return Dialogue(f"{first.id}+{second.id}", "splice", first.genre, turns, held_back=True)


def joined(dialogues: Sequence[Dialogue], count: int, rng: Random, cues: Sequence[str] = ()) -> list[Dialogue]:
    """V1, or V2 with cues: k in 2..4, p in 1..6."""
    firsts = [dialogue for dialogue in dialogues if len(dialogue.user_turns) >= 4]
    seconds = [dialogue for dialogue in dialogues if len(dialogue.user_turns) >= 2]
    return [
        spliced(first, second, rng.randint(2, 4), rng.randint(1, 6), rng.choice(cues) if cues else "")
        for first, second in _pairs(firsts, seconds, count, rng)
    ]


def at_turn(dialogues: Sequence[Dialogue], count: int, rng: Random, number: int) -> list[Dialogue]:
    """V3: the pivot is user turn ``number``."""
    firsts = [dialogue for dialogue in dialogues if len(dialogue.user_turns) >= number - 1]
    pairs = _pairs(firsts, dialogues, count, rng)
    return [spliced(first, second, number - 1, 2, most=99) for first, second in pairs]


def chained(tasks: Sequence[Dialogue], count: int, rng: Random, length: int = 4) -> list[Dialogue]:
    """Short tasks one after the other, user turns alone; each task but the first opens with a pivot."""
    if len(tasks) < length:
        return []
    return [_chain(rng.sample(tasks, length), f"tasks-{number}") for number in range(count)]


def _held_back_rows(held_back: Sequence[Dialogue], seed: int, size: int) -> Rows:
    def of(genre: Genre) -> list[Dialogue]:
        return [dialogue for dialogue in held_back if dialogue.genre == genre]

    chat = [d for d in of("chat") if d.source != SOURCE and not begins_midway(d.user_turns[0].text)]
    return {
        "held-back questions V1": joined([d for d in of("qa") if d.source != SOURCE], size, _rng(seed, "questions")),
        "held-back chit-chat V1": joined(chat, size, _rng(seed, "chat")),
        "chained tasks": chained([d for d in of("task") if d.source == "mt_bench"], size // 3, _rng(seed, "tasks")),
        REAL: of("real"),
        AUTHORED: [d for d in held_back if d.source == SOURCE and d.genre != "alternatives"],
        "authored alternatives": of("alternatives"),
    }


def _measured_rows(measured: dict[str, list[Dialogue]], seed: int, size: int) -> Rows:
    rows: Rows = {}
    for name, title in (("topiocqa_train192", "TopiOCQA"), ("personachat_valid_a", "PersonaChat")):
        dialogues = measured.get(name, [])
        rows[f"{title} V1"] = joined(dialogues, size, _rng(seed, name))
        rows[f"{title} V2"] = joined(dialogues, size, _rng(seed, name), PHRASES.paper_cues)
        rows[f"{title}, held-out cues"] = joined(dialogues, size, _rng(seed, name), PHRASES.held_out_cues)
    for number in DEPTHS:
        dialogues = measured.get("topiocqa_train192", [])
        rows[f"TopiOCQA V3, P = {number}"] = at_turn(dialogues, size // 2, _rng(seed, f"depth {number}"), number)
    return rows


def _filled(rows: Rows) -> Rows:
    return {name: dialogues for name, dialogues in rows.items() if dialogues}


def _pairs(
    firsts: Sequence[Dialogue], seconds: Sequence[Dialogue], count: int, rng: Random
) -> list[tuple[Dialogue, Dialogue]]:
    """Two different dialogues each time; none where there are not two."""
    if not firsts or len({*map(id, firsts), *map(id, seconds)}) < 2 or not seconds:
        return []
    pairs: list[tuple[Dialogue, Dialogue]] = []
    while len(pairs) < count:
        first, second = rng.choice(firsts), rng.choice(seconds)
        if first is not second:
            pairs.append((first, second))
    return pairs


def _read(turns: Sequence[Turn], opening: Reading | None) -> list[Turn]:
    """The turns of one topic with their readings; those of the sources do not count."""
    later = [replace(turn, reading=Reading.REFINE if turn.role == "user" else None, needs=()) for turn in turns[1:]]
    return [replace(turns[0], reading=opening, needs=()), *later]


def _chain(tasks: Sequence[Dialogue], identity: str) -> Dialogue:
    turns: list[Turn] = []
    for task in tasks:
        turns += _read(task.user_turns, Reading.PIVOT if turns else None)
    return Dialogue(identity, "chain", "task", tuple(turns), held_back=True)


def _rng(seed: int, name: str) -> Random:
    return Random(f"{seed}:{name}")  # noqa: S311 - not for secrets
