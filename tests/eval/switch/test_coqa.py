import json
import os
from pathlib import Path

import pytest

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
