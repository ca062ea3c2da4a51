"""Writing systems. The shipped encoder was trained on Latin script; on others its scores are noise."""

from __future__ import annotations

LATIN_END = 0x0250
"""First code point after the Latin blocks (Basic Latin to Latin Extended-B)."""

LATIN_ADDITIONAL = range(0x1E00, 0x1F00)

FOREIGN_SHARE = 0.4
"""Share of letters outside Latin script above which a text counts as foreign; below it stand names and quotations."""

FOREIGN_LETTERS = 2
"""Fewest such letters; a single one is a formula's."""

SAMPLE = 2000
"""Characters looked at; a text's script shows early."""


def is_foreign(text: str) -> bool:
    """Whether a text is written, to a good part, in a script the encoder does not know.

    Letters are weighted alike although one CJK sign says as much as several Latin letters: the share that counts as
    foreign is low enough for that.
    """
    letters = [character for character in text[:SAMPLE] if character.isalpha()]
    foreign = sum(1 for character in letters if not _is_latin(character))
    return foreign >= FOREIGN_LETTERS and foreign > FOREIGN_SHARE * len(letters)


def _is_latin(character: str) -> bool:
    point = ord(character)
    return point < LATIN_END or point in LATIN_ADDITIONAL
