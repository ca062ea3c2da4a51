from __future__ import annotations

from pathlib import Path

import pytest

from guard.errors import ArtifactError
from models.artifact import MANIFEST, ONNX_FILE, Manifest, load_artifact, sha256


def artifact(folder: Path, **changes: object) -> Path:
    """A folder with one weights file and a manifest that names it."""
    (folder / ONNX_FILE).write_bytes(b"weights")
    manifest = Manifest(name="tiny", files={ONNX_FILE: sha256(folder / ONNX_FILE)}).model_copy(update=changes)
    (folder / MANIFEST).write_text(manifest.model_dump_json())
    return folder


def test_an_artifact_is_loaded_with_its_identity(tmp_path: Path) -> None:
    """A folder whose files match its manifest loads, and its id holds name, version and a digest."""
    loaded = load_artifact(str(artifact(tmp_path)))
    assert loaded.gate_id.startswith("tiny-0-")
    assert loaded.file(ONNX_FILE).read_bytes() == b"weights"


def test_two_thresholds_are_two_gates(tmp_path: Path) -> None:
    """Whatever changes decisions changes the id, so that remembered scores never mix."""
    first = load_artifact(str(artifact(tmp_path))).gate_id
    assert load_artifact(str(artifact(tmp_path, threshold=0.7))).gate_id != first


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    """A file that is not the one the manifest names is an error that names the file."""
    (artifact(tmp_path) / ONNX_FILE).write_bytes(b"other")
    with pytest.raises(ArtifactError, match=ONNX_FILE):
        load_artifact(str(tmp_path))


def test_a_malformed_manifest_is_refused(tmp_path: Path) -> None:
    """An unknown key in a manifest is an error, not a guess."""
    (tmp_path / MANIFEST).write_text('{"name": "x", "treshold": 0.5}')
    with pytest.raises(ArtifactError, match="not a gate manifest"):
        load_artifact(str(tmp_path))


def test_a_bare_folder_gets_defaults(tmp_path: Path) -> None:
    """A plain model folder without manifest is a gate with default windows, known by its weights' digest."""
    (tmp_path / ONNX_FILE).write_bytes(b"weights")
    assert load_artifact(str(tmp_path)).manifest.threshold == 0.5


@pytest.mark.parametrize("source", ["nowhere", "./missing/folder", "/no/such/path"])
def test_an_unknown_source_says_what_is_allowed(source: str) -> None:
    """A source that is no folder and no hub id is refused with the choices."""
    with pytest.raises(ArtifactError, match="'shipped', a folder, or a hub id"):
        load_artifact(source)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    """An empty folder is no gate."""
    with pytest.raises(ArtifactError, match="not a gate artifact"):
        load_artifact(str(tmp_path))
