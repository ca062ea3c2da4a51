"""Choosing a checkpoint: pivots found at the threshold that calibration would set, on rows of data that may ship.

Turns are asked against the threads of the readings, so all of them make one pass; the guard itself is measured once
training is over.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from random import Random

from tokenizers import Tokenizer
from transformers import BertForSequenceClassification

from models.runtimes.runtime import Pair
from models.training.calibration import threshold_at
from models.training.development import AUTHORED, NATURAL, REAL, Rows
from models.training.dialogue import Dialogue
from models.training.network import fast_copy, logits
from models.training.samples import Sample, labelled
from models.window import Window, WindowSpec

log = logging.getLogger(__name__)

FALSE_RESETS = 0.01
MOST_PIVOTS, MOST_REFINEMENTS = 50, 70
"""Turns of a row of splices that are asked; natural rows are asked whole."""

WEIGHTS = {REAL: 1.0, AUTHORED: 0.6}
SPLICES_WEIGHT = 1.4
"""Of the mean recall on splices, beside the recalls on natural rows."""

Score = Callable[[Sequence[Sample]], list[float]]


class Checker:
    """Scores networks on the same turns every time.

    Args:
        rows: what checkpoints are chosen by.
        tokenizer: of the encoder.
        spec: the window that is served.
        seed: of the choice of turns.
    """

    def __init__(self, rows: Rows, tokenizer: Tokenizer, spec: WindowSpec, seed: int) -> None:
        self._tokenizer = tokenizer
        self._window = Window(tokenizer, spec, cache_size=100_000)
        rng = Random(f"{seed}:check")  # noqa: S311 - not for secrets
        self._turns = {name: _asked(name, rows[name], rng) for name in rows}

    def __call__(self, network: BertForSequenceClassification) -> float:
        """Weighted pivot recall at 1 % false resets of natural turns, less the natural turns' cross-entropy."""
        found = {name: self.logits(network, samples) for name, samples in self._turns.items()}
        threshold = self._threshold(found)
        recalls = {name: _recall(self._turns[name], found[name], threshold) for name in found}
        natural = sum(WEIGHTS[name] * recalls[name] for name in NATURAL if name in recalls)
        spliced = [recall for name, recall in recalls.items() if name not in NATURAL]
        score = natural + SPLICES_WEIGHT * (sum(spliced) / len(spliced) if spliced else 0.0) - self._entropy(found)
        shown = ", ".join(f"{name} {recall:.2f}" for name, recall in recalls.items())
        log.info("check: recall at 1 %% false resets: %s; score %.4f", shown, score)
        return score

    def logits(self, network: BertForSequenceClassification, samples: Sequence[Sample]) -> list[float]:
        """A network's answers, by way of its fast copy."""
        pairs: list[Pair] = [self._window.render(sample.thread, sample.turn) for sample in samples]
        return logits(fast_copy(network), self._tokenizer, pairs)

    def threshold(self, network: BertForSequenceClassification) -> float:
        """The logit that calibration would set."""
        return self._threshold({name: self.logits(network, samples) for name, samples in self._turns.items()})

    def _threshold(self, found: dict[str, list[float]]) -> float:
        """On natural refinements; on all where there are no natural rows."""
        names = [name for name in NATURAL if name in found] or list(found)
        refinements = [
            logit
            for name in names
            for logit, sample in zip(found[name], self._turns[name], strict=True)
            if sample.target == 0.0
        ]
        return threshold_at(refinements, FALSE_RESETS, highest=max(refinements) + 1) if refinements else 0.0

    def _entropy(self, found: dict[str, list[float]]) -> float:
        losses = [
            _softplus(-logit if sample.target == 1.0 else logit)
            for name in NATURAL
            for logit, sample in zip(found.get(name, []), self._turns.get(name, []), strict=True)
        ]
        return sum(losses) / max(1, len(losses))


def _asked(name: str, dialogues: Sequence[Dialogue], rng: Random) -> list[Sample]:
    samples = [sample for dialogue in dialogues for sample in labelled(dialogue)]
    pivots = [sample for sample in samples if sample.recipe == "labelled_P"]
    refinements = [sample for sample in samples if sample.recipe == "labelled_R"]
    if name in NATURAL:
        return pivots + refinements
    return rng.sample(pivots, min(MOST_PIVOTS, len(pivots))) + rng.sample(
        refinements, min(MOST_REFINEMENTS, len(refinements))
    )


def _recall(samples: Sequence[Sample], found: Sequence[float], threshold: float) -> float:
    pivots = [logit for sample, logit in zip(samples, found, strict=True) if sample.target == 1.0]
    return sum(logit >= threshold for logit in pivots) / max(1, len(pivots))


def _softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))
