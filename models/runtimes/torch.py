"""torch on CUDA or on the CPU, for servers that decide for many chats at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast

from guard.errors import ScoringError
from models.artifact import TOKENIZER_FILE, WEIGHTS_FILE, Artifact
from models.runtimes.batching import Batcher
from models.runtimes.runtime import Pair

MAX_BATCH = 256


class TorchRuntime:
    """Runs the cross-encoder's own weights; concurrent callers share passes.

    Args:
        artifact: a folder with config.json, tokenizer.json and model.safetensors.
        device: ``auto`` (CUDA when it is there), ``cpu``, ``cuda`` or ``cuda:N``.
        threads: intra-op threads on the CPU; 0 leaves torch's own choice.
    """

    def __init__(self, artifact: Artifact, device: str = "auto", threads: int = 0) -> None:
        artifact.file(WEIGHTS_FILE)
        if threads:
            torch.set_num_threads(threads)
        self._device = torch.device(_resolve(device))
        tokenizer_file = str(artifact.file(TOKENIZER_FILE))
        self._tokenizer = PreTrainedTokenizerFast(tokenizer_file=tokenizer_file, pad_token="[PAD]")  # noqa: S106
        self._max_tokens = artifact.manifest.window.max_tokens
        model = AutoModelForSequenceClassification.from_pretrained(artifact.folder, num_labels=1)
        half = self._device.type == "cuda"
        self._model = model.to(self._device, torch.bfloat16 if half else torch.float32).eval()
        self._batcher = Batcher(self._pass, MAX_BATCH)

    def logits(self, pairs: Sequence[Pair]) -> list[float]:
        return self._batcher.run(pairs)

    def close(self) -> None:
        self._batcher.close()

    def _pass(self, pairs: Sequence[Pair]) -> list[float]:
        batch = self._tokenizer(
            [history for history, _ in pairs],
            [turn for _, turn in pairs],
            padding=True,
            truncation=True,
            max_length=self._max_tokens,
            return_tensors="pt",
            return_token_type_ids=True,
        )
        try:
            with torch.inference_mode():
                logits = self._model(**batch.to(self._device)).logits
        except RuntimeError as error:  # out of memory, lost device
            raise ScoringError("error", f"torch: {type(error).__name__}") from error
        return [float(value) for value in logits[:, -1].float().cpu()]


def _resolve(device: str) -> str:
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"
