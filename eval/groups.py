"""Records of one run sorted into the rows of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import stdev

from eval.metrics import Table
from eval.records import RECORDS, RunCard, TurnRecord, read_card, read_records

PATH_ORDER = ("gate", "unguarded", "guarded")


@dataclass(frozen=True, order=True, slots=True)
class Key:
    """What a row stands for."""

    source: str
    variant: str
    task: str
    model: str
    path: str

    @property
    def row(self) -> str:
        """The row's name in a table of one source and variant."""
        return " ".join(part for part in (self.path, self.model) if part)


@dataclass(frozen=True)
class Run:
    """A complete run."""

    name: str
    card: RunCard
    groups: dict[Key, list[TurnRecord]]

    def sets(self) -> list[tuple[str, str]]:
        """Sources and variants, in order."""
        return list(dict.fromkeys((key.source, key.variant) for key in self.groups))

    def rows(self, source: str, variant: str, task: str = "joint") -> dict[Key, list[TurnRecord]]:
        """The rows of one table: gate first, then each model unguarded and guarded."""
        wanted = [k for k in self.groups if (k.source, k.variant, k.task) == (source, variant, task)]
        wanted.sort(key=lambda key: (key.model, PATH_ORDER.index(key.path)))
        return {key: self.groups[key] for key in wanted}

    def title(self, source: str) -> str:
        """A source's title, as its publisher calls it."""
        titles = [str(one["title"]) for one in self.card.sources if one.get("name") == source]
        return titles[0] if titles else source


def load_run(folder: Path) -> Run:
    """Read a run folder.

    Raises:
        FormatError: it holds no complete run.
    """
    card = read_card(folder)
    groups: dict[Key, list[TurnRecord]] = {}
    for record in read_records(folder / RECORDS, TurnRecord):
        key = Key(record.source, record.variant, record.task, record.model, record.path)
        groups.setdefault(key, []).append(record)
    return Run(folder.name, card, groups)


def repeat_deviation(records: Sequence[TurnRecord], metric: str) -> float | None:
    """Standard deviation of a metric over repeated runs; None where there is one run, or an undefined value."""
    repeats = sorted({record.repeat for record in records})
    values = [Table([r for r in records if r.repeat == repeat]).value(metric) for repeat in repeats]
    known = [value for value in values if value is not None]
    return stdev(known) if len(known) == len(values) > 1 else None
