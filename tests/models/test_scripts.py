from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.scripts import is_foreign, main_script


@pytest.mark.parametrize(
    "text",
    [
        "who directed the avengers",
        "où est la bibliothèque",
        "jak się masz",
        "x = 3.5 * π",
        "",
        "123 !!",
        "naïve Москва trip plan",
        "\U0001d453 \u2208 \u211d and 5 \u00b5m, 3\u00aa edição",
        "\uff28\uff45\uff4c\uff4c\uff4f",
    ],
)
def test_latin_text_is_not_foreign(text: str) -> None:
    """Latin script with accents, figures, formulas, code and the odd foreign word counts as known."""
    assert not is_foreign(text)


@pytest.mark.parametrize(
    "text", ["你好请推荐一家餐馆", "سلام حال شما چطور است", "где музей", "こんにちは", "안녕하세요", "नमस्ते"]
)
def test_other_scripts_are_foreign(text: str) -> None:
    """Text in a script that the encoder was not trained on is recognised."""
    assert is_foreign(text)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("good morning", "LATIN"),
        ("где музей", "CYRILLIC"),
        ("你好", "CJK"),
        ("人々", "CJK"),
        ("東京へ行きたい", "KANA"),
        ("스타일 guide 안녕하세요", "HANGUL"),
        ("42", ""),
    ],
)
def test_the_script_of_most_letters_is_named(text: str, script: str) -> None:
    """Scripts go by their Unicode names; kana makes Han signs Japanese, and figures have no script."""
    assert main_script(text) == script


def test_what_a_gate_knows_is_not_foreign_to_it() -> None:
    """A gate that was trained on more scripts abstains on fewer; Han signs do not stand for Japanese."""
    assert not is_foreign("где музей", ("LATIN", "CYRILLIC"))
    assert is_foreign("東京へ行きたい", ("LATIN", "CJK"))


@given(st.text(max_size=60))
def test_a_text_in_its_own_main_script_is_known(text: str) -> None:
    """Any text of one script alone is known to a gate that knows the script."""
    letters = [character for character in text if main_script(character) == main_script(text)]
    assert not is_foreign("".join(letters), (main_script(text),))
