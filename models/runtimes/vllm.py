"""A vLLM pooling server as gate: ``vllm serve FOLDER --runner pooling`` and its score endpoint.

The server batches by itself. Pairs go to ``/score`` rather than to ``/classify``: a pair pasted into one text would
lose the token types (vLLM documentation, "Pooling models", score API).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from http.client import HTTPException
from urllib.error import URLError
from urllib.request import Request, urlopen

from guard.errors import ScoringError, SettingsError
from models.artifact import Artifact
from models.runtimes.runtime import Pair

TIMEOUT = 10.0
"""Seconds; the caller's own budget is usually shorter."""

EDGE = 1e-12


class VllmRuntime:
    """Asks a vLLM server that serves the artifact's folder.

    Args:
        artifact: gives the window; the weights are the server's.
        url: base URL of the server, from the configuration.
    """

    def __init__(self, artifact: Artifact, url: str | None) -> None:
        if not url:
            raise SettingsError("gate.url: the vllm runtime needs the base URL of its server, e.g. http://gpu:8000")
        self._url = url.rstrip("/") + "/score"
        self._max_tokens = artifact.manifest.window.max_tokens

    def logits(self, pairs: Sequence[Pair]) -> list[float]:
        body = {
            "text_1": [history for history, _ in pairs],
            "text_2": [turn for _, turn in pairs],
            "truncate_prompt_tokens": self._max_tokens,
        }
        headers = {"content-type": "application/json"}
        request = Request(self._url, json.dumps(body).encode(), headers)  # noqa: S310 - the operator's URL
        try:
            with urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310
                answer = json.load(response)
            scores = {int(row["index"]): float(row["score"]) for row in answer["data"]}
            return [_logit(scores[index]) for index in range(len(pairs))]
        except (URLError, HTTPException, OSError, ValueError, KeyError, TypeError) as error:
            raise ScoringError("unavailable", f"gate.url: the vLLM server at {self._url}: {_detail(error)}") from error

    def close(self) -> None:
        pass


def _detail(error: Exception) -> str:
    """What went wrong; of an odd answer only the kind, the answer itself may quote a chat."""
    return str(error) if isinstance(error, OSError) else f"an odd answer ({type(error).__name__})"


def _logit(score: float) -> float:
    """Undo the sigmoid that the server applies to a one-label head."""
    clipped = min(max(score, EDGE), 1 - EDGE)
    return math.log(clipped / (1 - clipped))
