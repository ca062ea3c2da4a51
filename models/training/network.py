"""The gate's network: a BERT cross-encoder with one logit, started from a sentence encoder, and its tokenizer.

Passing query and passage together through one encoder is the cross-encoder of Nogueira and Cho (arXiv 1901.04085);
learning rates that fall from the head down are those of ULMFiT (arXiv 1801.06146).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import AddedToken, Encoding, Tokenizer
from torch import Tensor, nn
from transformers import BertForSequenceClassification

from models.artifact import TOKENIZER_FILE
from models.runtimes.runtime import Pair
from models.training.errors import TrainingError
from models.window import ASSISTANT_MARK, USER_MARK

PAD_TO = 8
"""Batches are padded to a multiple of this many tokens, so that few shapes occur."""

NO_DECAY_BELOW = 2
"""Parameters with fewer dimensions (biases, norms) are not decayed."""


def load_tokenizer(folder: Path) -> Tokenizer:
    """The encoder's tokenizer with the role marks as tokens of their own, neither truncating nor padding.

    Raises:
        TrainingError: the vocabulary has no place for the marks.
    """
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for mark in (USER_MARK, ASSISTANT_MARK):
        if tokenizer.token_to_id(mark) is None:
            raise TrainingError(f"{folder / TOKENIZER_FILE} has no token {mark} to mark roles with")
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in (USER_MARK, ASSISTANT_MARK)])
    return tokenizer


def load_network(folder: Path, seed: int) -> BertForSequenceClassification:
    """The network with a fresh head, in float32.

    Word embeddings stay as they are: they are half of the weights, and data is small.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = BertForSequenceClassification.from_pretrained(
            folder, num_labels=1, attention_probs_dropout_prob=0.0, dtype=torch.float32
        )
    network.bert.embeddings.word_embeddings.weight.requires_grad_(requires_grad=False)
    return network


class ChannelDropout(nn.Module):  # type: ignore[misc] # torch is not typed here
    """Dropout with one mask for all positions of a text.

    It draws a hundredth of the random numbers of plain dropout, which would cost a third of a training step on a CPU.

    Args:
        rate: share of channels that are dropped in training.
        generator: where the masks come from.
    """

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.rate = rate
        self.generator = generator

    def __deepcopy__(self, memo: dict[int, object]) -> ChannelDropout:
        """A copy draws from the same generator; a generator cannot be copied."""
        return ChannelDropout(self.rate, self.generator)

    def forward(self, hidden: Tensor) -> Tensor:
        """Drop channels of ``hidden`` (batch, ..., channels)."""
        if not self.training or not self.rate:
            return hidden
        shape = (hidden.shape[0], *(1 for _ in hidden.shape[1:-1]), hidden.shape[-1])
        kept = torch.rand(shape, generator=self.generator, device=hidden.device) >= self.rate
        return hidden * kept.to(hidden.dtype).div_(1 - self.rate)


def fast_copy(
    network: BertForSequenceClassification, dropout: float = 0.0, generator: torch.Generator | None = None
) -> BertForSequenceClassification:
    """A copy in the type that the device is fastest in, with plain attention and cheap dropout.

    Without a generator it has no dropout. A CPU with AMX runs a copy in bfloat16 four times faster than autocast.
    """
    fast = copy.deepcopy(network).to(_fast_type(next(network.parameters()).device))
    fast.set_attn_implementation("eager")
    for module in list(fast.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Dropout) and child.p:
                setattr(module, name, ChannelDropout(dropout, generator) if generator else nn.Identity())
    return fast


def _fast_type(device: torch.device) -> torch.dtype:
    """A CPU without AMX emulates bfloat16 at a quarter of the speed of float32."""
    has_bfloat16 = device.type != "cpu" or torch.cpu.get_capabilities().get("amx_bf16", False)
    return torch.bfloat16 if has_bfloat16 else torch.float32


def parameter_groups(network: BertForSequenceClassification, rate: float, decay: float) -> list[dict[str, object]]:
    """Learning rates that fall by ``decay`` a layer from the head down; no weight decay on biases and norms."""
    depth = network.config.num_hidden_layers
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            shrink = 0.0 if parameter.ndim < NO_DECAY_BELOW else 0.01
            groups.setdefault((rate * decay ** _layers_above(name, depth), shrink), []).append(parameter)
    return [
        {"params": parameters, "lr": peak, "peak": peak, "weight_decay": shrink}
        for (peak, shrink), parameters in groups.items()
    ]


def tensors(encodings: Sequence[Encoding], device: torch.device) -> dict[str, Tensor]:
    """Padded inputs of shape (pairs, tokens). Pads the encodings in place."""
    longest = max(len(encoding) for encoding in encodings)
    for encoding in encodings:
        encoding.pad(-(-longest // PAD_TO) * PAD_TO)
    rows = {
        "input_ids": [encoding.ids for encoding in encodings],
        "attention_mask": [encoding.attention_mask for encoding in encodings],
        "token_type_ids": [encoding.type_ids for encoding in encodings],
    }
    return {name: torch.tensor(values, device=device) for name, values in rows.items()}


def logits(network: nn.Module, tokenizer: Tokenizer, pairs: Sequence[Pair], batch: int = 64) -> list[float]:
    """One logit a pair, batched by length, in the order given."""
    order = sorted(range(len(pairs)), key=lambda index: len(pairs[index][0]) + len(pairs[index][1]))
    found = [0.0] * len(pairs)
    device = next(network.parameters()).device
    network.eval()
    with torch.inference_mode():
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            encodings = tokenizer.encode_batch([pairs[index] for index in chosen])
            scores = network(**tensors(encodings, device)).logits[:, 0].float()
            for index, value in zip(chosen, scores.tolist(), strict=True):
                found[index] = value
    return found


def _layers_above(name: str, depth: int) -> int:
    if name.startswith("bert.encoder.layer."):
        return depth - int(name.split(".")[3]) - 1
    return depth if name.startswith("bert.embeddings") else 0
