"""Gate artifacts: a folder of weights with a manifest that says where they come from.

An artifact is a Hugging Face sequence-classification folder with one label (config.json, tokenizer.json,
model.safetensors) that may also hold an int8 ONNX export, plus ``manifest.json``. The shipped one lies in
``models/artifacts/pivot-gate`` and holds both. A folder or hub id without a manifest is taken as a bare
cross-encoder with default windows and an uncalibrated threshold.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from guard.errors import ArtifactError
from models.scripts import LATIN
from models.window import WindowSpec

SHIPPED = "shipped"
MANIFEST = "manifest.json"
ONNX_FILE = "model.int8.onnx"
TOKENIZER_FILE = "tokenizer.json"
WEIGHTS_FILE = "model.safetensors"


class DataSource(BaseModel):
    """One data set that the weights were trained on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    licence: str
    dialogues: int
    sha256: str = ""


class Manifest(BaseModel):
    """What ``manifest.json`` says of an artifact.

    Attributes:
        name: short name, e.g. ``pivot-gate``.
        version: version of the weights.
        base_model: what training started from, with its licence.
        window: how queries are cut.
        threshold: p(PIVOT) from which a turn is a PIVOT.
        resume_threshold: p(PIVOT) below which a turn may refine a closed thread.
        false_reset_target: share of true REFINE turns that the threshold was calibrated to reset.
        temperature: divisor of the logit, from calibration.
        scripts: writing systems the gate was shown to know, by their Unicode names; on others it abstains.
        data: what the weights were trained on.
        metrics: figures on held-out sets, by set and name, measured on the exported model.
        files: sha256 of each file of the folder.
        seed: seed of the training run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str = "0"
    base_model: str = ""
    window: WindowSpec = WindowSpec()
    threshold: float = Field(default=0.5, gt=0, lt=1)
    resume_threshold: float = Field(default=0.5, ge=0, le=1)
    false_reset_target: float = 0.01
    temperature: float = Field(default=1.0, gt=0)
    scripts: tuple[str, ...] = (LATIN,)
    data: tuple[DataSource, ...] = ()
    metrics: dict[str, dict[str, float]] = {}
    files: dict[str, str] = {}
    seed: int = 0

    def probability(self, logit: float) -> float:
        """p(PIVOT) of a raw logit: sigmoid(logit / temperature)."""
        scaled = logit / self.temperature
        if scaled >= 0:
            return 1 / (1 + math.exp(-scaled))
        return math.exp(scaled) / (1 + math.exp(scaled))


@dataclass(frozen=True, slots=True)
class Artifact:
    """A folder on disk whose files were held against its manifest."""

    folder: Path
    manifest: Manifest

    @property
    def gate_id(self) -> str:
        """Name, version and a digest of the manifest, which holds the digests of all weights."""
        digest = hashlib.sha256(self.manifest.model_dump_json().encode()).hexdigest()
        return f"{self.manifest.name}-{self.manifest.version}-{digest[:12]}"

    def file(self, name: str) -> Path:
        """Path of a file of the artifact.

        Raises:
            ArtifactError: the artifact has no such file.
        """
        path = self.folder / name
        if not path.is_file():
            have = ", ".join(sorted(p.name for p in self.folder.iterdir())) or "nothing"
            raise ArtifactError(f"gate artifact {self.folder.name} has no {name} (it has {have})")
        return path


def load_artifact(source: str) -> Artifact:
    """Find an artifact and verify its files.

    Args:
        source: ``shipped``, a folder, or the id of a hub repository (downloaded once to the hub's cache).

    Raises:
        ArtifactError: nothing is there, the manifest is malformed, or a file does not have the manifest's digest.
    """
    folder = _folder(source)
    path = folder / MANIFEST
    if not path.is_file():
        return Artifact(folder, Manifest(name=folder.name, version=_bare_version(folder)))
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ArtifactError(f"{path} is not a gate manifest: {error}") from None
    for name, digest in manifest.files.items():
        if not (folder / name).is_file() or sha256(folder / name) != digest:
            raise ArtifactError(f"{folder / name} is missing or not the file that {MANIFEST} names; fetch it again")
    return Artifact(folder, manifest)


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder(source: str) -> Path:
    if source == SHIPPED:
        return Path(str(files("models"))) / "artifacts" / "pivot-gate"
    if Path(source).is_dir():
        return Path(source)
    if source.count("/") == 1 and not source.startswith((".", "/", "~")):
        return _download(source)
    raise ArtifactError(f"gate artifact {source!r}: no such folder; give 'shipped', a folder, or a hub id owner/name")


def _download(hub_id: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub_id))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ArtifactError(f"gate artifact {hub_id}: could not be downloaded ({type(error).__name__})") from error


def _bare_version(folder: Path) -> str:
    """Stand-in version of a folder without manifest: the digest of its weights."""
    for name in (WEIGHTS_FILE, ONNX_FILE):
        if (folder / name).is_file():
            return sha256(folder / name)[:12]
    raise ArtifactError(f"{folder} holds neither {MANIFEST} nor {WEIGHTS_FILE} nor {ONNX_FILE}: not a gate artifact")
