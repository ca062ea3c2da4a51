import json
import os
from pathlib import Path

import pytest

from eval.errors import EvalError
from eval.switch.coqa import TokenF1, load_coqa, load_mtrag_un

OFFICIAL = {
    "version": "1.0",
    "data": [
        {
            "id": "s1",
            "source": "mctest",
            "story": "Ada planted two pear trees behind the mill.",
            "questions": [
                {"turn_id": 1, "input_text": "Who planted trees?"},
                {"turn_id": 2, "input_text": "Which?"},
                {"turn_id": 3, "input_text": "Where?"},
            ],
            "answers": [
                {"turn_id": 1, "input_text": "Ada", "span_text": "Ada"},
                {"turn_id": 2, "input_text": "pear trees", "span_text": "two pear trees"},
                {"turn_id": 3, "input_text": "behind the mill", "span_text": "behind the mill"},
            ],
            "additional_answers": {
                "0": [
                    {"turn_id": 1, "input_text": "Ada did"},
                    {"turn_id": 2, "input_text": "Pears."},
                    {"turn_id": 3, "input_text": "the mill"},
                ]
            },
        }
    ],
}


def test_references_are_left_out_in_turn() -> None:
    """With references x and y, an answer x scores 1 when y is left out and F1(y, x) when x is."""
    assert TokenF1(("mill", "old mill"))("mill") == pytest.approx((1 + 2 / 3) / 2)


def test_one_reference_is_not_left_out() -> None:
    """A single reference is compared directly."""
    assert TokenF1(("mill",))("old mill") == pytest.approx(2 / 3)


def test_official_file(tmp_path: Path) -> None:
    """The official JSON gives one episode a story: passage in the instructions, references of all annotators."""
    path = tmp_path / "coqa-dev-v1.0.json"
    path.write_text(json.dumps(OFFICIAL), encoding="utf-8")
    (episode,) = load_coqa(path).episodes
    assert episode.system is not None
    assert episode.system.endswith("behind the mill.")
    assert episode.users == ("Who planted trees?", "Which?", "Where?")
    assert episode.score("Behind the mill") == pytest.approx((2 * 1 * 0.5 / 1.5 + 1) / 2)


def test_cut_dialogue_is_scored_on_its_own_last_question(tmp_path: Path) -> None:
    """A dialogue cut to two questions is scored by the references of the second."""
    path = tmp_path / "coqa.json"
    path.write_text(json.dumps(OFFICIAL), encoding="utf-8")
    benchmark = load_coqa(path, turns=2)
    assert benchmark.episodes[0].score("pear trees") > benchmark.episodes[0].score("mill") == 0
    assert "2" in benchmark.notes


@pytest.mark.skipif("GUARD_DATA_DIR" not in os.environ, reason="needs the benchmark data")
def test_real_files() -> None:
    """The sample and the substitute load, and a reference answers itself."""
    folder = Path(os.environ["GUARD_DATA_DIR"])
    assert len(load_coqa(folder / "coqa_sample.jsonl.gz").episodes) == 5
    substitute = load_mtrag_un(folder / "mtrag_un.jsonl.gz")
    assert "substitute" in substitute.name
    assert len(substitute.episodes) > 400
    assert all(len(episode.users) >= 2 for episode in substitute.episodes)


TURNS = [{"role": role, "text": "x"} for role in ("user", "assistant") * 2]
LOADERS = {"coqa": load_coqa, "mtrag-un": load_mtrag_un}


@pytest.mark.parametrize(
    ("loader", "content", "message"),
    [
        ("coqa", {"id": "a", "turns": TURNS}, ":1: story: Field required"),
        ("coqa", {"id": "a"}, ":1: turns: Field required"),
        ("mtrag-un", {"id": "a", "turns": []}, ":1: turns: "),
        ("mtrag-un", {"id": "a", "turns": TURNS[:3]}, ":1: 2 questions and 1 answers"),
        ("mtrag-un", {"id": "a", "turns": TURNS[:2]}, "no dialogue with two user turns"),
        ("mtrag-un", OFFICIAL, ":1: id: Field required"),
        ("mtrag-un", "text", ":1: "),
        ("mtrag-un", b"", "no dialogue with two user turns"),
        ("coqa", b"\x1f\x8b\x08\x00", "file: "),
        ("coqa", b"\xff", "not UTF-8"),
    ],
)
def test_another_kind_of_file_is_an_error_at_loading(
    tmp_path: Path, loader: str, content: object, message: str
) -> None:
    """A file that is not what it should be is named with its line, before any call is made."""
    path = tmp_path / "file"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(EvalError, match=message):
        LOADERS[loader](path)


def test_an_official_file_without_an_answer_is_an_error(tmp_path: Path) -> None:
    """Every annotator answers every question."""
    path = tmp_path / "coqa.json"
    path.write_text(
        json.dumps(OFFICIAL).replace('"turn_id": 3, "input_text": "the mill"', '"turn_id": 4, "input_text": ""')
    )
    with pytest.raises(EvalError, match="s1: question 3 lacks an answer"):
        load_coqa(path)
