from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from eval.datasets.registry import DATASETS, dataset, load_source
from eval.datasets.source import Exchange, Utterance
from eval.errors import DataError, FormatError

TOPIOCQA = [
    {"Conversation_no": 2, "Turn_no": 1, "Question": "x?", "Answer": "y", "Topic": "T"},
    {"Conversation_no": 1, "Turn_no": 2, "Question": "when was   he\nborn", "Answer": "1964", "Additional_answers": []},
    {
        "Conversation_no": 1,
        "Turn_no": 1,
        "Question": "who directed it",
        "Answer": "Joss Whedon",
        "Additional_answers": [{"Answer": "whedon", "Topic": "T"}],
    },
]


@pytest.mark.parametrize("lines", [False, True])
def test_topiocqa_official_files(tmp_path: Path, lines: bool) -> None:
    """Turns are grouped and ordered by their numbers, white space is normalised, every reference answer is kept."""
    path = tmp_path / ("valid.jsonl" if lines else "dev.json")
    path.write_text("\n".join(map(json.dumps, TOPIOCQA)) if lines else json.dumps(TOPIOCQA, indent=1))
    source = load_source("topiocqa", path)
    first, second = source.conversations
    assert (first.id, second.id) == ("1", "2")
    assert first.exchanges == (
        Exchange("who directed it", (Utterance("assistant", "Joss Whedon", ("Joss Whedon", "whedon")),)),
        Exchange("when was he born", (Utterance("assistant", "1964", ("1964",)),)),
    )
    assert (source.dataset.title, source.dataset.licence) == ("TopiOCQA", "CC BY-NC-SA 4.0")


def test_a_topiocqa_turn_without_an_answer_is_an_error(tmp_path: Path) -> None:
    """A file that lacks a field is refused with the field's name."""
    (tmp_path / "dev.json").write_text(json.dumps([{"Conversation_no": 1, "Turn_no": 1, "Question": "x"}]))
    with pytest.raises(FormatError, match="Answer"):
        load_source("topiocqa", tmp_path / "dev.json")


def test_the_splits_of_a_folder_are_pooled(tmp_path: Path) -> None:
    """All official files of a folder load, conversations told apart by file; the digest is of what was read."""
    for split in ("train", "valid"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, TOPIOCQA)))
    source = load_source("topiocqa", tmp_path)
    assert [one.id for one in source.conversations] == ["train:1", "train:2", "valid:1", "valid:2"]
    (tmp_path / "train.jsonl.sha256").write_text("0  train.jsonl\n")
    assert load_source("topiocqa", tmp_path).digest == source.digest
    (tmp_path / "valid.jsonl").unlink()
    assert load_source("topiocqa", tmp_path).digest != source.digest


def _msc_folder(root: Path) -> Path:
    first = [{"text": "hi"}, {"text": "hello"}, {"text": "nice day"}]
    second = [
        {"id": "Speaker 2", "text": "back again"},
        {"id": "Speaker 1", "text": "welcome"},
        {"id": "Speaker 2", "text": "so"},
    ]
    line = {
        "dialog": second,
        "previous_dialogs": [{"dialog": first, "time_num": 3, "time_unit": "hours"}],
        "metadata": {"initial_data_id": "valid_0", "session_id": 1},
    }
    folder = root / "msc_dialogue" / "session_2"
    folder.mkdir(parents=True)
    (folder / "valid.txt").write_text(json.dumps(line) + "\n")
    return root


def test_msc_session_files(tmp_path: Path) -> None:
    """Each session is a conversation; session 1 comes from session 2's past; speaker 1 plays the user."""
    loaded = load_source("msc", _msc_folder(tmp_path)).conversations
    assert [one.id for one in loaded] == ["valid:valid_0:session_1", "valid:valid_0:session_2"]
    assert [exchange.user for exchange in loaded[0].exchanges] == ["hi", "nice day"]
    assert loaded[1].exchanges == (Exchange("welcome", (Utterance("assistant", "so"),)),)


def test_msc_is_known_as_such(tmp_path: Path) -> None:
    """A folder of session files loads under its name, and one without any is refused."""
    assert load_source("msc", _msc_folder(tmp_path)).dataset.title == "MSC (Multi-Session Chat)"
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="session_"):
        load_source("msc", tmp_path / "empty")


def test_coqa_official_files(tmp_path: Path) -> None:
    """The passage stands before the first question, and all reference answers are kept."""
    passage = {
        "id": "3z",
        "story": "Cotton was white.",
        "questions": [{"turn_id": 1, "input_text": "What color?"}, {"turn_id": 2, "input_text": "Sure?"}],
        "answers": [{"turn_id": 1, "input_text": "white"}, {"turn_id": 2, "input_text": "yes"}],
        "additional_answers": {
            "0": [{"turn_id": 1, "input_text": "it was white"}, {"turn_id": 2, "input_text": "yes"}]
        },
    }
    (tmp_path / "dev.json").write_text(json.dumps({"version": "1.0", "data": [passage]}))
    (loaded,) = load_source("coqa", tmp_path / "dev.json").conversations
    assert loaded.exchanges[0].user == "Cotton was white. What color?"
    assert loaded.exchanges[0].answers[0].answers == ("white", "it was white")
    assert loaded.exchanges[1].user == "Sure?"


def _normalised(path: Path, name: str) -> Path:
    turns = [
        {"role": "assistant", "text": "welcome"},
        {"role": "user", "text": "hi", "shift": None},
        {"role": "assistant", "text": "hey"},
    ]
    path.write_bytes(gzip.compress(json.dumps({"id": "n-1", "dataset": name, "split": "x", "turns": turns}).encode()))
    return path


def test_normalised_files(tmp_path: Path) -> None:
    """A normalised file loads; what precedes the first user turn is left out."""
    source = load_source("mt_eval", _normalised(tmp_path / "a.jsonl.gz", "mt_eval_followup"))
    (loaded,) = source.conversations
    assert loaded.exchanges == (Exchange("hi", (Utterance("assistant", "hey", ("hey",)),)),)
    assert source.facts()["licence"] == "MIT"


@pytest.mark.parametrize("name", ["msc", "topiocqa"])
def test_a_data_set_under_another_name_is_refused(tmp_path: Path, name: str) -> None:
    """PersonaChat cannot be loaded as MSC, nor as anything else."""
    with pytest.raises(FormatError, match=f"this is personachat, not {name}"):
        load_source(name, _normalised(tmp_path / "a.jsonl.gz", "personachat"))


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    """A path with nothing at it is refused with a way out."""
    with pytest.raises(DataError, match="data list"):
        load_source("topiocqa", tmp_path / "none.json")


def test_a_source_is_known_by_its_content(tmp_path: Path) -> None:
    """The digest is the content's: a copy elsewhere has the same, a changed file another."""
    digests = []
    for folder, name in (("a", "mt_eval"), ("b", "mt_eval"), ("c", "mt_eval_x")):
        (tmp_path / folder).mkdir()
        digests.append(load_source("mt_eval", _normalised(tmp_path / folder / "x.jsonl.gz", name)).digest)
    assert digests[0] == digests[1] != digests[2]


def test_licences_are_stated() -> None:
    """Every data set says what its texts may be used for, and names are unique."""
    assert all(one.licence for one in DATASETS)
    assert len({one.name for one in DATASETS}) == len(DATASETS)
    assert dataset("mine").licence == "not stated"
