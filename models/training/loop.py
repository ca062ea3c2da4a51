"""Training: a warm-up and a fall of the rate, an average of the weights, checkpoints to resume from.

Samples are drawn by chunks, each from a generator of its own (seed, step), and so are dropout masks: a resumed run sees
what an unbroken one would, and ends at the same weights. The network that is kept is the one whose exponential moving
average scored best (averaging: Polyak and Juditsky 1992, as used for instance in arXiv 1703.01780).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Encoding, Tokenizer
from torch import nn
from transformers import BertForSequenceClassification

from models.training.batches import Batcher
from models.training.network import fast_copy, parameter_groups, tensors
from models.training.progress import Progress
from models.training.samples import Sample
from models.window import WindowSpec

Draw = Callable[[Random, int], list[Sample]]
Check = Callable[[BertForSequenceClassification], float]
"""Score of a network, higher is better; must not depend on anything else."""

LAST = "last.pt"
BEST = "best.pt"
SMOOTHED = (0.01, 0.97)
"""Targets are kept within these: some labels are wrong, and certainty is not rewarded."""

LEAST_RATE = 0.02
"""Share of the peak that the learning rate does not fall below."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How one round trains.

    Attributes:
        steps: batches in all.
        batch: samples a batch.
        chunk: batches drawn at once; a checkpoint is written after each chunk.
        rate: peak learning rate of the head.
        layer_decay: factor of the rate for each layer further down.
        warm_up: share of the steps in which the rate rises.
        refine_weight: weight of the loss on refinements: above 1 where a false reset costs more than a missed pivot.
        dropout: share of channels dropped.
        average: decay of the moving average of the weights.
        check_every: steps between two checks.
        seed: of samples and dropout.
    """

    steps: int
    batch: int = 48
    chunk: int = 24
    rate: float = 1.2e-4
    layer_decay: float = 0.9
    warm_up: float = 0.03
    refine_weight: float = 1.0
    dropout: float = 0.06
    average: float = 0.997
    check_every: int = 250
    seed: int = 0

    def scale(self, step: int) -> float:
        """Share of the peak rate at a step: a linear rise, then a linear fall."""
        done = step / self.steps
        rising = done / self.warm_up if done < self.warm_up else 1.0
        falling = (1 - done) / (1 - self.warm_up)
        return max(min(rising, falling), LEAST_RATE)


class Trainer:
    """One round of training of one network.

    Args:
        network: trained in place, in float32.
        tokenizer: of the encoder.
        spec: the window that is served.
        plan: how.
        folder: where checkpoints go; a checkpoint that is there is gone on from.
    """

    def __init__(
        self, network: BertForSequenceClassification, tokenizer: Tokenizer, spec: WindowSpec, plan: Plan, folder: Path
    ) -> None:
        self._network = network
        self._plan = plan
        self._folder = folder
        self._device = next(network.parameters()).device
        self._dropout = torch.Generator(self._device)
        self._optimizer = torch.optim.AdamW(parameter_groups(network, plan.rate, plan.layer_decay), fused=True)
        self._fast = fast_copy(network, plan.dropout, self._dropout)
        self._average = copy.deepcopy(network).eval()
        self._batcher = Batcher(tokenizer, spec, plan.batch)
        self._step = 0
        self._best = float("-inf")
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / LAST).exists():
            self._restore(torch.load(folder / LAST, map_location=self._device, weights_only=True))

    def run(self, draw: Draw, check: Check, progress: Progress) -> None:
        """Train to the end of the plan and leave the best weights in the network, which may be those of the start."""
        progress.skip(self._step)
        if self._step == 0:
            self._check(check)
        _copy(self._network, self._fast)
        while self._step < self._plan.steps:
            self._run_chunk(draw, check, progress)
            _save(self._state(), self._folder / LAST)
        best = torch.load(self._folder / BEST, map_location=self._device, weights_only=True)
        self._network.load_state_dict(best)

    def _run_chunk(self, draw: Draw, check: Check, progress: Progress) -> None:
        rng = Random(f"{self._plan.seed}:{self._step}")  # noqa: S311 - not for secrets
        samples = draw(rng, self._plan.batch * self._plan.chunk)
        for batch, encodings in self._batcher.batches(samples, rng):
            loss = self._train(batch, encodings)
            self._step += 1
            progress.step(loss)
            if self._step % self._plan.check_every == 0 or self._step == self._plan.steps:
                self._check(check)
            if self._step == self._plan.steps:
                return

    def _train(self, samples: list[Sample], encodings: list[Encoding]) -> float:
        """One step: gradients from the fast copy, applied to the float32 weights."""
        self._fast.train()
        self._dropout.manual_seed((self._plan.seed << 32) + self._step)
        for group in self._optimizer.param_groups:
            group["lr"] = group["peak"] * self._plan.scale(self._step)
        loss = self._loss(samples, encodings)
        loss.backward()
        for kept, copied in zip(self._network.parameters(), self._fast.parameters(), strict=True):
            kept.grad = None if copied.grad is None else copied.grad.float()
            copied.grad = None
        nn.utils.clip_grad_norm_([p for p in self._network.parameters() if p.grad is not None], 1.0)
        self._optimizer.step()
        _copy(self._network, self._fast)
        self._update_average()
        return float(loss.item())

    def _loss(self, samples: list[Sample], encodings: list[Encoding]) -> torch.Tensor:
        targets = torch.tensor([sample.target for sample in samples], device=self._device).clamp(*SMOOTHED)
        weights = torch.tensor([sample.weight for sample in samples], device=self._device)
        weights = weights * torch.where(targets < 0.5, self._plan.refine_weight, 1.0)
        found = self._fast(**tensors(encodings, self._device)).logits[:, 0].float()
        return nn.functional.binary_cross_entropy_with_logits(found, targets, weight=weights)

    def _update_average(self) -> None:
        """Short at first, so that the start is forgotten."""
        updates = self._step + 1
        decay = min(self._plan.average, (1 + updates) / (10 + updates))
        with torch.no_grad():
            for kept, new in zip(self._average.parameters(), self._network.parameters(), strict=True):
                if new.requires_grad:
                    kept.lerp_(new, 1 - decay)

    def _check(self, check: Check) -> None:
        score = check(self._average)
        if score > self._best:
            self._best = score
            _save(self._average.state_dict(), self._folder / BEST)

    def _state(self) -> dict[str, Any]:
        return {
            "network": self._network.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "average": self._average.state_dict(),
            "step": self._step,
            "best": self._best,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self._network.load_state_dict(state["network"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._average.load_state_dict(state["average"])
        self._step, self._best = state["step"], state["best"]


def _copy(network: nn.Module, fast: nn.Module) -> None:
    with torch.no_grad():
        for kept, copied in zip(network.parameters(), fast.parameters(), strict=True):
            if kept.requires_grad:
                copied.copy_(kept)


def _save(state: dict[str, Any], path: Path) -> None:
    """Written aside and moved: a stop in the middle leaves the file of before."""
    aside = path.with_suffix(".tmp")
    torch.save(state, aside)
    aside.replace(path)
