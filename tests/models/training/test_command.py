from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnx")

from models.training.base import find_base
from models.training.cli import main
from models.training.errors import TrainingError
from tests.models.training import tiny

pytestmark = pytest.mark.torch


def test_one_command_makes_an_artifact(
    tmp_path: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    """From data folder to artifact, and a second time only with --resume."""
    command = ["--data", str(tiny.data(tmp_path / "data")), "--chats", str(tiny.chats(tmp_path / "chats"))]
    command += ["--base", str(tiny.encoder(tmp_path / "base", tokenizer)), "--out", str(tmp_path / "gate")]
    command += ["--steps", "2", "--sessions", "3", "--threads", "1", "--version", "7"]
    assert main(command) == 0
    assert "pivot-gate 7, threshold" in capsys.readouterr().out
    assert (tmp_path / "gate" / "manifest.json").is_file()
    assert main(command) == 2
    assert "--resume" in capsys.readouterr().err


def test_a_folder_without_data_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says what is missing instead of failing deep inside."""
    (tmp_path / "chats").mkdir()
    assert main(["--data", str(tmp_path), "--chats", str(tmp_path / "chats"), "--out", str(tmp_path / "gate")]) == 2
    assert "none of the files that may be trained on" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["no-such-package", "./nowhere", "a/b/c"])
def test_an_unknown_base_says_what_is_allowed(source: str) -> None:
    """A base is a folder, an installed package or a hub id."""
    with pytest.raises(TrainingError, match="no such folder, installed package or hub id"):
        find_base(source)


def test_a_base_of_another_kind_is_refused(tmp_path: Path) -> None:
    """Training starts from BERT encoders."""
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(TrainingError, match="gpt2"):
        find_base(str(tmp_path))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--rate", value) for value in ("0", "-1", "nan", "inf")),
        *(("--false-resets", value) for value in ("2", "-1", "nan")),
        ("--mined-steps", "-5"),
        ("--threads", "-2"),
        ("--steps", "0"),
    ],
)
def test_a_number_out_of_bounds_is_refused(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Such a number is an error of use, not a default or a training that cannot succeed."""
    with pytest.raises(SystemExit):
        main(["--data", "d", "--out", "o", f"{option}={value}"])
    assert f"argument {option}" in capsys.readouterr().err


@pytest.mark.parametrize("config", [b"", b"[]", b"{}", b"{", b"\xff"])
def test_a_broken_config_of_the_base_is_named(tmp_path: Path, config: bytes) -> None:
    """A base whose config cannot be read is an error that names the file."""
    (tmp_path / "config.json").write_bytes(config)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(TrainingError, match=r"config\.json"):
        find_base(str(tmp_path))
