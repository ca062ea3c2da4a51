"""``guard-eval verify``: hold a run's figures against the expected ones.

``expected.toml`` names, for sets of sessions known by their digest, what each figure was when it was published:

    [[set]]
    source = "mtrag_un"
    variant = "v1"
    digest = "..."                      # of the sessions: source, seed and recipe in one
    [[set.figure]]
    path = "gate"
    metric = "f1_pivot"
    value = 0.95
    tolerance = 0.01

OK: within the tolerance. CLOSE: within three times the tolerance. FAIL: beyond it, or missing. Figures of sets that the
run does not hold are passed over; a run that holds none of them has nothing to be verified by, which is an error.
"""

from __future__ import annotations

import tomllib
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eval.errors import DataError, FormatError
from eval.groups import Key, Run, load_run
from eval.metrics import Table
from eval.report import print_table

NAME = "verify"
HELP = "hold a run's figures against the expected ones: 0 if none fails, else 1"
EXPECTED = Path(__file__).parent / "expected.toml"
CLOSE_FACTOR = 3


class Verdict(StrEnum):
    """How a figure compares."""

    OK = "OK"
    CLOSE = "CLOSE"
    FAIL = "FAIL"


class ExpectedFigure(BaseModel):
    """A figure and how far another run may be from it."""

    model_config = ConfigDict(extra="forbid")

    path: str = "gate"
    task: str = "joint"
    model: str = ""
    pivot_turn: int | None = None
    """Only sessions whose pivot is at this user turn."""
    metric: str
    value: float
    tolerance: float = Field(ge=0)


class ExpectedSet(BaseModel):
    """Figures on one set of sessions."""

    model_config = ConfigDict(extra="forbid")

    source: str
    variant: str
    digest: str
    figure: list[ExpectedFigure]


class Expected(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid")

    set: list[ExpectedSet] = []


@dataclass(frozen=True, slots=True)
class Check:
    """A figure held against what was expected."""

    where: str
    metric: str
    expected: ExpectedFigure
    found: float | None

    @property
    def verdict(self) -> Verdict:
        """OK, CLOSE or FAIL; a figure that is missing fails."""
        if self.found is None:
            return Verdict.FAIL
        distance = abs(self.found - self.expected.value)
        # Figures are published with few digits; the last one must not decide.
        slack = self.expected.tolerance + 1e-9
        if distance <= slack:
            return Verdict.OK
        return Verdict.CLOSE if distance <= CLOSE_FACTOR * slack else Verdict.FAIL


def configure(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="run folder")
    parser.add_argument(
        "--expected", type=Path, default=EXPECTED, help="expected figures (default: the published ones)"
    )


def run(arguments: Namespace) -> int:
    """Print a verdict for each figure."""
    checks = list(checked(load_run(arguments.run_folder), read_expected(arguments.expected)))
    if not checks:
        raise DataError(
            f"{arguments.run_folder}: {arguments.expected.name} expects nothing of the sessions of this run"
        )
    rows = [
        (
            check.where,
            check.metric,
            f"{check.expected.value:.4f} +- {check.expected.tolerance:.4f}",
            "missing" if check.found is None else f"{check.found:.4f}",
            check.verdict.value,
        )
        for check in checks
    ]
    print_table("Figures against the expected ones", ("on", "figure", "expected", "found", "verdict"), rows)
    return int(any(check.verdict is Verdict.FAIL for check in checks))


def read_expected(path: Path) -> Expected:
    """Read a file of expected figures.

    Raises:
        FormatError: it is missing, or not what it should be.
    """
    try:
        return Expected.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise FormatError(f"{path}: {error}") from None


def checked(run: Run, expected: Expected) -> Iterator[Check]:
    """Every expected figure of the sets that the run holds."""
    held = {(one.get("source"), one.get("variant"), one.get("digest")) for one in run.card.sessions}
    for one in expected.set:
        if (one.source, one.variant, one.digest) in held:
            yield from (_check(run, one, figure) for figure in one.figure)


def _check(run: Run, expected: ExpectedSet, figure: ExpectedFigure) -> Check:
    key = Key(expected.source, expected.variant, figure.task, figure.model, figure.path)
    records = run.groups.get(key, [])
    if figure.pivot_turn is not None:
        records = [record for record in records if record.pivot_turn == figure.pivot_turn]
    found = Table(records).value(figure.metric) if records else None
    depth = () if figure.pivot_turn is None else (f"P = {figure.pivot_turn}",)
    return Check(_words((expected.source, expected.variant, *depth, key.row)), figure.metric, figure, found)


def _words(parts: Sequence[str]) -> str:
    return " ".join(part for part in parts if part)
