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

from pydantic import AliasChoices, Field

from eval.errors import FormatError
from eval.switch.episodes import Benchmark, Dialogue, Episode, Turn, read_lines, usable
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

    Raises:
        FormatError: a line is no episode, or the checkers do not know its instructions or their arguments.
        DataError: no episode has two turns.
        SettingsError: the checkers are not installed.
    """
    episodes = usable(path, (_episode(line, where, by_instruction) for where, line in read_lines(path, _Line)))
    metric = "share of instructions satisfied" if by_instruction else "strict success"
    return Benchmark("Multi-IF (English)", metric, "", episodes)


class _Turn(Turn):
    instructions: tuple[str, ...] = Field((), alias="instruction_id_list")
    arguments: tuple[dict[str, Any], ...] = Field((), validation_alias=AliasChoices("kwargs"))


class _Line(Dialogue):
    turns: tuple[_Turn, ...] = Field(min_length=1)


def _episode(line: _Line, where: str, by_instruction: bool) -> Episode:
    users = [turn for turn in line.turns if turn.role == "user"]
    if not users or not users[-1].instructions:
        raise FormatError(f"{where}: the last user turn has no instruction_id_list: nothing could be checked")
    last = users[-1]
    if len(last.instructions) != len(last.arguments):
        raise FormatError(f"{where}: {len(last.instructions)} instructions, but kwargs for {len(last.arguments)}")
    instructions = tuple(zip(last.instructions, last.arguments, strict=True))
    for name, arguments in instructions:
        _check(name, arguments, where)
    strict = StrictSuccess(instructions, last.text)
    score = InstructionShare(strict) if by_instruction else strict
    return Episode(str(line.id), None, tuple(turn.text for turn in users), score)


def _check(name: str, arguments: dict[str, Any], where: str) -> None:
    """Refuse before any call is paid for what would fail once answers are there."""
    _, registry = _checkers()
    if name not in registry:
        raise FormatError(f"{where}: no checker for {name}")
    try:
        registry[name](name).build_description(**{key: value for key, value in arguments.items() if value is not None})
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise FormatError(f"{where}: wrong kwargs of {name}: {error}") from None


def _checkers() -> tuple[Any, dict[str, Any]]:
    try:
        from if_verifiable.common import evaluate_instructions
        from if_verifiable.ifeval.instructions_registry import INSTRUCTION_DICT
        from langdetect import DetectorFactory
    except ImportError as error:
        raise SettingsError(MISSING) from error
    DetectorFactory.seed = 0
    return evaluate_instructions, INSTRUCTION_DICT
