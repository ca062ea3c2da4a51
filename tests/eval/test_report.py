from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from eval import plots
from eval.cli import main
from eval.errors import DataError, FormatError
from eval.findings import findings, verdict
from eval.groups import load_run, repeat_deviation
from eval.intervals import Estimate
from eval.pivots_report import build, write_reports
from eval.records import CARD, RECORDS, RunCard, TurnRecord, read_card, write_card, write_records
from eval.report import Report, ReportTable, Section, html, markdown
from eval.v3 import by_pivot_turn, slope_estimate
from eval.verify import Check, ExpectedFigure, Verdict, checked, read_expected
from eval.verify import run as verify
from tests.eval.builders import record, verify_arguments

SOURCES: list[dict[str, object]] = [
    {"name": "topiocqa", "title": "TopiOCQA", "licence": "CC BY-NC-SA 4.0", "kind": "qa", "file": "a.json"},
    {"name": "personachat", "title": "PersonaChat", "licence": "not stated for the texts", "kind": "chit-chat"},
]


def _turns(path: str, source: str, variant: str, right: float, model: str = "", **fields: object) -> list[TurnRecord]:
    """Twenty sessions with a pivot and two refinements; of the pivots the first share ``right`` is found."""
    made = []
    for number in range(20):
        found = number < right * 20
        common: dict[str, object] = {"path": path, "source": source, "variant": variant, "model": model, **fields}
        common |= {
            "pivot_turn": 3,
            "offered": 4,
            "tokens_offered": 100,
            "gold": (0, 1),
            "session": f"{variant}-{number:06}",
        }
        pivot: dict[str, object] = {
            "number": 3,
            "position": 4,
            "tokens_kept": 20,
            "predicted": "PIVOT" if found else "REFINE",
        }
        pivot |= {"probability": 0.9 if found else 0.2, "shortlist": () if found else (0, 1)}
        made.append(record("PIVOT", **common | pivot))
        for turn in (2, 4):
            kept = {"number": turn, "position": 2 * turn - 2, "tokens_kept": 100, "predicted": "REFINE"}
            made.append(record("REFINE", **common | kept | {"probability": 0.1, "shortlist": (0, 1)}))
    return made


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """A run with gate, unguarded and guarded records on two sources."""
    v3 = [
        one.model_copy(update={"pivot_turn": p, "session": f"v3-p{p}-{one.session}"})
        for p, right in ((2, 1.0), (5, 0.8), (8, 0.6))
        for one in _turns("gate", "topiocqa", "v3", right)
    ]
    records = [
        *_turns("gate", "topiocqa", "v1", 0.9),
        *_turns("gate", "topiocqa", "v2", 1.0),
        *_turns("gate", "personachat", "v1", 0.5),
        *_turns("unguarded", "topiocqa", "v1", 0.4, "m", first_token_s=0.5, prompt_tokens=90, answer_f1=0.2),
        *_turns("guarded", "topiocqa", "v1", 0.9, "m", first_token_s=0.2, prompt_tokens=40, answer_f1=0.6),
        *v3,
    ]
    card = RunCard.begin("guard-eval pivots", {"data": ["a.json"]}, 0)
    card.sources = SOURCES
    card.sessions = [{"source": "topiocqa", "variant": "v1", "digest": "d1", "sessions": 20, "mean": 3.0}]
    card.models = ["m"]
    card.failures = {"violation": 7}
    write_records(tmp_path / RECORDS, records)
    write_card(tmp_path, card)
    return tmp_path


def _row(text: str, table: str, name: str) -> list[str]:
    """The cells of a row of a Markdown table, found by its caption and first cell."""
    after = text[text.index(f"*{table}*") :]
    line = next(line for line in after.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_the_report_states_known_facts(folder: Path) -> None:
    """Figures known by hand stand in the right cells, with sources under their own names and licences."""
    write_reports([folder], folder, 50)
    text = (folder / "report.md").read_text()
    # 18 of 20 pivots found, no false reset: F1 = 36 / 38.
    assert [cell.split(" ")[0] for cell in _row(text, "TopiOCQA V1", "f1_pivot")] == ["0.947", "0.571", "0.947"]
    assert [cell.split(" ")[0] for cell in _row(text, "TopiOCQA V1", "over_carry")] == ["0.100", "0.600", "0.100"]
    assert _row(text, "TopiOCQA V1", "PIVOT turns") == ["20", "20", "20"]
    assert _row(text, "TopiOCQA V1, m, joint task", "first_token_s")[2] == "-0.300 [-0.300, -0.300]"
    assert _row(text, "TopiOCQA V1, m, joint task", "answer_f1")[2:] == ["0.400 [0.400, 0.400]", "yes"]
    assert "| personachat | PersonaChat | not stated for the texts |" in text
    assert "violation 7" in text
    assert text.count("(Plot in report.html: ") == 3
    assert "MSC" not in text


def test_the_html_loads_nothing(folder: Path) -> None:
    """The HTML is one file: plots inside, no script, no link to anything that is loaded."""
    write_reports([folder], folder, 50)
    text = (folder / "report.html").read_text()
    assert text.count("<svg") == 3
    assert "<script" not in text
    assert not re.search(r'(?:src|href)="(?!#)', text)
    assert "@import" not in text
    assert "url(http" not in text


def test_texts_are_escaped() -> None:
    """What comes from data or models cannot become markup."""
    table = ReportTable("a < b", ("x",), (("<b>|\n",),))
    report = Report("<t>", (Section("s & s", "p < q", (table,)),))
    assert "<b>" not in html(report)
    assert "&lt;t&gt;" in html(report)
    assert "| <b>\\|  |" in markdown(report)


def test_runs_stand_side_by_side(folder: Path) -> None:
    """Several runs share a report, each table with its run's name."""
    titles = [section.title for section in build([load_run(folder), load_run(folder)], 20).sections]
    assert titles[:2] == ["Results", "Runs compared"]
    assert sum(folder.name in title for title in titles) == len(titles) - 3


def _better(folder: Path, digest: str) -> Path:
    """A run in which the gate finds every pivot, on sessions of that digest."""
    other = folder / "better"
    other.mkdir()
    card = read_card(folder)
    card.sessions = [{"source": "topiocqa", "variant": "v1", "digest": digest}]
    write_records(other / RECORDS, _turns("gate", "topiocqa", "v1", 1.0))
    write_card(other, card)
    return other


@pytest.mark.parametrize(("digest", "paired"), [("d1", True), ("d2", False)])
def test_runs_are_compared_row_by_row(folder: Path, digest: str, paired: bool) -> None:
    """What two runs share stands in one row with the difference: by session where the sessions are the same."""
    runs = [load_run(folder), load_run(_better(folder, digest))]
    (table,) = build(runs, 200).sections[1].tables
    assert table.header == ("figure", folder.name, "better", "last - first", "excludes 0")
    assert ("not paired" in table.caption) is not paired
    rows = {row[0]: row[1:] for row in table.rows}
    assert [value.split(" ")[0] for value in rows["recall_pivot"][:3]] == ["0.900", "1.000", "0.100"]
    assert rows["false_reset"][2:] == ("0.000 [0.000, 0.000]", "no")


def test_runs_without_digests_are_not_paired(folder: Path) -> None:
    """Where the cards do not say which sessions were used, nothing says that they were the same."""
    runs = [load_run(folder), load_run(folder)]
    for run in runs:
        run.card.sessions = []
    tables = build(runs, 20).sections[1].tables
    assert tables
    assert all("not paired" in table.caption for table in tables)


def test_runs_of_one_name_are_told_apart_by_their_paths(tmp_path: Path, folder: Path) -> None:
    """Folders of the same name stand under the paths given."""
    copies = [tmp_path / name / "run" for name in ("a", "b")]
    for copy in copies:
        copy.mkdir(parents=True)
        for name in (RECORDS, CARD):
            (copy / name).write_bytes((folder / name).read_bytes())
    write_reports(copies, tmp_path / "both", 20)
    text = (tmp_path / "both" / "report.md").read_text()
    assert all(f"## {copy}: Run" in text for copy in copies)


def test_a_mistyped_run_leaves_no_folder(tmp_path: Path) -> None:
    """A run that is not there is an error, and stays not there."""
    assert main(["report", str(tmp_path / "typo")]) == 2
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize("name", [RECORDS, CARD])
def test_a_run_that_is_not_utf8_is_an_error(folder: Path, name: str) -> None:
    """Its file is named."""
    (folder / name).write_bytes(b"\xff")
    with pytest.raises(FormatError, match=name):
        load_run(folder)


def test_findings_are_judged_by_their_intervals(folder: Path) -> None:
    """Each finding has a row with its figure and a verdict that the interval supports."""
    rows = {(one.number, one.subject.split(",")[0]): one for one in findings(load_run(folder), 200)}
    assert rows[2, "gate"].verdict == "open: the interval holds 0"
    assert rows[2, "gate"].estimate.value == pytest.approx(1 - 36 / 38)
    assert rows[3, "gate"].verdict == "confirmed"
    assert rows[4, "gate"].verdict == "confirmed"
    assert rows[1, "unguarded m"].verdict == "open: the interval holds 0"
    assert rows[5, "-"].verdict.startswith("open")


def test_a_reasoning_model_is_judged_by_its_over_carry(folder: Path) -> None:
    """An OC of 0.6 is not near zero: the finding is refuted on a model that is said to reason."""
    run = load_run(folder)
    run.card.reasoning = ["m"]
    (row,) = [one for one in findings(run, 200) if one.number == 5]
    assert (row.subject, row.verdict) == ("unguarded m, topiocqa v1", "refuted")


@pytest.mark.parametrize(
    ("estimate", "sign", "expected"),
    [
        (Estimate(0.2, 0.1, 0.3), 1, "confirmed"),
        (Estimate(0.2, 0.1, 0.3), -1, "refuted"),
        (Estimate(-0.2, -0.3, -0.1), -1, "confirmed"),
        (Estimate(0.0, -0.1, 0.1), 1, "open: the interval holds 0"),
        (Estimate(None), 1, "open: no interval"),
    ],
)
def test_verdicts(estimate: Estimate, sign: int, expected: str) -> None:
    """The side of 0 on which the interval lies decides."""
    assert verdict(estimate, sign) == expected


def test_v3_figures_by_hand(folder: Path) -> None:
    """Recall at each P is what was built, and so is its slope; the interval of a fall excludes 0."""
    records = [r for key, group in load_run(folder).groups.items() if key.variant == "v3" for r in group]
    points = by_pivot_turn(records, "recall_pivot", np.random.default_rng(0), 100)
    assert [point.value for point in points] == [1.0, 0.8, 0.6]
    slope = slope_estimate(records, "recall_pivot", np.random.default_rng(0), 200)
    assert slope.value == pytest.approx(-0.2 / 3)
    assert slope.high is not None
    assert slope.high < 0


def test_repeats_have_a_deviation() -> None:
    """Two runs with values a and b deviate by |a - b| / sqrt(2); one run by nothing known."""
    runs = [
        r.model_copy(update={"repeat": n})
        for n, right in enumerate((0.5, 1.0))
        for r in _turns("gate", "s", "v1", right)
    ]
    assert repeat_deviation(runs, "recall_pivot") == pytest.approx(0.5 / 2**0.5)
    assert repeat_deviation([r for r in runs if r.repeat == 0], "recall_pivot") is None


def test_an_interrupted_run_is_no_run(folder: Path) -> None:
    """Without its card, which is written last, a run is refused."""
    (folder / CARD).unlink()
    with pytest.raises(FormatError, match="interrupted"):
        load_run(folder)


def test_plots_are_the_same_every_time() -> None:
    """The same data gives the same bytes, texts as texts."""
    series = [plots.Series("gate <1>", (Estimate(0.5, 0.4, 0.6), Estimate(None)))]
    first, again = (plots.lines([("F1", series)], [2, 5], "P") for _ in range(2))
    assert first == again
    assert "gate &lt;1&gt;" in first
    assert plots.bars(["a", "b"], series, "share") == plots.bars(["a", "b"], series, "share")


EXPECTED = """
[[set]]
source = "topiocqa"
variant = "v1"
digest = "d1"
[[set.figure]]
metric = "f1_pivot"
value = 0.947
tolerance = 0.001
[[set.figure]]
path = "guarded"
model = "m"
metric = "over_carry"
value = {carry}
tolerance = 0.01
"""


@pytest.mark.parametrize(
    ("carry", "verdicts", "status"), [("0.1", "OK OK", 0), ("0.12", "OK CLOSE", 0), ("0.2", "OK FAIL", 1)]
)
def test_verify_tells_how_far(
    folder: Path, capsys: pytest.CaptureFixture[str], carry: str, verdicts: str, status: int
) -> None:
    """OK, CLOSE and FAIL by tolerance; a failure is the exit status."""
    (folder / "expected.toml").write_text(EXPECTED.format(carry=carry))
    found = checked(load_run(folder), read_expected(folder / "expected.toml"))
    assert " ".join(check.verdict for check in found) == verdicts
    assert verify(verify_arguments(str(folder), "--expected", str(folder / "expected.toml"))) == status
    assert verdicts.split()[1] in capsys.readouterr().out


def test_a_missing_figure_fails(folder: Path) -> None:
    """A figure that the run does not define is a failure, never 0."""
    text = EXPECTED.format(carry=0.0).replace('"m"', '"other"')
    (folder / "expected.toml").write_text(text)
    _, missing = checked(load_run(folder), read_expected(folder / "expected.toml"))
    assert (missing.found, missing.verdict) == (None, Verdict.FAIL)


def test_other_sessions_are_not_verified(folder: Path) -> None:
    """A run of other sessions has nothing to be held against, which is an error."""
    (folder / "expected.toml").write_text(EXPECTED.format(carry=0.0).replace("d1", "d2"))
    with pytest.raises(DataError, match="expects nothing"):
        verify(verify_arguments(str(folder), "--expected", str(folder / "expected.toml")))


def test_the_tolerance_is_inclusive() -> None:
    """A figure that is off by exactly the tolerance is OK."""
    expected = ExpectedFigure(metric="f1_pivot", value=0.95, tolerance=0.01)
    assert Check("x", "f1_pivot", expected, 0.94).verdict is Verdict.OK


def test_a_file_of_expected_figures_is_checked(tmp_path: Path) -> None:
    """A misspelt key is refused."""
    (tmp_path / "e.toml").write_text('[[set]]\nsource = "a"\nvariant = "v1"\ndigest = "d"\nfigures = []\n')
    with pytest.raises(FormatError):
        read_expected(tmp_path / "e.toml")
