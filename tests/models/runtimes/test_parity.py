"""The runtimes agree on an artifact that holds both kinds of weights.

torch and a vLLM server run the same float16 weights, in float32 where they compute; onnxruntime runs their int8 export.

The test against vLLM is opt-in (``pytest -m optin``): it starts a server with the Python that ``VLLM_PYTHON`` names, by
default this one, or asks the one that runs at ``VLLM_URL``.
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

from guard.conversation import Conversation, Message, Utterance
from guard.policy import Policy
from models.artifact import Artifact, Manifest, load_artifact
from models.build import GateSettings, build_guard
from models.runtimes.onnx import OnnxRuntime
from models.runtimes.runtime import Pair
from models.runtimes.torch import TorchRuntime
from models.runtimes.vllm import VllmRuntime
from models.training.batches import spec_of
from models.training.export import export
from models.training.network import load_network, load_tokenizer
from models.window import Window
from tests.models.training import tiny

pytestmark = pytest.mark.torch

BATCHED = 1e-4
"""torch, one pair alone and the same pair in a batch."""

INT8 = 0.05
"""torch and onnxruntime: mean difference, as a part of the spread of the logits."""

SERVED = 0.01
"""torch and a vLLM server, greatest difference of two logits."""

START = 600
"""Seconds that a vLLM server may take to start on a busy machine."""

TURNS = (
    "how do I sort a list in Python?",
    "and how long do they sleep in winter?",
    "thanks",
    "Übersetze das bitte ins Deutsche: naïve café, 3,5 % … “fine”",
    "def f(x):\n    return {k: v[0] for k, v in x.items()}  # why does this fail?",
    "write me a poem about the sea " * 12,
)
SAID = (
    "How long do cats sleep in a day?",
    "Cats sleep twelve to sixteen hours a day, most of it in short naps; kittens and old cats sleep more.",
    "is that different for lions",
    "Lions rest up to twenty hours. They hunt at night, and a large meal lasts them for days. " * 4,
    "Plan three days in Rome for two people who like ruins.",
    "1. Forum and Colosseum\n2. Ostia Antica\n3. Via Appia by bicycle",
    "make day two cheaper",
    "Take the regional train, bring your own lunch, and skip the guided tour.",
)

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


@pytest.fixture(scope="module")
def shipped() -> Artifact:
    """The artifact that users have."""
    return load_artifact("shipped")


@pytest.fixture(scope="module")
def served(shipped: Artifact) -> Iterator[str]:
    """The URL of a vLLM server of it."""
    if "VLLM_URL" in os.environ:
        yield os.environ["VLLM_URL"]
        return
    python = os.environ.get("VLLM_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import vllm"], capture_output=True, check=False).returncode:
        pytest.skip("vLLM is not installed; VLLM_PYTHON names a Python that has it")
    with vllm_server(python, shipped.folder) as url:
        yield url


def windows(artifact: Artifact) -> list[Pair]:
    """What a gate is asked: threads of any length up to a full window, in plain and in odd characters."""
    window = Window(Tokenizer.from_file(str(artifact.file("tokenizer.json"))), artifact.manifest.window)
    threads = [
        tuple(said(number) for number in range(start, start + length)) for length in range(1, 9) for start in (0, 4)
    ]
    return [window.render(thread, turn) for thread in threads for turn in TURNS]


def said(number: int) -> Utterance:
    return Utterance("user" if number % 2 == 0 else "assistant", SAID[number % len(SAID)])


@pytest.mark.optin
def test_a_vllm_server_and_torch_agree(shipped: Artifact, served: str) -> None:
    """A vLLM pooling server on the artifact's folder answers like torch, and both decide like the int8 export."""
    asked = windows(shipped)
    exact = np.array(torch_logits(shipped, asked))
    found = np.array(VllmRuntime(shipped, served).logits(asked))
    int8 = np.array(OnnxRuntime(shipped).logits(asked))
    assert np.abs(found - exact).max() < SERVED
    assert np.abs(found - int8).mean() < INT8 * np.ptp(exact)


@pytest.mark.optin
def test_a_vllm_server_answers_alone_as_in_company(shipped: Artifact, served: str) -> None:
    """A decision does not depend on what is decided beside it."""
    runtime = VllmRuntime(shipped, served)
    asked = windows(shipped)[::6]
    assert runtime.logits(asked) == pytest.approx([runtime.logits([pair])[0] for pair in asked], abs=SERVED)


@pytest.mark.optin
def test_a_pivot_is_decided_through_a_vllm_server(shipped: Artifact, served: str) -> None:
    """The guard on a served gate drops an old topic, and keeps one that goes on."""
    guard = build_guard(GateSettings(runtime="vllm", url=served))
    old = [Message("user", SAID[0]), Message("assistant", SAID[1])]
    pivot, refine = (guard.decide(Conversation.of([*old, Message("user", turn)]), Policy()) for turn in TURNS[:2])
    assert (pivot.selection.kept, refine.selection.kept) == ((2,), (0, 1, 2))


@contextmanager
def vllm_server(python: str, folder: Path) -> Iterator[str]:
    """Start ``vllm serve FOLDER --runner pooling`` and wait until it is healthy."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    options = ["--runner", "pooling", "--dtype", "float32", "--enforce-eager", "--port", str(port)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with subprocess.Popen([python, "-c", _VLLM, "serve", str(folder), *options], env=environment) as server:
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
