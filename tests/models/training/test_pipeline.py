from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnx")

from models.artifact import ONNX_FILE, WEIGHTS_FILE, Manifest, load_artifact, sha256
from models.build import GateSettings, build_guard
from models.training.errors import TrainingError
from models.training.loop import Plan
from models.training.pipeline import Options, gather, train_gate
from models.training.progress import Progress
from tests.models.training import tiny

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Options:
    return tiny.options(tmp_path_factory.mktemp("training"), tokenizer)


@pytest.fixture(scope="module")
def manifest(options: Options) -> Manifest:
    """One whole run, from data folder to artifact."""
    return train_gate(options)


def test_a_run_makes_an_artifact_that_serves(options: Options, manifest: Manifest) -> None:
    """What comes out loads, verifies, and decides behind the guard."""
    assert load_artifact(str(options.out)).manifest == manifest
    assert set(manifest.files) >= {ONNX_FILE, WEIGHTS_FILE, "config.json", "tokenizer.json"}
    assert 0 <= manifest.resume_threshold <= manifest.threshold < 1
    guard = build_guard(GateSettings(artifact=str(options.out), runtime="onnx"))
    assert guard.scorer.threshold == manifest.threshold


def test_the_manifest_says_what_was_trained_on(options: Options, manifest: Manifest) -> None:
    """Data is listed with licence, count and digest; what is only measured on is not in it."""
    listed = {source.name: source for source in manifest.data}
    assert set(listed) == {"authored", "cast22", "byu_chitchat", "mt_bench"}
    assert listed["cast22"].licence == "MIT"
    assert listed["cast22"].dialogues == 12
    assert listed["cast22"].sha256 == sha256(options.data / "cast22.jsonl.gz")


def test_the_exported_model_is_measured(options: Options, manifest: Manifest) -> None:
    """Manifest and card hold figures of held-back chats, of splices, and of data that is only measured on."""
    assert {"authored chats", "held-back chit-chat V1", "chained tasks", "TopiOCQA V1", "parity"} <= set(
        manifest.metrics
    )
    card = (options.out / "README.md").read_text()
    assert "| authored chats |" in card
    assert "CC-BY-NC-SA-4.0" in card.split("never trained on")[1]


def test_a_stopped_run_goes_on_to_the_same_weights(
    options: Options, manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is stopped in the middle of each round ends at the artifact of an unbroken one, byte for byte."""
    stopped = replace(options, out=tmp_path / "gate")
    for steps in (5, 14):
        with monkeypatch.context() as patch:
            _stop_after(patch, steps)
            with pytest.raises(KeyboardInterrupt):
                train_gate(stopped, resume=True)
    train_gate(stopped, resume=True)
    assert load_artifact(str(stopped.out)).manifest == manifest
    assert (stopped.out / WEIGHTS_FILE).read_bytes() == (options.out / WEIGHTS_FILE).read_bytes()


def test_training_goes_on_from_a_finished_gate(options: Options, manifest: Manifest, tmp_path: Path) -> None:
    """A gate as base gives its data to the new manifest, and its weights stay where nothing better is found."""
    harmful = replace(options.first, rate=10.0, steps=3)
    further = replace(options, base=str(options.out), out=tmp_path / "gate", first=harmful, second=Plan(steps=0))
    (options.data / "cast22.jsonl.gz").rename(tmp_path / "aside")
    try:
        made = train_gate(further)
    finally:
        (tmp_path / "aside").rename(options.data / "cast22.jsonl.gz")
    assert made.base_model.startswith(f"{manifest.name} {manifest.version}, which started from ")
    assert {source.name for source in made.data} == {source.name for source in manifest.data}
    assert (further.out / WEIGHTS_FILE).read_bytes() == (options.out / WEIGHTS_FILE).read_bytes()


def test_an_earlier_run_is_not_overwritten(options: Options, manifest: Manifest) -> None:
    """Without --resume a folder that holds a run is refused, and with it one of other options."""
    with pytest.raises(TrainingError, match="--resume"):
        train_gate(options)
    with pytest.raises(TrainingError, match="another run"):
        train_gate(replace(options, seed=1), resume=True)


def test_what_may_not_ship_is_not_even_listed(options: Options) -> None:
    """A file that is not on the allow list never reaches the pool, whatever its name."""
    shutil.copy(options.data / "cast22.jsonl.gz", options.data / "personachat_valid_a.jsonl.gz")
    shutil.copy(options.data / "cast22.jsonl.gz", options.data / "crawled.jsonl.gz")
    found = gather(options.data, options.chats)
    (options.data / "personachat_valid_a.jsonl.gz").unlink()
    (options.data / "crawled.jsonl.gz").unlink()
    assert {dialogue.source for dialogue in found.pool + found.held_back} == {
        "authored",
        "cast22",
        "byu_chitchat",
        "mt_bench",
    }
    assert not {d.id for d in found.pool} & {d.id for d in found.held_back}


def test_an_empty_folder_is_an_error_that_names_the_files(tmp_path: Path) -> None:
    """Without data there is nothing to train on, and the message says what is looked for."""
    with pytest.raises(TrainingError, match=r"mtrag_un, .*real_chats_train_arena"):
        gather(tmp_path, tmp_path)


def _stop_after(patch: pytest.MonkeyPatch, steps: int) -> None:
    """Interrupt training once ``steps`` steps of both rounds are done, as Ctrl-C does."""
    counted = Progress.step

    def step(self: Progress, loss: float) -> None:
        counted(self, loss)
        if self._done == steps:
            raise KeyboardInterrupt

    patch.setattr(Progress, "step", step)
