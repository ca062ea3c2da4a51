"""The runtimes agree on an artifact that holds both kinds of weights.

torch and a vLLM server run the same float16 weights, in float32 where they compute; onnxruntime runs their int8 export.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest
from tokenizers import Tokenizer

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnx")

from models.artifact import Artifact, Manifest
from models.runtimes.onnx import OnnxRuntime
from models.runtimes.runtime import Pair
from models.runtimes.torch import TorchRuntime
from models.training.batches import spec_of
from models.training.export import export
from models.training.network import load_network, load_tokenizer
from tests.models.training import tiny

pytestmark = pytest.mark.torch

BATCHED = 1e-4
"""torch, one pair alone and the same pair in a batch."""

INT8 = 0.05
"""torch and onnxruntime: mean difference, as a part of the spread of the logits."""

SERVED = 0.02
"""torch and a vLLM server."""

START = 600
"""Seconds that a vLLM server may take to start on a busy machine."""

WORDS = ("cat", "boat", "rice", "moon", "tax", "drum", "code", "tree")


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Artifact:
    """Both kinds of weights of one tiny network."""
    folder = tmp_path_factory.mktemp("parity")
    base = tiny.encoder(folder / "base", tokenizer)
    network = load_network(base, 0)
    export(network, load_tokenizer(base), folder / "gate", spec_of(96))
    return Artifact(folder / "gate", Manifest(name="tiny"))


def pairs() -> list[Pair]:
    rng = np.random.default_rng(0)
    return [(" ".join(rng.choice(WORDS, n % 9 + 1)), " ".join(rng.choice(WORDS, n % 4 + 1))) for n in range(40)]


def torch_logits(artifact: Artifact, asked: list[Pair]) -> list[float]:
    runtime = TorchRuntime(artifact, "cpu", threads=1)
    try:
        return runtime.logits(asked)
    finally:
        runtime.close()


def test_onnxruntime_and_torch_agree(artifact: Artifact) -> None:
    """The int8 export answers like the weights it was made of."""
    exact = np.array(torch_logits(artifact, pairs()))
    found = np.array(OnnxRuntime(artifact).logits(pairs()))
    assert np.abs(exact - found).mean() < INT8 * np.ptp(exact)


def test_an_answer_does_not_depend_on_its_batch(artifact: Artifact) -> None:
    """A decision is a function of its own turn: int8 answers are the same alone and in company, to the last bit."""
    runtime = OnnxRuntime(artifact)
    assert runtime.logits(pairs()) == [logit for pair in pairs() for logit in runtime.logits([pair])]
    alone = [logit for pair in pairs()[:6] for logit in torch_logits(artifact, [pair])]
    assert torch_logits(artifact, pairs())[:6] == pytest.approx(alone, abs=BATCHED)


@pytest.mark.optin
def test_a_vllm_server_and_torch_agree(artifact: Artifact) -> None:
    """A vLLM pooling server on the artifact's folder answers like torch."""
    pytest.importorskip("vllm")
    from models.runtimes.vllm import VllmRuntime

    with vllm_server(artifact.folder) as url:
        found = VllmRuntime(artifact, url).logits(pairs())
    assert found == pytest.approx(torch_logits(artifact, pairs()), abs=SERVED)


@contextmanager
def vllm_server(folder: Path) -> Iterator[str]:
    """Start ``vllm serve FOLDER --runner pooling`` and wait until it is healthy."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    options = ["--runner", "pooling", "--dtype", "float32", "--enforce-eager", "--port", str(port)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with subprocess.Popen([sys.executable, "-c", _VLLM, "serve", str(folder), *options], env=environment) as server:
        try:
            _wait(url + "/health", server)
            yield url
        finally:
            server.terminate()


_VLLM = """
import importlib.metadata as metadata
found = metadata.version
try:
    found("vllm")
except metadata.PackageNotFoundError:  # the CPU build goes by another distribution name, and the command asks for it
    metadata.version = lambda name: found("vllm-cpu") + "+cpu" if name == "vllm" else found(name)
from vllm.entrypoints.cli.main import main
main()
"""


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START
    while time.monotonic() < deadline:
        assert server.poll() is None, "the vLLM server ended"
        try:
            with urlopen(url, timeout=5):  # noqa: S310 - a server of this test
                return
        except (URLError, OSError):
            time.sleep(1)
    pytest.fail("the vLLM server did not become healthy")
