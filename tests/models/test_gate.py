from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from guard.conversation import Utterance
from guard.ports import GateQuery
from models.artifact import MANIFEST, Artifact, Manifest
from models.gate import Gate
from models.runtimes.runtime import Pair
from models.window import Window, WindowSpec


class LengthRuntime:
    """A runtime whose logit is the length of the turn."""

    def __init__(self) -> None:
        self.seen: list[Pair] = []

    def logits(self, pairs: Sequence[Pair]) -> list[float]:
        self.seen += pairs
        return [float(len(turn)) for _, turn in pairs]

    def close(self) -> None:
        pass


@pytest.fixture
def runtime() -> LengthRuntime:
    return LengthRuntime()


@pytest.fixture
def gate(tokenizer: Tokenizer, runtime: LengthRuntime, tmp_path: Path) -> Gate:
    manifest = Manifest(name="tiny", temperature=2.0, threshold=0.7, resume_threshold=0.2)
    (tmp_path / MANIFEST).write_text(manifest.model_dump_json())
    return Gate(Artifact(tmp_path, manifest), Window(tokenizer, WindowSpec()), runtime)


def query(turn: str, *history: str) -> GateQuery:
    return GateQuery(turn, tuple(Utterance("user", text) for text in history))


def test_probabilities_are_calibrated_logits(gate: Gate) -> None:
    """The logit is divided by the manifest's temperature before the sigmoid."""
    assert gate.score([query("abcd", "x")]) == [pytest.approx(1 / (1 + math.exp(-2)))]


def test_the_gate_abstains_on_scripts_it_does_not_know(gate: Gate, runtime: LengthRuntime) -> None:
    """A turn or a history in an unknown script is not scored, and the others keep their places."""
    scores = gate.score([query("ab", "x"), query("你好吗", "x"), query("ab", "сколько это стоит"), query("abc", "x")])
    assert [score is None for score in scores] == [False, True, True, False]
    assert [turn for _, turn in runtime.seen] == ["ab", "abc"]


def test_a_gate_scores_the_scripts_it_knows(tokenizer: Tokenizer, runtime: LengthRuntime, tmp_path: Path) -> None:
    """The manifest says which scripts a gate was trained on."""
    manifest = Manifest(name="tiny", scripts=("LATIN", "CYRILLIC"))
    gate = Gate(Artifact(tmp_path, manifest), Window(tokenizer, WindowSpec()), runtime)
    assert [score is None for score in gate.score([query("где музей", "x"), query("你好吗", "x")])] == [False, True]


def test_thresholds_come_from_the_manifest(gate: Gate) -> None:
    """The calibrated thresholds are the artifact's, not the code's."""
    assert (gate.threshold, gate.resume_threshold) == (0.7, 0.2)


def test_relevance_is_the_chance_of_a_refinement(gate: Gate) -> None:
    """A text that the turn refines is more relevant than one it leaves; blank texts do not fail."""
    assert gate.relevance("ab", ["x", " "]) == [pytest.approx(1 - 1 / (1 + math.exp(-1)))] * 2
