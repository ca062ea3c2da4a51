"""The CPU default: int8 ONNX on onnxruntime, one thread.

One intra-op thread, because with a busy neighbour core two threads are slower than one (they spin).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

from guard.errors import ScoringError
from models.artifact import ONNX_FILE, TOKENIZER_FILE, Artifact
from models.runtimes.runtime import Pair

MAX_BATCH = 32
"""Pairs a pass; more only costs memory."""


class OnnxRuntime:
    """Runs an exported cross-encoder on the CPU."""

    def __init__(self, artifact: Artifact, threads: int = 1) -> None:
        self._tokenizer = Tokenizer.from_file(str(artifact.file(TOKENIZER_FILE)))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(artifact.manifest.window.max_tokens)
        self._session = _session(artifact.file(ONNX_FILE), threads)
        self._inputs = {node.name for node in self._session.get_inputs()}

    def logits(self, pairs: Sequence[Pair]) -> list[float]:
        found: list[float] = []
        for start in range(0, len(pairs), MAX_BATCH):
            found += self._batch(pairs[start : start + MAX_BATCH])
        return found

    def close(self) -> None:
        pass

    def _batch(self, pairs: Sequence[Pair]) -> list[float]:
        encodings = self._tokenizer.encode_batch(list(pairs))
        width = max(len(encoding.ids) for encoding in encodings)
        arrays = {
            "input_ids": np.zeros((len(pairs), width), np.int64),
            "attention_mask": np.zeros((len(pairs), width), np.int64),
            "token_type_ids": np.zeros((len(pairs), width), np.int64),
        }
        for row, encoding in enumerate(encodings):
            used = len(encoding.ids)
            arrays["input_ids"][row, :used] = encoding.ids
            arrays["attention_mask"][row, :used] = 1
            arrays["token_type_ids"][row, :used] = encoding.type_ids
        feed = {name: array for name, array in arrays.items() if name in self._inputs}
        try:
            (logits,) = self._session.run(None, feed)
        except Exception as error:  # onnxruntime raises its own unexported types
            raise ScoringError("error", f"onnxruntime: {type(error).__name__}") from error
        return [float(value) for value in np.asarray(logits, np.float64).reshape(len(pairs), -1)[:, -1]]


def _session(path: Path, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
