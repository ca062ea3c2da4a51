"""From a trained network to files: a Hugging Face folder in float16, and an int8 ONNX file.

The folder is what transformers and vLLM load; the ONNX file runs on onnxruntime alone. Weights are quantized per
channel (per tensor costs four times the error), activations as they come.
"""

from __future__ import annotations

import copy
import tempfile
import warnings
from pathlib import Path

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.shape_inference import quant_pre_process
from tokenizers import Tokenizer
from transformers import BertForSequenceClassification, BertTokenizerFast

from models.artifact import ONNX_FILE, TOKENIZER_FILE, WEIGHTS_FILE
from models.window import ASSISTANT_MARK, USER_MARK, WindowSpec

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OPSET = 17


def export(network: BertForSequenceClassification, tokenizer: Tokenizer, folder: Path, spec: WindowSpec) -> None:
    """Write everything of an artifact but its manifest and card. The network is left as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    network = copy.deepcopy(network).cpu().float().eval()
    with tempfile.TemporaryDirectory() as aside:
        exact = Path(aside) / "model.fp32.onnx"
        export_onnx(network, exact)
        quantize(exact, folder / ONNX_FILE)
    save_folder(network, tokenizer, folder, spec)


def save_folder(network: BertForSequenceClassification, tokenizer: Tokenizer, folder: Path, spec: WindowSpec) -> None:
    """Weights in float16, configuration and tokenizer."""
    copy.deepcopy(network).half().save_pretrained(folder)
    wrapped = BertTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=spec.max_tokens,
        extra_special_tokens=[USER_MARK, ASSISTANT_MARK],
    )
    wrapped.save_pretrained(folder)
    tokenizer.save(str(folder / TOKENIZER_FILE))
    (folder / WEIGHTS_FILE).chmod(0o644)  # safetensors writes for its owner alone


def export_onnx(network: BertForSequenceClassification, path: Path) -> None:
    """float32 ONNX: three arrays of shape (batch, length) in, logits of shape (batch, 1) out, both sizes free."""
    network = copy.deepcopy(network).cpu().float().eval()
    network.set_attn_implementation("eager")
    axes = {name: {0: "batch", 1: "length"} for name in INPUTS} | {"logits": {0: "batch"}}
    with warnings.catch_warnings():
        # The exporter by tracing is the one whose graph quantizes well; torch would rather see its successor used.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Logit(network).eval(),
            tuple(torch.ones(2, 16, dtype=torch.long) for _ in INPUTS),
            str(path),
            input_names=list(INPUTS),
            output_names=["logits"],
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
        )


def quantize(source: Path, target: Path) -> None:
    """int8 weights per channel."""
    prepared = source.with_suffix(".prepared.onnx")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    quantize_dynamic(str(prepared), str(target), per_channel=True, weight_type=QuantType.QInt8)
    prepared.unlink()


class _Logit(torch.nn.Module):  # type: ignore[misc] # torch is not typed here
    """The network as a function of three arrays, for the exporter."""

    def __init__(self, network: BertForSequenceClassification) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        return self.network(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).logits
