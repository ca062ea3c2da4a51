"""Plots as SVG text, drawn by matplotlib (extra ``report``). Text stays text; the same data gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from eval.intervals import Estimate, FloatArray

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#edae49", "#7a5195", "#00798c", "#8c564b", "#555555")
"""Told apart in grey and by readers who do not see red and green alike; line styles and hatches help."""
STYLES = ("-", "--", ":", "-.")
LEGEND_INCHES = 3
HATCHES = ("", "//", "..", "xx")


@dataclass(frozen=True, slots=True)
class Series:
    """A named row of figures."""

    label: str
    estimates: tuple[Estimate, ...]


def available() -> bool:
    """Whether the extra is installed."""
    return find_spec("matplotlib") is not None


def lines(panels: Sequence[tuple[str, Sequence[Series]]], abscissae: Sequence[float], x_title: str) -> str:
    """Panels side by side, one line with its band for each series."""
    figure = _figure(len(panels), 4.6)
    for number, (title, rows) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), number + 1)
        for index, row in enumerate(rows):
            _line(axes, row, abscissae, index)
        _finish(axes, title, x_title)
        axes.set_xticks(list(abscissae))
    _legend(figure)
    return _svg(figure)


def bars(groups: Sequence[str], rows: Sequence[Series], y_title: str) -> str:
    """Groups of bars, one bar with its interval for each series."""
    figure = _figure(1, max(4.6, 0.5 * len(groups) * (len(rows) + 1)))
    axes = figure.add_subplot(1, 1, 1)
    width = 0.8 / max(1, len(rows))
    for index, row in enumerate(rows):
        places = [group + (index - (len(rows) - 1) / 2) * width for group in range(len(groups))]
        known = [(x, e, e.value) for x, e in zip(places, row.estimates, strict=True) if e.value is not None]
        low = [value - (e.low if e.low is not None else value) for _, e, value in known]
        high = [(e.high if e.high is not None else value) - value for _, e, value in known]
        axes.bar(
            [x for x, _, _ in known],
            [value for _, _, value in known],
            width,
            yerr=[[max(0.0, one) for one in low], [max(0.0, one) for one in high]],
            color=COLOURS[index % len(COLOURS)],
            hatch=HATCHES[index % len(HATCHES)],
            edgecolor="white",
            label=row.label,
            capsize=2,
        )
    axes.set_xticks(range(len(groups)), groups)
    _finish(axes, y_title, "")
    _legend(figure)
    return _svg(figure)


def curves(rows: Sequence[tuple[str, FloatArray, FloatArray]], x_title: str, y_title: str) -> str:
    """Curves through points: label, abscissae, ordinates."""
    figure = _figure(1, 4.6)
    axes = figure.add_subplot(1, 1, 1)
    for index, (label, x, y) in enumerate(rows):
        axes.plot(x, y, STYLES[index % len(STYLES)], color=COLOURS[index % len(COLOURS)], label=label)
    axes.set_xlim(0, 1.02)
    _finish(axes, y_title, x_title)
    _legend(figure)
    return _svg(figure)


def heatmap(
    rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[float]], marks: Sequence[Sequence[str]]
) -> str:
    """A matrix in colours centred on 0, each cell with its text."""
    figure = _figure(1, max(4.0, 1.0 * len(columns) + 2))
    axes = figure.add_subplot(1, 1, 1)
    reach = max((abs(value) for row in cells for value in row), default=0.0) or 1.0
    axes.imshow([list(row) for row in cells], cmap="RdBu", vmin=-reach, vmax=reach)
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    for i, row in enumerate(marks):
        for j, text in enumerate(row):
            axes.text(j, i, text, ha="center", va="center", fontsize=8)
    return _svg(figure)


def _line(axes: Axes, row: Series, abscissae: Sequence[float], index: int) -> None:
    known = [(x, e) for x, e in zip(abscissae, row.estimates, strict=True) if e.value is not None]
    colour = COLOURS[index % len(COLOURS)]
    style = STYLES[index % len(STYLES)]
    axes.plot(
        [x for x, _ in known], [e.value or 0.0 for _, e in known], style, marker="o", color=colour, label=row.label
    )
    banded = [(x, e.interval) for x, e in known if e.interval is not None]
    axes.fill_between(
        [x for x, _ in banded], [i[0] for _, i in banded], [i[1] for _, i in banded], color=colour, alpha=0.15
    )


def _finish(axes: Axes, title: str, x_title: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x_title)
    axes.set_ylim(0, 1.05)
    axes.grid(visible=True, alpha=0.3)


def _legend(figure: Figure) -> None:
    """One legend for all panels, below them: inside it would lie on bars and lines."""
    labelled: dict[str, Artist] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        labelled |= dict(zip(labels, handles, strict=True))
    if labelled:
        figure.legend(
            handles=list(labelled.values()),
            labels=list(labelled),
            loc="outside lower center",
            ncols=max(1, int(figure.get_figwidth() // LEGEND_INCHES)),
            fontsize=8,
            frameon=False,
        )


def _figure(panels: int, width: float) -> Figure:
    from matplotlib.figure import Figure  # an extra, and slow to load

    return Figure(figsize=(width * panels, 3.6), layout="constrained")


def _svg(figure: Figure) -> str:
    from matplotlib import rc_context

    stream = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "pivot-guard", "font.family": "sans-serif"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]
