"""Reports as data: sections of prose, tables and figures, rendered to Markdown, to one HTML file, or to a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template

from rich.console import Console
from rich.table import Table as RichTable

from eval.intervals import Estimate

Cell = str
TEMPLATE = Path(__file__).parent / "templates" / "report.html"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table with its caption."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot as SVG text, with a caption that says what is seen."""

    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands below it, in order."""

    title: str
    text: str = ""
    tables: tuple[ReportTable, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report."""

    title: str
    sections: tuple[Section, ...] = field(default=())


def print_table(caption: str, header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table on standard output, as wide as it needs to be where the output is not a terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=20 + 40 * len(header))
    table = RichTable(title=caption, title_justify="left")
    for number, title in enumerate(header):
        table.add_column(title, justify="left" if number == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Names of files or folders; the paths as given where names repeat."""
    names = [path.name or path.resolve().name for path in paths]
    return [name if names.count(name) == 1 else str(path) for name, path in zip(names, paths, strict=True)]


def cell(estimate: Estimate, digits: int = 3) -> Cell:
    """A figure with its interval; a dash where it is undefined."""
    if estimate.value is None:
        return "-"
    text = f"{estimate.value:.{digits}f}"
    if estimate.interval is None:
        return text
    return f"{text} [{estimate.interval[0]:.{digits}f}, {estimate.interval[1]:.{digits}f}]"


def markdown(report: Report) -> str:
    """The report as Markdown; figures appear by caption, their plots are in the HTML."""
    lines = [f"# {report.title}"]
    for section in report.sections:
        lines += ["", f"## {section.title}"]
        if section.text:
            lines += ["", section.text]
        for figure in section.figures:
            lines += ["", f"(Plot in report.html: {figure.caption})"]
        for table in section.tables:
            lines += ["", *_markdown_table(table)]
    return "\n".join(lines) + "\n"


def html(report: Report) -> str:
    """The report as one HTML file that loads nothing from elsewhere."""
    body = "\n".join(_html_section(section) for section in report.sections)
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(title=escape(report.title), body=body)


def _html_section(section: Section) -> str:
    paragraphs = [f"<p>{escape(part)}</p>" for part in section.text.split("\n\n") if part]
    figures = [
        f"<figure>{figure.svg}<figcaption>{escape(figure.caption)}</figcaption></figure>" for figure in section.figures
    ]
    tables = [_html_table(table) for table in section.tables]
    return "\n".join([f"<section><h2>{escape(section.title)}</h2>", *paragraphs, *figures, *tables, "</section>"])


def _html_table(table: ReportTable) -> str:
    def row(cells: Sequence[Cell], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(one)}</{tag}>" for one in cells) + "</tr>"

    rows = "".join(row(cells, "td") for cells in table.rows)
    head = f"<caption>{escape(table.caption)}</caption><thead>{row(table.header, 'th')}</thead>"
    return f'<div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div>'


def _markdown_table(table: ReportTable) -> list[str]:
    def row(cells: Sequence[Cell]) -> str:
        return "| " + " | ".join(one.replace("|", "\\|").replace("\n", " ") for one in cells) + " |"

    rule = "|" + "---|" * len(table.header)
    caption = [f"*{table.caption}*", ""] if table.caption else []
    return [*caption, row(table.header), rule, *(row(cells) for cells in table.rows)]
