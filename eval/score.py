"""``guard-eval score``: how good a gate is on labelled session files."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from eval.gate import LoadedGate, add_gate_arguments, load_gate
from eval.metrics import RECALL_AT_LIMIT, Table
from eval.outputs import output_file
from eval.progress import Progress
from eval.records import TurnRecord, write_records
from eval.replay import Decision, replay
from eval.report import Cell, distinct_names, print_table
from eval.sessions import Session, read_sessions
from guard.policy import Policy
from models.arguments import natural

NAME = "score"
HELP = "score a gate on labelled session files"
FIGURES = (
    "precision_pivot",
    "recall_pivot",
    "f1_pivot",
    "precision_refine",
    "recall_refine",
    "f1_refine",
    "over_carry",
    "false_reset",
    RECALL_AT_LIMIT,
    "needs_met",
    "kept_share",
)


def configure(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="session files, JSON Lines, plain or gzip")
    add_gate_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object keyed by file name, nothing else")
    parser.add_argument("--per-turn", type=Path, metavar="OUT", help="write one record a scored turn, JSON Lines")
    parser.add_argument("--seed", type=natural, default=0, help="seed of the bootstrap")
    parser.add_argument("--draws", type=natural, default=1000, help="resamples of the bootstrap")


def run(arguments: Namespace) -> int:
    """Score the gate that the arguments name."""
    return score(load_gate(arguments), arguments)


def score(gate: LoadedGate, arguments: Namespace) -> int:
    """Score the files and print the figures."""
    policy = Policy(threshold=arguments.threshold)
    if arguments.per_turn is not None:
        output_file(arguments.per_turn)
    results: dict[str, dict[str, object]] = {}
    everything: list[TurnRecord] = []
    for path, name in zip(arguments.files, distinct_names(arguments.files), strict=True):
        sessions = list(read_sessions(path))
        if not sessions:
            sys.stderr.write(f"guard-eval: {path} holds no session: it has no figures\n")
        records = list(score_sessions(gate, sessions, name, policy))
        everything += records
        results[name] = figures(records, len(sessions), arguments.seed, arguments.draws) | gate.facts(policy)
    if arguments.per_turn is not None:
        write_records(arguments.per_turn, everything)
    if arguments.json:
        sys.stdout.write(json.dumps(results, indent=2) + "\n")
    else:
        print_table("Gate on labelled sessions", ["figure", *results], _rows(results))
    return 0


def score_sessions(
    gate: LoadedGate, sessions: Sequence[Session], source: str, policy: Policy, variant: str = ""
) -> Iterator[TurnRecord]:
    """Replay sessions and yield a record for every turn that has a label or needs; the first user turn has none."""
    if sessions:
        list(replay(gate.guard, gate.cache, sessions[0], policy))  # the first decision also loads and allocates
    with Progress(f"gate {source} {variant}".strip(), len(sessions)) as progress:
        for session in sessions:
            for decision in replay(gate.guard, gate.cache, session, policy):
                turn = session.turns[decision.position]
                if decision.number > 1 and (turn.label is not None or turn.needs is not None):
                    yield turn_record(session, decision, source, variant)
            progress.advance()


def turn_record(session: Session, decision: Decision, source: str, variant: str = "") -> TurnRecord:
    """The record of a decision."""
    turn = session.turns[decision.position]
    spoken = None if turn.needs is None else tuple(p for p in turn.needs if session.turns[p].role != "system")
    return TurnRecord(
        path="gate",
        source=source,
        variant=variant,
        session=session.id,
        position=decision.position,
        number=decision.number,
        pivot_turn=session.pivot_turn,
        label=None if turn.label is None else turn.label.value,
        predicted=None if decision.label is None else decision.label.value,
        kind=decision.kind.value,
        probability=decision.probability,
        shortlist=decision.kept,
        gold=session.shortlist(decision.position),
        needs=spoken,
        offered=decision.offered,
        tokens_kept=decision.tokens_kept,
        tokens_offered=decision.tokens_offered,
        milliseconds=decision.milliseconds,
        error=decision.error,
    )


def figures(records: Sequence[TurnRecord], sessions: int, seed: int, draws: int) -> dict[str, object]:
    """The figures of one file; what its turns do not define is None."""
    table = Table(records)
    estimates = table.estimates(FIGURES, np.random.default_rng(seed), draws)
    times = [record.milliseconds for record in records if record.milliseconds is not None]
    p50, p99 = np.quantile(times, [0.5, 0.99]).round(3).tolist() if times else (None, None)
    return {
        "sessions": sessions,
        "pivot_turns": sum(record.label == "PIVOT" for record in records),
        "refine_turns": sum(record.label == "REFINE" for record in records),
        "unscored_turns": sum(record.label is not None and record.predicted is None for record in records),
        "resumed_turns": sum(record.kind in ("resume", "rejoin") for record in records),
        **{name: _rounded(one.value) for name, one in estimates.items()},
        "needs_count": sum(record.needs is not None for record in records),
        "ms_p50": p50,
        "ms_p99": p99,
        "intervals": {
            name: None if one.interval is None else [_rounded(end) for end in one.interval]
            for name, one in estimates.items()
        },
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _rows(results: dict[str, dict[str, object]]) -> list[list[Cell]]:
    keys = [key for key in next(iter(results.values())) if key != "intervals"]
    return [[key, *(_cell(result, key) for result in results.values())] for key in keys]


def _cell(result: dict[str, object], key: str) -> Cell:
    value, intervals = result[key], result["intervals"]
    interval = intervals.get(key) if isinstance(intervals, dict) else None
    if isinstance(value, float) and interval is not None:
        return f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"
    if isinstance(value, float):
        return f"{value:.3f}"
    return "-" if value is None else str(value)
