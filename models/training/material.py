"""What recipes draw from: the pool of dialogues, sorted once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from random import Random

from guard.conversation import Utterance
from models.scripts import LATIN, UNSPACED, main_script
from models.training.dialogue import GENRES, Dialogue, Genre, Segment, segments
from models.training.samples import Sample, labelled

GENRE_SHARES: tuple[tuple[Genre, int], ...] = (
    ("qa", 2),
    ("chat", 1),
    ("real", 2),
    ("authored", 1),
    ("task", 1),
    ("service", 1),
)
"""How often a recipe that takes any talk takes which."""

REQUESTING: tuple[Genre, ...] = ("real", "authored", "task")
"""Genres whose openings ask for work."""

TALK = tuple(genre for genre, _ in GENRE_SHARES)
"""Genres whose dialogues stand for themselves; alternatives repeat one history many times."""

_PASSAGES_FROM = ("mtrag_un", "ikat", "cast22", "cast19_20_21")
_GREETING = re.compile(
    r"^\W*(hi|hello|hey|hallo|hola|good (morning|evening|day)|thanks?|thank you|test|ok)\b.{0,25}$",
    re.IGNORECASE | re.DOTALL,
)
_MIDWAY = re.compile(
    r"^\W*(that|it|its|it's|yes|yeah|yep|no|nope|lol|haha|oh|ok|and|but|so|same|right|true|really|me too|i agree"
    r"|i know)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{4,}")
_CODE = re.compile(r"```\w*\n(.+?)```", re.DOTALL)
_PIECES = re.compile(r"\n\s*\n|\n|(?<=[.!?:])\s+")


class Material:
    """Segments and labelled turns of a pool of dialogues, by what a recipe asks for.

    Attributes:
        labelled: samples of labelled turns, by genre.
        segments: every topic of every dialogue, by genre.
        long: those with more than one user turn.
        openings: those whose first turn stands for itself.
        foreign: openings in a script other than Latin, by script; scripts with more than three.
        requests: long openings in pieces, by genre.
        code: blocks of code.
        passages: long answers.
    """

    def __init__(self, dialogues: Iterable[Dialogue]) -> None:
        self.labelled: dict[Genre, list[Sample]] = {genre: [] for genre in GENRES}
        self.segments: dict[Genre, list[Segment]] = {genre: [] for genre in GENRES}
        for dialogue in dialogues:
            self.labelled[dialogue.genre] += labelled(dialogue)
            self.segments[dialogue.genre] += segments(dialogue)
        self.long = {genre: [s for s in found if len(s.starts) > 1] for genre, found in self.segments.items()}
        self.openings = {genre: [s for s in found if opens(s)] for genre, found in self.segments.items()}
        self.foreign = _foreign(self.openings["real"] + self.openings["authored"])
        self.requests = _requests(self.segments)
        self.code = [block for s in self.segments["real"] + self.segments["authored"] for block in _code_blocks(s)]
        self.passages = [
            utterance.text
            for segment in self.segments["qa"]
            if segment.source in _PASSAGES_FROM
            for utterance in segment.utterances
            if utterance.role == "assistant" and len(utterance.text) > 250
        ]

    def genre(self, rng: Random) -> Genre:
        """A genre that the pool has."""
        shares = [(genre, share) for genre, share in GENRE_SHARES if self.segments[genre]]
        return rng.choices([genre for genre, _ in shares], [share for _, share in shares])[0]

    def head(self, rng: Random, genre: Genre, most: int) -> tuple[Utterance, ...]:
        """The beginning of a topic, at most ``most`` user turns of it."""
        segment = rng.choice(self.segments[genre])
        return segment.head(rng.randint(1, min(most, len(segment.starts))))

    def piece(self, rng: Random) -> str:
        """Something that somebody said somewhere, a sentence more often than all of it."""
        text = rng.choice(rng.choice(self.segments[self.genre(rng)]).utterances).text
        found = pieces(text)
        return rng.choice(found) if found and rng.random() < 0.6 else text[:400]


def opens(segment: Segment) -> bool:
    """Whether the first turn stands for itself.

    Some chit-chat begins midway, and MT-Eval has later turns as single ones.
    """
    text = segment.opening
    if segment.genre == "chat":
        return not begins_midway(text)
    if segment.source == "mt_eval" and len(segment.starts) == 1:
        return False
    long_enough = len(text.split()) >= 3 or (len(text) >= 6 and main_script(text) in UNSPACED | {"HANGUL"})
    return long_enough and not _GREETING.match(text)


def begins_midway(text: str) -> bool:
    """Whether a first turn of chit-chat reads like an answer to something."""
    return _MIDWAY.match(text) is not None


def words(text: str) -> set[str]:
    """Longer words of a text, in lower case."""
    return set(_WORD.findall(text.lower()))


def shared(some: set[str], known: set[str]) -> float:
    """Share of words that are known; few words never make a large share."""
    return len(some & known) / (len(some) + 2)


def pieces(text: str) -> list[str]:
    """Paragraphs, lines or sentences of a text, each of some length."""
    return [piece for part in _PIECES.split(text[:4000]) if len(piece := part.strip()) > 12]


def _foreign(openings: list[Segment]) -> dict[str, list[Segment]]:
    by_script: dict[str, list[Segment]] = defaultdict(list)
    for segment in openings:
        by_script[main_script(segment.opening)].append(segment)
    return {script: found for script, found in by_script.items() if script not in (LATIN, "") and len(found) > 3}


def _requests(by_genre: dict[Genre, list[Segment]]) -> dict[Genre, list[list[str]]]:
    cut = {genre: [pieces(s.opening) for s in by_genre[genre]] for genre in REQUESTING}
    long = {genre: [found for found in openings if len(found) > 1] for genre, openings in cut.items()}
    return {genre: found for genre, found in long.items() if found}


def _code_blocks(segment: Segment) -> list[str]:
    blocks = (block.strip() for utterance in segment.utterances for block in _CODE.findall(utterance.text))
    return [block for block in blocks if len(block) > 60]
