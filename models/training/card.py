"""The model card: what the gate is, what it was trained on and under which licences, how it does, where it fails."""

from __future__ import annotations

from collections.abc import Mapping

from models.artifact import Manifest
from models.training.authored import SOURCE as AUTHORED
from models.training.dialogue import Reading
from models.training.samples import TARGETS
from models.training.sources import MEASURED, SHIPPABLE

COLUMNS = (
    "pivots",
    "refinements",
    "f1",
    "recall",
    "over_carry",
    "false_resets",
    "recall_at_1pct",
    "soft_resets",
    "needs_met",
)
COUNTS = frozenset({"pivots", "refinements"})
PARITY = "parity"
"""Row of the manifest's metrics that compares the exported models with the trained one."""

_TEMPLATE = """\
# {name}

A cross-encoder that tells whether a user turn opens a new topic (PIVOT) or goes on with the current thread (REFINE).
It reads a digest of the thread, {window} tokens with the turn, and gives p(PIVOT).

- started from: {base}
- threshold: {threshold:.6g}, calibrated so that {rate:.1%} of held-back natural refinements would be reset
- resume threshold: {resume:.6g}, a turn that scores below it against an earlier thread, and clearly lower than
  against the current one, gets that thread back
- scripts it knows: {scripts}; on others it abstains, and all history is carried
- seed: {seed}

## Files

`model.int8.onnx` runs on onnxruntime; `config.json`, `tokenizer.json` and `model.safetensors` (float16) are a Hugging
Face folder for transformers and vLLM. `manifest.json` binds them by digest.

Against the trained network: {parity}.

## Figures

Of the exported int8 model, behind the guard as it is served: its own earlier decisions make the threads. One threshold
for all rows. f1, recall and over-carry are of pivots, false resets of refinements; needs met: returns that get all they
need.

{figures}

## Data

| source | what | dialogues | licence (to our knowledge) |
|---|---|---|---|
{data}

Measured on where a data folder holds them, never trained on, and nothing is chosen by them: {measured}.

The authored chats were written for this project by a language model, and so were their labels; they are Apache-2.0 and
part of the source distribution (`models/training/chats`). The labels of the real chats are a language model's reading
of each whole chat, not people's.

## Limits

- English first. {limits}
- Soft turns (a new question near the old subject, or one anchored to something earlier) are meant to carry; the target
  they are trained with is {soft}, not 0.
- The first request after mere greetings is a refinement by convention.
- Probabilities are those of the training mixture, of which nearly half are pivots; in real chats about one later user
  turn in ten is one. The thresholds are what was calibrated.
"""


def card(manifest: Manifest) -> str:
    """The card as Markdown."""
    others = "No other script was trained on." if manifest.scripts == ("LATIN",) else "Other scripts: see the figures."
    return _TEMPLATE.format(
        name=manifest.name,
        window=manifest.window.max_tokens,
        base=manifest.base_model,
        threshold=manifest.threshold,
        rate=manifest.false_reset_target,
        resume=manifest.resume_threshold,
        scripts=", ".join(manifest.scripts),
        seed=manifest.seed,
        parity=", ".join(f"{name} {value:.3g}" for name, value in manifest.metrics.get(PARITY, {}).items()) or "-",
        figures=table({name: row for name, row in manifest.metrics.items() if name != PARITY}),
        data="\n".join(_data_row(source.name, source.dialogues, source.licence) for source in manifest.data),
        measured=", ".join(f"{source.about} ({source.licence})" for source in MEASURED),
        limits=others,
        soft=TARGETS[Reading.SOFT],
    )


def table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Rows as Markdown; a figure that a row does not have is a dash."""
    lines = ["| set | " + " | ".join(column.replace("_", " ") for column in COLUMNS) + " |"]
    lines.append("|---" * (len(COLUMNS) + 1) + "|")
    for name, row in rows.items():
        lines.append(f"| {name} | " + " | ".join(_cell(column, row.get(column)) for column in COLUMNS) + " |")
    return "\n".join(lines)


def _cell(column: str, value: float | None) -> str:
    if value is None:
        return "-"
    return str(int(value)) if column in COUNTS else f"{value:.3f}"


def _data_row(name: str, dialogues: int, licence: str) -> str:
    about = {source.name: source.about for source in SHIPPABLE} | {AUTHORED: "chats written for this project"}
    return f"| {name} | {about.get(name, '')} | {dialogues} | {licence} |"
