"""The report of the pivot benchmark, for one run or several side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from eval import plots
from eval.compare import clear, comparison_tables
from eval.findings import findings
from eval.groups import Key, Run, load_run, repeat_deviation
from eval.intervals import Estimate, FloatArray, difference, estimate, resample
from eval.metrics import METRICS, RECALL_AT_LIMIT, Table
from eval.outputs import output_folder
from eval.records import TurnRecord
from eval.report import Cell, Figure, Report, ReportTable, Section, cell, distinct_names, html, markdown
from eval.v3 import FIGURES, by_pivot_turn, pivot_turns, slope_estimate

MAIN = (
    "f1_pivot",
    "precision_pivot",
    "recall_pivot",
    "f1_refine",
    "over_carry",
    "false_reset",
    RECALL_AT_LIMIT,
    "under_carry",
    "mismatch",
    "tokens_share",
    "violation_rate",
    "violations_per_turn",
)
PAIRED = {
    "joint": (
        "f1_pivot",
        "f1_refine",
        "over_carry",
        "under_carry",
        "false_reset",
        "violation_rate",
        "prompt_tokens",
        "prompt_tokens_after_pivot",
        "first_token_s",
        "first_token_s_after_pivot",
        "answer_f1",
        "answer_f1_at_pivot",
    ),
    "answer": ("answer_f1", "answer_f1_at_pivot", "prompt_tokens", "first_token_s"),
}
BARS = ("f1_pivot", "f1_refine", "over_carry", "false_reset", "tokens_share")


def write_reports(folders: Sequence[Path], out: Path, draws: int) -> list[ReportTable]:
    """Write ``report.md`` and ``report.html`` for runs into ``out``, and return the main tables."""
    names = distinct_names(folders)
    runs = [replace(load_run(folder), name=name) for folder, name in zip(folders, names, strict=True)]
    output_folder(out)  # once the runs are read: a mistyped one leaves no folder
    report = build(runs, draws)
    (out / "report.md").write_text(markdown(report), encoding="utf-8")
    (out / "report.html").write_text(html(report), encoding="utf-8")
    return list(report.sections[0].tables)


def build(runs: Sequence[Run], draws: int) -> Report:
    """The report of one run, or of several side by side."""
    sections = [
        Section("Results", _legend(), tuple(table for run in runs for table in main_tables(run, runs, draws))),
        *_comparison(runs, draws),
        *(section for run in runs for section in _details(run, runs, draws) if section.tables or section.figures),
        Section("Definitions", tables=(_definitions(),)),
    ]
    return Report("Pivot benchmark: " + ", ".join(run.name for run in runs), tuple(sections))


def _comparison(runs: Sequence[Run], draws: int) -> Iterator[Section]:
    names = {"joint": tuple(dict.fromkeys((*MAIN, *PAIRED["joint"]))), "answer": PAIRED["answer"]}
    tables = tuple(comparison_tables(runs, names, draws))
    if tables:
        yield Section("Runs compared", "Paired by session where the runs share their sessions.", tables)


def main_tables(run: Run, runs: Sequence[Run], draws: int) -> Iterator[ReportTable]:
    """One table for each source and variant, a column for each path and model."""
    names = ("sessions", "PIVOT turns", "REFINE turns", *MAIN, "sd of f1_pivot over runs")
    for source, variant in run.sets():
        groups = run.rows(source, variant)
        columns = [list(_main_column(records, run, draws)) for records in groups.values()]
        rows = tuple((name, *(column[number] for column in columns)) for number, name in enumerate(names))
        if columns:
            header = ("figure", *(key.row for key in groups))
            yield ReportTable(_caption(run, runs, f"{run.title(source)} {variant.upper()}"), header, rows)


def _main_column(records: Sequence[TurnRecord], run: Run, draws: int) -> Iterator[Cell]:
    table = Table(records)
    repeats = len({record.repeat for record in records})
    yield str(len(table.units))
    for label in ("PIVOT", "REFINE"):
        yield str(sum(record.label == label for record in records) // repeats)
    estimates = table.estimates(MAIN, _generator(run), draws)
    # A model gives no probabilities, so nothing can be said of another threshold.
    gate = all(record.path == "gate" for record in records)
    for name in MAIN:
        yield cell(estimates[name]) if gate or name != RECALL_AT_LIMIT else "-"
    deviation = repeat_deviation(records, "f1_pivot")
    yield "-" if deviation is None else f"{deviation:.3f} ({repeats} runs)"


def _details(run: Run, runs: Sequence[Run], draws: int) -> Iterator[Section]:
    def named(title: str) -> str:
        return _caption(run, runs, title)

    yield Section(
        named("Guarded against unguarded"),
        "Guarded minus unguarded, paired by session. Latency is as measured, prefix caches of the backend included.",
        tuple(paired_tables(run, draws)),
        tuple(_bar_figures(run, draws)),
    )
    yield Section(
        named("Figures against P"),
        "P is the user turn of the pivot. Slopes are least squares, change a user turn.",
        tuple(_v3_tables(run, draws)),
        tuple(_v3_figures(run, draws)),
    )
    yield Section(named("Precision and recall of the gate"), figures=tuple(_curve_figures(run)))
    yield Section(named("The paper's findings"), tables=(_findings_table(run, draws),))
    yield Section(named("Data and sessions"), tables=(_sources_table(run), _sessions_table(run)))
    yield Section(named("Run"), "\n\n".join(run.card.choices), (_run_table(run),))


def paired_tables(run: Run, draws: int) -> Iterator[ReportTable]:
    """Differences between the guarded and the unguarded path of a model."""
    for key, guarded in sorted(run.groups.items()):
        unguarded = run.groups.get(Key(key.source, key.variant, key.task, key.model, "unguarded"))
        if key.path != "guarded" or not unguarded:
            continue
        units = Table([*guarded, *unguarded]).units
        weights = resample(len(units), _generator(run), draws)
        left, right = Table(guarded, units), Table(unguarded, units)
        rows = []
        for name in PAIRED[key.task]:
            of_left, of_right = left.statistic(name), right.statistic(name)
            change = estimate(difference(of_left, of_right), weights)
            sides = (cell(estimate(one, weights)) for one in (of_right, of_left))
            rows.append((name, *sides, cell(change), clear(change)))
        caption = f"{run.title(key.source)} {key.variant.upper()}, {key.model}, {key.task} task"
        yield ReportTable(caption, ("figure", "unguarded", "guarded", "difference", "excludes 0"), tuple(rows))


def _bar_figures(run: Run, draws: int) -> Iterator[Figure]:
    if not plots.available():
        return
    for source, variant in run.sets():
        groups = run.rows(source, variant)
        if len({key.path for key in groups}) < 2:
            continue
        series = []
        for key, records in groups.items():
            estimates = Table(records).estimates(BARS, _generator(run), draws)
            series.append(plots.Series(key.row, tuple(estimates[name] for name in BARS)))
        caption = f"{run.title(source)} {variant.upper()}: every path, with 95 % intervals over sessions."
        yield Figure(caption, plots.bars(BARS, series, "share"))


def _v3_tables(run: Run, draws: int) -> Iterator[ReportTable]:
    for key, records in _v3_groups(run):
        turns = pivot_turns(records)
        rows: list[tuple[Cell, ...]] = []
        for name in FIGURES:
            points = by_pivot_turn(records, name, _generator(run), draws)
            slope = slope_estimate(records, name, _generator(run), draws) if len(turns) > 1 else Estimate(None)
            rows.append((name, *map(cell, points), cell(slope, 4)))
        header = ("figure", *(f"P = {turn}" for turn in turns), "slope")
        yield ReportTable(f"{run.title(key.source)} V3, {key.row}", header, tuple(rows))


def _v3_figures(run: Run, draws: int) -> Iterator[Figure]:
    if not plots.available():
        return
    for source in dict.fromkeys(key.source for key, _ in _v3_groups(run)):
        groups = {key: records for key, records in _v3_groups(run) if key.source == source}
        turns = sorted({turn for records in groups.values() for turn in pivot_turns(records)})
        panels = [
            (
                title,
                [
                    plots.Series(key.row, tuple(by_pivot_turn(records, name, _generator(run), draws)))
                    for key, records in groups.items()
                    if pivot_turns(records) == turns
                ],
            )
            for name, title in (("f1_pivot", "F1_PIVOT"), ("over_carry", "over-carry"))
        ]
        caption = f"{run.title(source)} V3: F1_PIVOT and over-carry against P, with 95 % intervals over sessions."
        yield Figure(caption, plots.lines(panels, turns, "P, user turn of the pivot"))


def _curve_figures(run: Run) -> Iterator[Figure]:
    rows = [
        (f"{run.title(key.source)} {key.variant.upper()}", *precision_recall(records))
        for key, records in sorted(run.groups.items())
        if key.path == "gate"
    ]
    rows = [row for row in rows if len(row[1]) > 0]
    if rows and plots.available():
        caption = "Precision against recall of PIVOT as the threshold moves, on the probabilities of the replay."
        yield Figure(caption, plots.curves(rows, "recall", "precision"))


def precision_recall(records: Sequence[TurnRecord]) -> tuple[FloatArray, FloatArray]:
    """Recall and precision of PIVOT at every threshold, highest threshold first; unscored turns count as REFINE."""
    scored = [record for record in records if record.label is not None]
    probabilities = np.array([-1.0 if r.probability is None else r.probability for r in scored])
    order = np.argsort(-probabilities, kind="stable")
    ranked = probabilities[order]
    positive = np.array([record.label == "PIVOT" for record in scored], dtype=np.float64)[order]
    if positive.sum() == 0:
        return np.zeros(0), np.zeros(0)
    # A threshold takes every turn of its probability at once.
    last = np.append(ranked[1:] != ranked[:-1], True) & (ranked >= 0)
    hits, taken = np.cumsum(positive)[last], np.arange(1, len(ranked) + 1)[last]
    return hits / positive.sum(), hits / taken


def _findings_table(run: Run, draws: int) -> ReportTable:
    rows = tuple(
        (str(one.number), one.claim, one.subject, one.figure, cell(one.estimate, 4), one.verdict)
        for one in findings(run, draws)
    )
    return ReportTable("", ("finding", "claim", "on", "figure", "value", "verdict"), rows)


def _sources_table(run: Run) -> ReportTable:
    keys = ("name", "title", "licence", "file", "conversations", "sha256")
    rows = tuple(tuple(str(one.get(key, "-")) for key in keys) for one in run.card.sources)
    return ReportTable("What was used, by its own name", keys, rows)


def _sessions_table(run: Run) -> ReportTable:
    keys = ("source", "variant", "sessions", "user_turns", "mean", "least", "most", "pivots", "refines", "digest")
    rows = tuple(tuple(_short(one.get(key, "-")) for key in keys) for one in run.card.sessions)
    return ReportTable("Sessions: user turns in all, mean, least and most a session", keys, rows)


def _run_table(run: Run) -> ReportTable:
    card = run.card
    facts: dict[str, object] = {
        "command": card.command,
        "arguments": " ".join(f"{key}={value}" for key, value in card.arguments.items()),
        "created": card.created,
        "seconds": card.wall_s,
        "commit": f"{card.commit}{' with uncommitted changes' if card.dirty else ''}",
        "versions": _joined(card.versions),
        "machine": _joined(card.machine),
        "gate": _joined(card.gate),
        "models": ", ".join(card.models) or "none",
        "seed": card.seed,
        "prompts": _joined(card.prompts),
        "calls": _joined(card.calls) or "none",
        "failed or malformed": _joined(card.failures) or "none",
        "notes": "; ".join(card.notes) or "none",
    }
    return ReportTable("", ("fact", "value"), tuple((key, str(value)) for key, value in facts.items()))


def _definitions() -> ReportTable:
    rows = tuple((name, " ".join((metric.__doc__ or "").split())) for name, metric in METRICS.items())
    return ReportTable("[ours] marks what the paper does not define", ("figure", "definition"), rows)


def _legend() -> str:
    return (
        "Figures are followed by their 95 % interval, bootstrapped over sessions. A dash: undefined, or not applicable."
    )


def _v3_groups(run: Run) -> Iterator[tuple[Key, list[TurnRecord]]]:
    return (
        (key, records) for key, records in sorted(run.groups.items()) if key.variant == "v3" and key.task == "joint"
    )


def _caption(run: Run, runs: Sequence[Run], title: str) -> str:
    return title if len(runs) == 1 else f"{run.name}: {title}"


def _joined(facts: dict[str, object] | dict[str, str] | dict[str, int]) -> str:
    return ", ".join(f"{key} {value}" for key, value in facts.items())


def _short(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)[:16]


def _generator(run: Run) -> np.random.Generator:
    return np.random.default_rng(run.card.seed)
