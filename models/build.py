"""The one place that makes a ready guard from settings; the proxy and the benchmarks both call it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from tokenizers import Tokenizer

from guard.cache import LRURulingCache
from guard.errors import SettingsError
from guard.guard import Guard
from guard.ports import RulingCache
from models.artifact import ONNX_FILE, SHIPPED, TOKENIZER_FILE, Artifact, load_artifact
from models.gate import Gate
from models.runtimes.runtime import PairRuntime
from models.window import Window

RuntimeName = Literal["auto", "onnx", "torch", "vllm"]


@dataclass(frozen=True, slots=True)
class GateSettings:
    """Which gate, and how it runs.

    Attributes:
        artifact: ``shipped``, a folder, or a hub id.
        runtime: ``onnx``, ``torch``, ``vllm``; ``auto`` takes torch when CUDA is there and the artifact has torch
            weights, else onnx.
        device: for torch: ``auto``, ``cpu``, ``cuda``, ``cuda:N``.
        threads: CPU threads of one gate pass.
        url: base URL of the vLLM server.
    """

    artifact: str = SHIPPED
    runtime: RuntimeName = "auto"
    device: str = "auto"
    threads: int = 1
    url: str | None = None


def build_gate(settings: GateSettings) -> Gate:
    """Load an artifact and put a runtime under it.

    Raises:
        ArtifactError: the artifact is missing or damaged.
        SettingsError: the runtime is not installed or lacks a setting.
    """
    artifact = load_artifact(settings.artifact)
    tokenizer = Tokenizer.from_file(str(artifact.file(TOKENIZER_FILE)))
    return Gate(artifact, Window(tokenizer, artifact.manifest.window), _runtime(settings, artifact))


def build_guard(settings: GateSettings, cache: RulingCache | None = None) -> Guard:
    """A guard on the gate that ``settings`` names; raises what ``build_gate`` raises."""
    gate = build_gate(settings)
    return Guard(gate, gate, LRURulingCache() if cache is None else cache)


def _runtime(settings: GateSettings, artifact: Artifact) -> PairRuntime:
    name = _resolved(settings, artifact)
    if name == "vllm":
        from models.runtimes.vllm import VllmRuntime

        return VllmRuntime(artifact, settings.url)
    if name == "torch":
        if find_spec("torch") is None or find_spec("transformers") is None:
            raise SettingsError("gate.runtime: torch is not installed; pip install 'pivot-guard[gpu]', or choose onnx")
        from models.runtimes.torch import TorchRuntime

        return TorchRuntime(artifact, settings.device, settings.threads)
    from models.runtimes.onnx import OnnxRuntime

    return OnnxRuntime(artifact, settings.threads)


def _resolved(settings: GateSettings, artifact: Artifact) -> str:
    if settings.runtime != "auto":
        return settings.runtime
    has_onnx = (artifact.folder / ONNX_FILE).is_file()
    return "torch" if not has_onnx or _wants_cuda(settings.device) else "onnx"


def _wants_cuda(device: str) -> bool:
    if device.startswith("cuda"):
        return True
    if device != "auto" or find_spec("torch") is None:
        return False
    # Importing torch costs seconds and hundreds of megabytes: only where the driver is loaded can CUDA be there.
    from ctypes.util import find_library

    if sys.platform == "linux" and find_library("cuda") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())
