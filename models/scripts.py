"""Writing systems. A gate is trained on some scripts; on others its scores are noise, and it abstains."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection
from functools import lru_cache

LATIN = "LATIN"
HAN = "CJK"
KANA = "KANA"
UNSPACED = frozenset({HAN, KANA, "THAI", "LAO", "KHMER", "MYANMAR"})
"""Scripts that put no space between words."""

FOREIGN_SHARE = 0.4
"""Share of letters in unknown scripts above which a text counts as foreign; below it stand names and quotations."""

FOREIGN_LETTERS = 2
"""Fewest such letters; a single one is a formula's."""

SAMPLE = 2000
"""Characters looked at; a text's script shows early."""

_SYMBOLS = frozenset(
    {"BLACK-LETTER", "DOUBLE-STRUCK", "FEMININE", "MASCULINE", "MATHEMATICAL", "MICRO", "MODIFIER", "OHM", "SCRIPT"}
)
"""First words of the names of letters that belong to no script of their own: formulas, ordinals, units."""


def main_script(text: str) -> str:
    """The script of most letters, by its Unicode name (``LATIN``, ``CJK``, ``CYRILLIC``); "" where there is no letter.

    Any kana makes the Han signs of a text Japanese: the answer is ``KANA``.
    """
    counts = _letters(text)
    return counts.most_common(1)[0][0] if counts else ""


def is_foreign(text: str, known: Collection[str] = (LATIN,)) -> bool:
    """Whether a text is written, to a good part, in scripts other than ``known``.

    Letters are weighted alike although one Han sign says as much as several Latin letters: the share that counts as
    foreign is low enough for that.
    """
    if LATIN in known and text.isascii():
        return False
    counts = _letters(text)
    foreign = sum(count for script, count in counts.items() if script not in known)
    return foreign >= FOREIGN_LETTERS and foreign > FOREIGN_SHARE * counts.total()


def _letters(text: str) -> Counter[str]:
    """Letters of the beginning of a text by script."""
    counts = Counter(_script(character) for character in text[:SAMPLE] if character.isalpha())
    del counts[""]
    if KANA in counts:
        counts[KANA] += counts.pop(HAN, 0)
    return counts


@lru_cache(maxsize=8192)
def _script(character: str) -> str:
    """Script of a letter; "" for letters that are symbols."""
    name = unicodedata.name(character, "UNKNOWN")
    first = name.split()[0]
    if first in _SYMBOLS:
        return ""
    if "HIRAGANA" in name or "KATAKANA" in name:
        return KANA
    if LATIN in name.split():
        return LATIN
    return HAN if first == "IDEOGRAPHIC" else first
