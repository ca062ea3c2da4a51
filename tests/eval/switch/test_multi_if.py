import json
import os
from pathlib import Path

import pytest

from eval.errors import FormatError
from eval.switch.multi_if import InstructionShare, StrictSuccess, load_multi_if
from guard.errors import SettingsError

pytest.importorskip("if_verifiable", reason="needs the switch extra")

LOWER: tuple[str, dict[str, object]] = ("change_case:english_lowercase", {})
END: tuple[str, dict[str, object]] = ("startend:end_checker", {"end_phrase": "what are they doing?"})
LONG: tuple[str, dict[str, object]] = ("length_constraints:number_words", {"relation": "at least", "num_words": 8})


def test_strict_success_needs_every_instruction() -> None:
    """An answer that keeps two of three instructions has not succeeded."""
    score = StrictSuccess((LOWER, END, LONG), "")
    assert score("two young boys with horns in a street, what are they doing?") == 1.0
    assert score("two boys, what are they doing?") == 0.0
    assert score.satisfied("two boys, what are they doing?") == [True, True, False]


def test_the_share_of_instructions_counts_each() -> None:
    """Two of three are two thirds; an empty answer has none."""
    score = InstructionShare(StrictSuccess((LOWER, END, LONG), ""))
    assert score("two boys, what are they doing?") == pytest.approx(2 / 3)
    assert score(" ") == 0.0


def test_empty_answers_fail() -> None:
    """Nothing said satisfies nothing, also when there is nothing but thinking."""
    assert StrictSuccess((LOWER,), "")(" ") == 0.0
    assert StrictSuccess((LOWER,), "")("<think>hm") == 0.0


def test_null_arguments_are_left_out() -> None:
    """Files written from tables name every argument of every instruction, most of them null."""
    score = StrictSuccess((("punctuation:no_comma", {"num_words": None, "relation": None}),), "")
    assert score("no comma here") == 1.0
    assert score("a comma, here") == 0.0


def test_missing_data_of_a_checker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two checkers need a data set of NLTK; where it is missing the message says how to get it."""
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    score = StrictSuccess(
        (("change_case:capital_word_frequency", {"capital_frequency": 1, "capital_relation": "at least"}),), ""
    )
    with pytest.raises(SettingsError, match="punkt_tab"):
        score("HELLO there")


def test_unknown_instructions_are_an_error() -> None:
    """An instruction without a checker must not count as satisfied."""
    with pytest.raises(ValueError, match="no checker for odd:one"):
        StrictSuccess((("odd:one", {}),), "")("text")


def test_episodes_use_the_last_turns_instructions(tmp_path: Path) -> None:
    """Instructions add up: the last turn's list is the one that is checked; a single turn is no episode."""
    turns = [
        {"role": "user", "text": "one", "instruction_id_list": [LOWER[0]], "kwargs": [{}]},
        {"role": "user", "text": "two", "instruction_id_list": [LOWER[0], END[0]], "kwargs": [{}, END[1]]},
    ]
    path = tmp_path / "multi_if.jsonl"
    path.write_text(json.dumps({"id": "a", "turns": turns}) + "\n" + json.dumps({"id": "b", "turns": turns[:1]}))
    (episode,) = load_multi_if(path).episodes
    assert episode.users == ("one", "two")
    assert episode.score("hm, what are they doing?") == 1.0
    assert episode.score("hm") == 0.0
    (episode,) = load_multi_if(path, by_instruction=True).episodes
    assert episode.score("this is all in lower case and ends otherwise") == 0.5


@pytest.mark.skipif("GUARD_DATA_DIR" not in os.environ, reason="needs the benchmark data")
def test_every_instruction_of_the_benchmark_has_a_checker() -> None:
    """The English part loads whole, and all its instructions are known to the checkers."""
    from if_verifiable.ifeval.instructions_registry import INSTRUCTION_DICT

    benchmark = load_multi_if(Path(os.environ["GUARD_DATA_DIR"]) / "multi_if_en.jsonl.gz")
    assert len(benchmark.episodes) == 909
    used = {name for e in benchmark.episodes if isinstance(e.score, StrictSuccess) for name, _ in e.score.instructions}
    assert used <= set(INSTRUCTION_DICT)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ({"instruction_id_list": [], "kwargs": []}, "no instruction_id_list"),
        ({}, "no instruction_id_list"),
        ({"instruction_id_list": ["foo:bar"], "kwargs": [{}]}, "no checker for foo:bar"),
        ({"instruction_id_list": ["keywords:existence"], "kwargs": [{"foo": 1}]}, "wrong kwargs of keywords:existence"),
        ({"instruction_id_list": [LOWER[0]], "kwargs": []}, "1 instructions, but kwargs for 0"),
        ({"instruction_id_list": "x", "kwargs": [{}]}, "instruction_id_list"),
    ],
)
def test_an_episode_that_cannot_be_scored_is_an_error_at_loading(
    tmp_path: Path, last: dict[str, object], message: str
) -> None:
    """It is named before any call is paid for."""
    turns = [{"role": "user", "text": "one"}, {"role": "user", "text": "two"} | last]
    (tmp_path / "m.jsonl").write_text(json.dumps({"id": "a", "turns": turns}))
    with pytest.raises(FormatError, match=rf"m\.jsonl:1: .*{message}"):
        load_multi_if(tmp_path / "m.jsonl")
