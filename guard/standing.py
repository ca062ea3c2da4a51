"""Standing instructions: wishes of the user that hold whatever the topic ("from now on answer in French").

A PIVOT must not drop them, and a false alarm carries a stale exchange, so the detector is a list of patterns
(``standing.txt``) kept for precision: a sentence must speak to the assistant and carry a mark of lasting ("from now
on", "in all your answers", "keep that in mind", "call me"). Questions, and sentences that hand over a text ("rewrite
this: ..."), do not count, and quoted words are not looked at: such a text may hold the same words.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

MAX_LENGTH = 600
"""Characters of a message; standing instructions are short, longer messages are tasks or pasted text."""

MAX_SENTENCE = 200
"""Characters of a sentence; keeps the patterns' cost bounded."""

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=[.!?])(?=[A-Z])")
_QUOTED = re.compile(r"""["“«`][^"“”«»`]*["”»`]""")


def is_standing(text: str) -> bool:
    """Whether a user message sets a rule, or states a fact, for the rest of the conversation."""
    if len(text) > MAX_LENGTH:
        return False
    return any(_sentence_is_standing(sentence) for sentence in _SENTENCE_END.split(text))


def _sentence_is_standing(sentence: str) -> bool:
    if len(sentence) > MAX_SENTENCE:
        return False
    sentence = _QUOTED.sub("it", sentence)
    has = {name: pattern.search(sentence) for name, pattern in _patterns().items() if name != "not"}
    lasts = has["alone"] or (has["lasting"] and has["address"])
    return bool(lasts) and not _patterns()["not"].search(sentence)


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """Compile the sections of ``standing.txt`` (its head says how it reads)."""
    sections: dict[str, list[str]] = {}
    section: list[str] = []
    for line in files("guard").joinpath("standing.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            section.append(line.replace(" ", r"\s+"))
    return {name: re.compile("|".join(lines), re.IGNORECASE) for name, lines in sections.items()}
