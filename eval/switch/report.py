"""A switch matrix as a report: the K x K table with intervals and marks, the heat map, the decomposition, the paths."""

from __future__ import annotations

from collections.abc import Sequence

from eval import plots
from eval.intervals import Estimate
from eval.report import Figure, Report, ReportTable, Section, cell
from eval.switch.episodes import Benchmark
from eval.switch.outcome import Outcome, PathOutcome
from eval.switch.protocol import SwitchRecord
from eval.switch.statistics import Decomposition, Matrix

DIGITS = 3
READING = (
    "Rows: who wrote the earlier answers. Columns: who wrote the last one. On the diagonal the score of a model after "
    "its own answers, elsewhere what the switch changes against that; 95 % intervals from a bootstrap over episodes, "
    "pairs kept. A star marks an interval that excludes 0; one cell in twenty bears one by chance."
)


def report(benchmark: Benchmark, outcome: Outcome, records: Sequence[SwitchRecord], notes: Sequence[str]) -> Report:
    """The whole report."""
    sections = [_setting(benchmark, outcome, records, notes)]
    sections += [_matrix_section(path, benchmark.metric) for path in outcome.paths]
    if outcome.baseline.matrix.decomposition is not None:
        sections.append(_decomposition_section(outcome.baseline.matrix.decomposition))
    if len(outcome.paths) > 1:
        sections.append(_paths_section(outcome))
    return Report(f"Switch matrix: {benchmark.name}", tuple(sections))


def matrix_table(path: PathOutcome) -> ReportTable:
    """The K x K table."""
    matrix = path.matrix
    rows = [(prefix, *(_cell(matrix, prefix, suffix) for suffix in matrix.models)) for prefix in matrix.models]
    return ReportTable(f"{path.path}, {matrix.episodes} episodes", ("prefix \\ suffix", *matrix.models), tuple(rows))


def decomposition_table(fitted: Decomposition) -> ReportTable:
    """Influence and susceptibility of every model."""
    rows = tuple(
        (model, _marked(fitted.influence[model]), _marked(fitted.susceptibility[model])) for model in fitted.influence
    )
    caption = f"mu {_marked(fitted.mu)}, R2 {cell(fitted.r2, DIGITS)}, spare cells {fitted.spare}"
    return ReportTable(caption, ("model", "influence as prefix", "susceptibility as suffix"), rows)


def paths_table(outcome: Outcome) -> ReportTable:
    """What each path does to scores, against the baseline."""
    models = outcome.baseline.matrix.models
    pairs = [(a, b) for a in models for b in models if a != b]
    rows = [
        (path.path, _marked(path.gain), *(_marked(path.gains[pair]) for pair in pairs))
        for path in outcome.paths
        if path.gain is not None
    ]
    header = ("path", "all switches", *(f"{a} -> {b}" for a, b in pairs))
    return ReportTable(f"change of score against {outcome.baseline.path}", header, tuple(rows))


def nothing_measured(outcome: Outcome) -> str:
    """A warning where every answer of the baseline got one score; empty where they differ."""
    score = outcome.baseline.matrix.constant
    if score is None:
        return ""
    return (
        f"Every last answer scored {score:.{DIGITS}f}: the benchmark is too hard or too easy for these models. Effects "
        "and intervals of 0 are no finding here, and there is nothing to decompose."
    )


def _setting(benchmark: Benchmark, outcome: Outcome, records: Sequence[SwitchRecord], notes: Sequence[str]) -> Section:
    capped = sum(record.finish_reason == "length" for record in records)
    failed = sum(bool(record.error) for record in records)
    facts = [
        f"Metric: {benchmark.metric} of the last answer.",
        f"Episodes: {len(outcome.episodes)} complete, {len(outcome.incomplete)} incomplete and not counted.",
        f"Last answers: {len(records)}, of which {capped} were cut off by the token limit and {failed} failed.",
        *([f"Deviation: {benchmark.notes}."] if benchmark.notes else []),
        *([note] if (note := nothing_measured(outcome)) else []),
        *notes,
    ]
    return Section("What was run", "\n".join(f"- {fact}" for fact in facts))


def _matrix_section(path: PathOutcome, metric: str) -> Section:
    matrix = path.matrix
    means = ReportTable(
        f"mean {metric}",
        ("prefix \\ suffix", *matrix.models),
        tuple(
            (prefix, *(f"{matrix.scores[i, j]:.{DIGITS}f}" for j in range(len(matrix.models))))
            for i, prefix in enumerate(matrix.models)
        ),
    )
    return Section(f"Effects of a switch: {path.path}", READING, (matrix_table(path), means), _heat_map(matrix))


def _heat_map(matrix: Matrix) -> tuple[Figure, ...]:
    """Effects in colours, red is harm; none where the plotting library is not installed."""
    if not plots.available():
        return ()
    models = matrix.models
    values = [[(matrix.effects[a, b].value or 0.0) if a != b else 0.0 for b in models] for a in models]
    marks = [
        [_mark(matrix.effects[a, b]) if a != b else f"({matrix.own[b].value:.{DIGITS}f})" for b in models]
        for a in models
    ]
    caption = "Rows wrote the prefix, columns the last answer; red: the prefix harms. Diagonal: scores."
    return (Figure(caption, plots.heatmap(models, models, values, marks)),)


def _mark(estimate: Estimate) -> str:
    return f"{estimate.value:+.{DIGITS}f}" + ("*" if estimate.excludes(0) else "")


def _decomposition_section(fitted: Decomposition) -> Section:
    text = (
        "Effect of A before B = mu + influence[A] + susceptibility[B], least squares over the cells off the diagonal, "
        "both terms centred. With few spare cells R2 is high whatever the data."
    )
    return Section("Decomposition", text, (decomposition_table(fitted),))


def _paths_section(outcome: Outcome) -> Section:
    text = "The same episodes by other paths; pairs of answers to the same prefix, 95 % intervals as above."
    return Section("Paths compared", text, (paths_table(outcome),))


def _cell(matrix: Matrix, prefix: str, suffix: str) -> str:
    if prefix == suffix:
        return f"({cell(matrix.own[suffix], DIGITS)})"
    return _marked(matrix.effects[prefix, suffix])


def _marked(estimate: Estimate) -> str:
    return cell(estimate, DIGITS) + (" *" if estimate.excludes(0) else "")
