"""From a trained network to an artifact: export, calibrate, measure what was exported, write manifest and card."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer
from transformers import BertForSequenceClassification

from guard.cache import LRURulingCache
from guard.guard import Guard
from guard.policy import Policy
from models.artifact import MANIFEST, Artifact, DataSource, Manifest, load_artifact, sha256
from models.gate import Gate
from models.runtimes.onnx import OnnxRuntime
from models.runtimes.runtime import Pair, PairRuntime
from models.training.card import PARITY, card
from models.training.development import Development, Rows
from models.training.export import export
from models.training.measure import figures, replay
from models.training.network import logits
from models.training.samples import labelled
from models.training.thresholds import calibrated
from models.window import Window, WindowSpec

log = logging.getLogger(__name__)

NAME = "pivot-gate"
PARITY_PAIRS = 400


@dataclass(frozen=True, slots=True)
class Facts:
    """What the manifest says beside the figures.

    Attributes:
        base: what training started from, with its licence.
        version: of the weights.
        data: what they were trained on.
        seed: of the run.
        spec: the window that is served.
        false_resets: share of natural refinements that the threshold may reset.
    """

    base: str
    version: str
    data: tuple[DataSource, ...]
    seed: int
    spec: WindowSpec
    false_resets: float


def finish(
    network: BertForSequenceClassification, tokenizer: Tokenizer, rows: Development, facts: Facts, folder: Path
) -> Manifest:
    """Make ``folder`` an artifact. The manifest comes last: a folder without one is unfinished."""
    (folder / MANIFEST).unlink(missing_ok=True)
    export(network, tokenizer, folder, facts.spec)
    plain = _plain(facts, folder)
    window = Window(tokenizer, facts.spec, cache_size=100_000)
    runtime = OnnxRuntime(Artifact(folder, plain))
    ready = calibrated(plain, window, runtime, rows.chosen_by)
    metrics = _measured(Gate(Artifact(folder, ready), window, runtime), rows.reported)
    metrics[PARITY] = _parity(network, tokenizer, window, runtime, rows.chosen_by)
    manifest = ready.model_copy(update={"metrics": metrics})
    (folder / "README.md").write_text(card(manifest), "utf-8")
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=1) + "\n", "utf-8")
    load_artifact(str(folder))
    return manifest


def _plain(facts: Facts, folder: Path) -> Manifest:
    """The manifest before anything is calibrated or measured."""
    kinds = {".json", ".onnx", ".safetensors"}
    return Manifest(
        name=NAME,
        version=facts.version,
        base_model=facts.base,
        window=facts.spec,
        false_reset_target=facts.false_resets,
        data=facts.data,
        files={path.name: sha256(path) for path in sorted(folder.iterdir()) if path.suffix in kinds},
        seed=facts.seed,
    )


def _measured(gate: Gate, rows: Rows) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, dialogues in rows.items():
        guard = Guard(gate, gate, LRURulingCache())
        found[name] = figures(outcome for dialogue in dialogues for outcome in replay(guard, dialogue, Policy()))
        log.info("%s: %s", name, {figure: round(value, 3) for figure, value in found[name].items()})
    return found


def _parity(
    network: BertForSequenceClassification, tokenizer: Tokenizer, window: Window, runtime: PairRuntime, rows: Rows
) -> dict[str, float]:
    """How far the int8 model's logits are from the trained network's."""
    samples = (sample for dialogues in rows.values() for dialogue in dialogues for sample in labelled(dialogue))
    pairs: list[Pair] = [window.render(sample.thread, sample.turn) for sample in islice(samples, PARITY_PAIRS)]
    far = [abs(a - b) for a, b in zip(logits(network, tokenizer, pairs), runtime.logits(pairs), strict=True)]
    return {"int8_mean_difference": sum(far) / len(far), "int8_greatest_difference": max(far), "pairs": len(far)}
