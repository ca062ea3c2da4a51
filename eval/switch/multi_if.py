"""Multi-IF, English part: three turns whose checkable instructions add up (He et al. 2024, arXiv 2410.15553).

Strict success of the last turn: the last answer satisfies every instruction given so far. Models that hardly ever do
that can be told apart by the benchmark's other strict metric, the share of instructions that the answer satisfies. The
checkers are those of IFEval (Zhou et al. 2023) as the package ``if-verifiable`` carries them (extra ``switch``,
Apache-2.0, no torch).

One episode, shortened::

    {"id": "1019:16:en", "turns": [
      {"role": "user", "text": "Given the sentence ... in all lowercase letters.",
       "instruction_id_list": ["change_case:english_lowercase"], "kwargs": [{}]},
      {"role": "user", "text": "Your response should end with the exact phrase: ...",
       "instruction_id_list": ["change_case:english_lowercase", "startend:end_checker"],
       "kwargs": [{}, {"end_phrase": "what are they doing?"}]}]}

Two checkers (sentences, words in capitals) need NLTK's ``punkt_tab`` data: ``python -m nltk.downloader punkt_tab``, or
``scripts/nltk_data DIR`` where that server cannot be reached, and ``NLTK_DATA=DIR``. Language detection draws random
numbers; its seed is fixed, so that an answer always gets the same score.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.switch.episodes import Benchmark, Episode, read_records
from guard.errors import SettingsError

MISSING = "Multi-IF needs the extra: pip install 'pivot-guard[switch]'"
MISSING_DATA = "Multi-IF needs NLTK's punkt_tab data: python -m nltk.downloader punkt_tab"


@dataclass(frozen=True, slots=True)
class StrictSuccess:
    """1 if an answer satisfies every instruction, else 0.

    Attributes:
        instructions: pairs of an instruction's id and its arguments.
        prompt: text of the last user turn, which some checkers read.
    """

    instructions: tuple[tuple[str, dict[str, Any]], ...]
    prompt: str

    def __call__(self, answer: str) -> float:
        if not answer.strip():
            return 0.0
        return float(all(self.satisfied(answer)))

    def satisfied(self, answer: str) -> list[bool]:
        """Whether each instruction is satisfied, in order.

        Raises:
            SettingsError: the checkers or their data are not installed.
            ValueError: an instruction is not known to the checkers; it would otherwise count as satisfied.
        """
        evaluate, registry = _checkers()
        names = [name for name, _ in self.instructions]
        if unknown := sorted(set(names) - set(registry)):
            raise ValueError(f"no checker for {', '.join(unknown)}")
        arguments = [given for _, given in self.instructions]
        try:
            results, _ = evaluate(answer, names, arguments, self.prompt, registry)
        except LookupError as error:
            raise SettingsError(MISSING_DATA) from error
        # The package answers nothing at all when an answer holds nothing but its thinking.
        return [bool(result.strict_pass) for result in results] or [False] * len(names)


@dataclass(frozen=True, slots=True)
class InstructionShare:
    """The share of instructions that an answer satisfies, each judged as for strict success."""

    strict: StrictSuccess

    def __call__(self, answer: str) -> float:
        if not answer.strip():
            return 0.0
        satisfied = self.strict.satisfied(answer)
        return sum(satisfied) / len(satisfied)


def load_multi_if(path: Path, *, by_instruction: bool = False) -> Benchmark:
    """The episodes of a Multi-IF file that have at least two turns.

    Args:
        path: the file.
        by_instruction: score the share of instructions instead of strict success.
    """
    episodes = [_episode(record, by_instruction) for record in read_records(path)]
    metric = "share of instructions satisfied" if by_instruction else "strict success"
    return Benchmark("Multi-IF (English)", metric, "", tuple(one for one in episodes if len(one.users) >= 2))


def _episode(record: dict[str, Any], by_instruction: bool) -> Episode:
    users = [turn for turn in record["turns"] if turn["role"] == "user"]
    last = users[-1]
    instructions = tuple(zip(last["instruction_id_list"], last["kwargs"], strict=True))
    strict = StrictSuccess(instructions, last["text"])
    score = InstructionShare(strict) if by_instruction else strict
    return Episode(str(record["id"]), None, tuple(turn["text"] for turn in users), score)


def _checkers() -> tuple[Any, dict[str, Any]]:
    try:
        from if_verifiable.common import evaluate_instructions
        from if_verifiable.ifeval.instructions_registry import INSTRUCTION_DICT
        from langdetect import DetectorFactory
    except ImportError as error:
        raise SettingsError(MISSING) from error
    DetectorFactory.seed = 0
    return evaluate_instructions, INSTRUCTION_DICT
