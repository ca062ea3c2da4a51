"""Calibrating an exported gate: both thresholds, on the probabilities that it gives for held-back turns.

Logits are left as they are: the guard compares threads by differences of log-odds, and they have the scale they had in
training.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from guard.conversation import Utterance
from guard.policy import Policy
from models.artifact import Manifest
from models.runtimes.runtime import PairRuntime
from models.scripts import is_foreign
from models.training.calibration import resume_threshold_at, threshold_at
from models.training.development import NATURAL, Rows
from models.training.dialogue import Dialogue, Reading
from models.training.errors import TrainingError
from models.training.samples import Sample, labelled
from models.window import Window

log = logging.getLogger(__name__)

FALSE_RESUMES = 0.09
"""Share of pivots that may be taken for returns to an earlier thread, before the guard asks for a margin as well.

A tighter rate loses returns. A thread too much costs some tokens, a thread too little costs the answer.
"""

_RESUME_DEPTH = Policy().resume_depth
_EDGE = 1e-9
"""Thresholds lie strictly between 0 and 1."""


def calibrated(manifest: Manifest, window: Window, runtime: PairRuntime, rows: Rows) -> Manifest:
    """The manifest with its thresholds.

    The threshold keeps the manifest's false-reset rate on each natural row by itself: it is the highest of theirs.
    Turns in a script that the gate does not know are left out: it abstains on them, and they cannot be reset.

    Raises:
        TrainingError: there is no refinement to calibrate on.
    """
    natural = {name: _clear(rows[name], manifest) for name in NATURAL if name in rows}
    asked = {name: samples for name, samples in natural.items() if any(s.target == 0.0 for s in samples)}
    if not asked:
        asked = {"all": _clear(_all(rows), manifest)}
    logits = {name: _logits(window, runtime, samples) for name, samples in asked.items()}
    threshold = max(_threshold(manifest, asked[name], logits[name]) for name in asked)
    nearest = list(_nearest_closed(manifest, window, runtime, _all(rows)))
    resume = min(resume_threshold_at(nearest, FALSE_RESUMES), threshold)
    turns = sum(map(len, asked.values()))
    log.info("threshold %.4f on %d turns, resume threshold %.4f on %d", threshold, turns, resume, len(nearest))
    return manifest.model_copy(update={"threshold": threshold, "resume_threshold": resume})


def _threshold(manifest: Manifest, samples: Sequence[Sample], logits: Sequence[float]) -> float:
    refinements = [
        manifest.probability(logit) for sample, logit in zip(samples, logits, strict=True) if sample.target == 0.0
    ]
    if not refinements:
        raise TrainingError("the held-back dialogues hold no refinement to calibrate the threshold on; add dialogues")
    return min(max(threshold_at(refinements, manifest.false_reset_target), _EDGE), 1 - _EDGE)


def _nearest_closed(
    manifest: Manifest, window: Window, runtime: PairRuntime, dialogues: Iterable[Dialogue]
) -> Iterator[float]:
    """p(PIVOT) of every pivot against the closed thread that it comes nearest to."""
    for turn, closed in _pivots_with_closed(dialogues):
        if not is_foreign(turn, manifest.scripts):
            found = runtime.logits([window.render(thread, turn) for thread in closed])
            yield manifest.probability(min(found))


def _pivots_with_closed(dialogues: Iterable[Dialogue]) -> Iterator[tuple[str, list[list[Utterance]]]]:
    """Pivots from a second thread on, each with the closed threads that a guard would ask about.

    Dialogues that come back to a topic are left out: their pivots may do so too.
    """
    for dialogue in dialogues:
        if any(turn.reading is Reading.BACK for turn in dialogue.turns):
            continue
        threads: list[list[Utterance]] = []
        for turn in dialogue.turns:
            if turn.role == "user" and (turn.reading is Reading.PIVOT or not threads):
                if len(threads) > 1:
                    yield turn.text, threads[:-1][-_RESUME_DEPTH:]
                threads.append([])
            if threads:
                threads[-1].append(turn.utterance)


def _logits(window: Window, runtime: PairRuntime, samples: Sequence[Sample]) -> list[float]:
    return runtime.logits([window.render(sample.thread, sample.turn) for sample in samples]) if samples else []


def _clear(dialogues: Iterable[Dialogue], manifest: Manifest) -> list[Sample]:
    """Turns read as pivot or refinement, in a script that the gate knows."""
    samples = (sample for dialogue in dialogues for sample in labelled(dialogue))
    known = (sample for sample in samples if not is_foreign(sample.turn, manifest.scripts))
    return [sample for sample in known if sample.recipe in ("labelled_P", "labelled_R")]


def _all(rows: Rows) -> list[Dialogue]:
    return [dialogue for dialogues in rows.values() for dialogue in dialogues]
