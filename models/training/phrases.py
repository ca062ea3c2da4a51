"""Phrases that training samples are built with, read from ``phrases.toml``: cues, set-ups, commands, small talk."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Phrases:
    """Lists of phrases; the file says what each is for."""

    paper_cues: tuple[str, ...]
    cues: tuple[str, ...]
    held_out_cues: tuple[str, ...]
    soft_cues: tuple[str, ...]
    setups: tuple[str, ...]
    personas: tuple[str, ...]
    characters: tuple[str, ...]
    greetings: tuple[str, ...]
    greeting_answers: tuple[str, ...]
    languages: tuple[str, ...]
    ready: tuple[str, ...]
    asks_for_text: tuple[str, ...]
    asks_for_code: tuple[str, ...]
    ask_ready: tuple[str, ...]
    commands: tuple[str, ...]
    acks: tuple[str, ...]


def _load() -> Phrases:
    lists = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return Phrases(**{name: tuple(phrases) for name, phrases in lists.items()})


PHRASES = _load()
