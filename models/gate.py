"""The pivot gate: a cross-encoder over (window of the thread, current turn)."""

from __future__ import annotations

from collections.abc import Sequence

from guard.conversation import Utterance
from guard.ports import GateQuery
from models.artifact import Artifact
from models.runtimes.runtime import PairRuntime
from models.scripts import is_foreign
from models.window import Window


class Gate:
    """Implements ``PivotScorer`` and ``RelevanceScorer`` on any runtime.

    Stage 1 of the two-stage controller (arXiv 2605.09268): a compact binary classifier on the current turn and the
    thread's history. Relevance is the same model's p(REFINE) of the turn against one exchange.
    """

    def __init__(self, artifact: Artifact, window: Window, runtime: PairRuntime) -> None:
        self._manifest = artifact.manifest
        self._gate_id = artifact.gate_id
        self._window = window
        self._runtime = runtime

    @property
    def gate_id(self) -> str:
        return self._gate_id

    @property
    def threshold(self) -> float:
        return self._manifest.threshold

    @property
    def resume_threshold(self) -> float:
        return self._manifest.resume_threshold

    def score(self, queries: Sequence[GateQuery]) -> list[float | None]:
        readable = [index for index, query in enumerate(queries) if not self._abstains(query)]
        logits = (
            self._runtime.logits(
                [self._window.render(queries[index].history, queries[index].turn) for index in readable]
            )
            if readable
            else []
        )
        found: list[float | None] = [None] * len(queries)
        for index, logit in zip(readable, logits, strict=True):
            found[index] = self._manifest.probability(logit)
        return found

    def relevance(self, turn: str, texts: Sequence[str]) -> list[float]:
        spoken = [text if text.strip() else "-" for text in texts]
        scores = self.score([GateQuery(turn, (Utterance("user", text),)) for text in spoken])
        return [0.0 if score is None else 1 - score for score in scores]

    def close(self) -> None:
        """Free the runtime."""
        self._runtime.close()

    def _abstains(self, query: GateQuery) -> bool:
        """Whether the turn, or what it follows, is in a script the gate does not know."""
        recent = "\n".join(utterance.text for utterance in query.history[-2:])
        return any(is_foreign(text, self._manifest.scripts) for text in (query.turn, recent))
