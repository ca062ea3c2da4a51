from __future__ import annotations

import pytest

from models.scripts import is_foreign


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
    ],
)
def test_latin_text_is_not_foreign(text: str) -> None:
    """Latin script with accents, figures, code and the odd foreign word counts as known."""
    assert not is_foreign(text)


@pytest.mark.parametrize(
    "text", ["你好请推荐一家餐馆", "سلام حال شما چطور است", "где музей", "こんにちは", "안녕하세요", "नमस्ते"]
)
def test_other_scripts_are_foreign(text: str) -> None:
    """Text in a script that the encoder was not trained on is recognised."""
    assert is_foreign(text)
