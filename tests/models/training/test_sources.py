from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from models.training.dialogue import Reading
from models.training.errors import TrainingError
from models.training.sources import MEASURED, SHIPPABLE, Source, files, is_held_back, load, place

FREE = {
    "Apache-2.0",
    "MIT",
    "CC-BY-SA-3.0",
    "CC-BY-SA-4.0",
    "CDLA-Sharing-1.0",
    "ODC-BY-1.0 and Apache-2.0",
    "CC-BY-4.0 (user turns)",
}


def source(name: str) -> Source:
    return next(source for source in SHIPPABLE if source.name == name)


def write(folder: Path, name: str, *rows: object) -> Path:
    path = folder / f"{name}.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    return path


def dialogue(identity: str, *texts: str, **more: object) -> dict[str, object]:
    roles = ("user", "assistant")
    turns = [{"role": roles[index % 2], "text": text} for index, text in enumerate(texts)]
    return {"id": identity, "turns": turns, **more}


def test_the_allow_list_is_free() -> None:
    """Every source that reaches weights has a licence that lets them ship, and none of it is only measured on."""
    assert {source.licence for source in SHIPPABLE} <= FREE
    assert not {source.name for source in SHIPPABLE} & {source.name for source in MEASURED}


@pytest.mark.parametrize(
    "name",
    ["topiocqa", "personachat", "tiage", "superdialseg", "coqa", "multi_if", "msc"],
)
def test_unfree_data_is_not_on_the_allow_list(name: str) -> None:
    """Data under a non-commercial or unknown licence is not trained on."""
    assert not [source.name for source in SHIPPABLE if name in source.name]


def test_only_listed_files_are_found(tmp_path: Path) -> None:
    """A data folder may hold anything: what is not on the list is not read."""
    write(tmp_path, "mt_bench", dialogue("mtb-81", "a"))
    write(tmp_path, "multi_if_en", dialogue("x", "a"))
    assert [source.name for source in files(tmp_path, SHIPPABLE)] == ["mt_bench"]


def test_answers_that_are_not_free_are_left_out(tmp_path: Path) -> None:
    """Of Chatbot Arena the user turns alone are trained on; measuring may see the answers."""
    path = write(tmp_path, "real_chats_train_arena", dialogue("a", "one", "answer", "two"))
    arena = source("real_chats_train_arena")
    assert [turn.text for turn in load(path, arena)[0].turns] == ["one", "two"]
    assert len(load(path, arena, answers=True)[0].turns) == 3


def test_readings_and_needs_are_kept(tmp_path: Path) -> None:
    """Labels of the real chats come through as readings."""
    row = dialogue("a", "one", "answer")
    turns = [*row["turns"], {"role": "user", "text": "back", "reader": "B", "needs": [0]}]  # type: ignore[misc]
    (loaded,) = load(write(tmp_path, "ikat", row | {"turns": turns}), source("ikat"))
    assert (loaded.turns[2].reading, loaded.turns[2].needs) == (Reading.BACK, (0,))


def test_a_task_dialogue_ends_before_the_service_changes(tmp_path: Path) -> None:
    """A change of service is no pivot and no refinement for sure."""
    turns = [{"role": "user", "text": text, "shift": shift} for text, shift in (("a", 0), ("b", 0), ("c", 1), ("d", 0))]
    (loaded,) = load(write(tmp_path, "sgd_dev", {"id": "s", "turns": turns}), source("sgd_dev"))
    assert [turn.text for turn in loaded.turns] == ["a", "b"]


def test_the_longest_prefix_stands_for_a_dialogue(tmp_path: Path) -> None:
    """QReCC's file holds a dialogue up to each of its questions: it counts once."""
    name = "qrecc_dev2k_prefixes"
    path = write(tmp_path, name, dialogue("1", "a"), dialogue("2", "a", "b", "c"), dialogue("3", "x"))
    assert [len(loaded.turns) for loaded in load(path, source(name))] == [3, 1]


def test_the_division_depends_on_the_id_alone() -> None:
    """A dialogue is held back in every run, and follow-ups of a task go with the task."""
    ids = [f"d-{number}" for number in range(2000)]
    share = sum(is_held_back(identity, source("byu_chitchat")) for identity in ids) / len(ids)
    assert share == pytest.approx(0.10, abs=0.02)
    assert place("mtb-81") == place("mtb-81")
    for number in range(81, 161):
        task = is_held_back(f"mtb-{number}", source("mt_bench"))
        assert is_held_back(f"mteval-fu-{number}", source("mt_eval")) == task


@pytest.mark.parametrize("row", ["{", "[]", '{"id": 1}'])
def test_a_malformed_line_is_named(tmp_path: Path, row: str) -> None:
    """An error names file and line."""
    path = write(tmp_path, "ikat", dialogue("a", "one"), row)
    with pytest.raises(TrainingError, match=r"ikat\.jsonl\.gz:2"):
        load(path, source("ikat"))
