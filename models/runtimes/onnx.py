"""The CPU default: int8 ONNX on onnxruntime, one thread.

One intra-op thread, because with a busy neighbour core two threads are slower than one (they spin). One pair a pass,
because int8 activations are scaled by the largest of a whole pass: in company a pair would get another answer than
alone, and a decision must not depend on what is decided beside it. On one thread a batch would gain little.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort
from tokenizers import Encoding, Tokenizer

from guard.errors import ScoringError
from models.artifact import ONNX_FILE, TOKENIZER_FILE, Artifact
from models.runtimes.runtime import Pair


class OnnxRuntime:
    """Runs an exported cross-encoder on the CPU."""

    def __init__(self, artifact: Artifact, threads: int = 1) -> None:
        self._tokenizer = Tokenizer.from_file(str(artifact.file(TOKENIZER_FILE)))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(artifact.manifest.window.max_tokens)
        self._session = _session(artifact.file(ONNX_FILE), threads)
        self._inputs = {node.name for node in self._session.get_inputs()}

    def logits(self, pairs: Sequence[Pair]) -> list[float]:
        return [self._logit(encoding) for encoding in self._tokenizer.encode_batch(list(pairs))]

    def close(self) -> None:
        pass

    def _logit(self, encoding: Encoding) -> float:
        rows = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        feed = {name: np.array([row], np.int64) for name, row in rows.items() if name in self._inputs}
        try:
            (logits,) = self._session.run(None, feed)
        except Exception as error:  # onnxruntime raises its own unexported types
            raise ScoringError("error", f"onnxruntime: {type(error).__name__}") from error
        return float(np.asarray(logits, np.float64).reshape(-1)[-1])


def _session(path: Path, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
