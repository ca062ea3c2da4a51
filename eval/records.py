"""What a run leaves behind: one record a turn, and a run card. Every figure is derived from the records.

A run folder holds ``records.jsonl``, ``card.json``, the session files that were replayed, and the reports. The card is
written last, so its presence means that the run is complete.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from eval.errors import FormatError

PACKAGES = ("pivot-guard", "numpy", "onnxruntime", "tokenizers", "aiohttp", "pydantic")
R = TypeVar("R", bound=BaseModel)

RECORDS = "records.jsonl"
CARD = "card.json"


class TurnRecord(BaseModel):
    """One user turn on one path."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Literal["gate", "unguarded", "guarded"] = "gate"
    task: Literal["joint", "answer"] = "joint"
    """``joint``: label, shortlist and answer in one; ``answer``: a plain answer, no label is asked for."""
    model: str = ""
    source: str
    """Data set, or file name, that the session comes from."""
    variant: str = ""
    repeat: int = 0
    session: str
    position: int
    number: int
    """Number of the user turn in its session, from 1."""
    pivot_turn: int | None = None
    """P: number of the session's pivot, from 1."""
    label: str | None
    """The truth: PIVOT, REFINE, or None for a turn that is not scored."""
    predicted: str | None = None
    """PIVOT or REFINE; None when nobody gave a label."""
    kind: str = ""
    probability: float | None = None
    shortlist: tuple[int, ...] | None = None
    """Earlier utterances that are carried; None when a model never named them."""
    gold: tuple[int, ...] | None = None
    """Earlier utterances of the same segment, where the session says so."""
    needs: tuple[int, ...] | None = None
    offered: int = 0
    tokens_kept: int = 0
    tokens_offered: int = 0
    milliseconds: float | None = None
    """Time of the guard's decision."""
    first_token_s: float | None = None
    total_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    violations: tuple[str, ...] = ()
    """Slugs of the attempts that broke the answer's shape."""
    answer: str | None = None
    answer_f1: float | None = None
    error: str = ""
    """Slug of what failed for good; the turn stays in the denominator."""


class RunCard(BaseModel):
    """How the records came about: enough to run it again, and to see what differs when two runs disagree."""

    model_config = ConfigDict(extra="forbid")

    command: str
    arguments: dict[str, object]
    created: str
    wall_s: float = 0.0
    commit: str | None
    dirty: bool | None
    """Whether tracked files differed from the commit; None outside a checkout."""
    versions: dict[str, str]
    machine: dict[str, str]
    seed: int
    gate: dict[str, object] = {}
    """Id and threshold of the gate."""
    models: list[str] = []
    reasoning: list[str] = []
    """Those of the models that reason before they answer."""
    sources: list[dict[str, object]] = []
    """Data sets: name, title, licence, file name and digest."""
    sessions: list[dict[str, object]] = []
    """Session sets: source, variant, digest and statistics."""
    prompts: dict[str, str] = {}
    """Digest of each prompt template."""
    choices: list[str] = []
    """Where the papers are silent: what was chosen, and what deviates."""
    calls: dict[str, int] = {}
    """Requests sent, answers replayed from the cache, retries."""
    failures: dict[str, int] = {}
    """Failed or malformed turns by reason."""
    notes: list[str] = []

    @classmethod
    def begin(cls, command: str, arguments: dict[str, object], seed: int) -> Self:
        """A card with the facts of this moment and machine filled in."""
        commit, dirty = revision()
        return cls(
            command=command,
            arguments=arguments,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            commit=commit,
            dirty=dirty,
            versions=versions(),
            machine={"platform": platform.platform(), "cpus": str(os.cpu_count()), "cpu": platform.processor()},
            seed=seed,
        )


def write_records(path: Path, records: Iterable[BaseModel]) -> None:
    """Write records as JSON Lines, replacing the file in one step."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("w", encoding="utf-8") as stream:
        for record in records:
            stream.write(record.model_dump_json() + "\n")
    temporary.replace(path)


def read_records(path: Path, kind: type[R]) -> list[R]:
    """Records of a JSON Lines file.

    Raises:
        FormatError: the file is missing or a line is not a record of this kind.
    """
    records = []
    try:
        with path.open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, start=1):
                records.append(_validated(kind, line, f"{path}:{number}"))
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FormatError(f"{path}: not UTF-8") from None
    return records


def write_card(folder: Path, card: BaseModel) -> None:
    """Write the run card."""
    (folder / CARD).write_text(card.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read_card(folder: Path) -> RunCard:
    """The card of a complete run.

    Raises:
        FormatError: the folder has no card: the run is not complete, or it is no run.
    """
    path = folder / CARD
    if not path.exists():
        raise FormatError(f"{folder}: no {CARD}: not a run, or the run was interrupted (repeat its command to resume)")
    return _validated(RunCard, path.read_bytes(), str(path))


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def json_digest(value: object) -> str:
    """SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that figures depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def revision() -> tuple[str | None, bool | None]:
    """Commit of the checkout that this code runs from, and whether tracked files differ from it."""
    root = Path(__file__).resolve().parent.parent
    commit = _git(root, "rev-parse", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=no")
    return commit, None if commit is None or status is None else bool(status)


def _git(root: Path, *arguments: str) -> str | None:
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments
            ["git", "-C", str(root), *arguments],  # noqa: S607 - git of the user's path
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _validated(kind: type[R], text: str | bytes, where: str) -> R:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise FormatError(f"{where}: {field}: {first['msg']}") from None
