"""``guard-eval switch-matrix``: what it costs when one model continues another model's conversation."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from eval.backend_options import DEFAULT_CACHE, json_object
from eval.chat_client import ChatClient, ChatReply, Endpoint, ReplayCache
from eval.errors import DataError
from eval.outputs import output_folder
from eval.progress import Progress
from eval.records import RECORDS, RunCard, file_digest, read_card, read_records, write_card, write_records
from eval.report import ReportTable, html, markdown, print_table
from eval.switch.config import ModelConfig, SwitchConfig, load_config
from eval.switch.coqa import load_coqa, load_mtrag_un
from eval.switch.episodes import Benchmark, Episode
from eval.switch.multi_if import load_multi_if
from eval.switch.outcome import Outcome, evaluate, fitted_risk
from eval.switch.protocol import CachedReplies, Plan, SwitchRecord, play
from eval.switch.report import decomposition_table, matrix_table, nothing_measured, paths_table, report
from eval.switch.statistics import FEWEST_EPISODES, REPLICATES
from models.arguments import at_least, natural, positive, positive_number

NAME = "switch-matrix"
HELP = "measure what a change of model in mid-conversation costs (arXiv 2603.03111)"

RISK = "risk.json"
REPORT = "report.md"
REPORT_HTML = "report.html"

BENCHMARK = "multi-if"
LOADERS: dict[str, Callable[[Path, int | None], Benchmark]] = {
    "multi-if": lambda path, turns: _uncut(load_multi_if(path), turns),
    "multi-if-instructions": lambda path, turns: _uncut(load_multi_if(path, by_instruction=True), turns),
    "coqa": load_coqa,
    "mtrag-un": load_mtrag_un,
}


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--models", type=Path, required=True, metavar="FILE", help="YAML: models and paths")
    parser.add_argument("--benchmark", choices=sorted(LOADERS), help=f"default {BENCHMARK}")
    parser.add_argument("--data", type=Path, required=True, metavar="FILE", help="the benchmark's file")
    parser.add_argument(
        "--episodes", type=at_least(FEWEST_EPISODES), metavar="N", help="how many, drawn by the seed (default: all)"
    )
    parser.add_argument("--turns", type=at_least(2), metavar="N", help="cut dialogues to N questions (CoQA)")
    parser.add_argument("--max-tokens", type=positive, metavar="N", help="cap on every answer (default: the server's)")
    parser.add_argument("--extra", type=json_object, default={}, metavar="JSON", help="further fields of every body")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="records, card, report, risk.json")
    parser.add_argument("--seed", type=natural, default=0)
    parser.add_argument(
        "--replicates", type=positive, default=REPLICATES, help=f"bootstrap draws (default {REPLICATES})"
    )
    parser.add_argument(
        "--concurrency", type=positive, default=4, help="requests at once, per model and path (default 4)"
    )
    parser.add_argument(
        "--rate", type=positive_number, metavar="PER_MINUTE", help="requests begun a minute, per model and path"
    )
    parser.add_argument("--retries", type=natural, default=5, help="attempts after a failed one (default 5)")
    parser.add_argument("--timeout", type=positive_number, default=600, metavar="S", help="seconds a request may take")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help=f"answers (default {DEFAULT_CACHE})")
    parser.add_argument("--dry-run", action="store_true", help="print calls, tokens and cost, send nothing")
    parser.add_argument(
        "--cached", action="store_true", help="figures from the answers of an unfinished run, send nothing"
    )
    parser.add_argument("--report-only", action="store_true", help="figures from the records of an earlier run")


def run(arguments: Namespace) -> int:
    """Play the matrix, write its folder, print its tables."""
    config = load_config(arguments.models)
    if arguments.report_only:
        _adopt(arguments, read_card(arguments.out))
    arguments.benchmark = arguments.benchmark or BENCHMARK
    benchmark = LOADERS[arguments.benchmark](_existing(arguments.data), arguments.turns)
    plan = Plan(config.models, config.paths, _drawn(benchmark, arguments), _options(arguments))
    if arguments.dry_run:
        _print_plan(plan)
        return 0
    output_folder(arguments.out)
    card = RunCard.begin(f"guard-eval {NAME}", _plain(arguments), arguments.seed)
    if arguments.report_only:
        records = read_records(arguments.out / RECORDS, SwitchRecord)
    else:
        records = _play(plan, arguments, card)
        write_records(arguments.out / RECORDS, records)
    outcome = evaluate(records, arguments.seed, arguments.replicates)
    _complete_card(card, config, arguments, plan, records)
    _write(arguments.out, benchmark, outcome, records, card, keep_card=arguments.report_only)
    _print(outcome)
    if note := nothing_measured(outcome):
        sys.stdout.write(f"{note}\n")
    return 0


@dataclass
class Meter:
    """Progress with tokens, cost and time left, for people and for log files."""

    progress: Progress
    total: int
    every: int = 20
    began: float = field(default_factory=perf_counter)
    done: int = 0
    failed: int = 0
    tokens: int = 0
    cost: float = 0.0

    def __call__(self, model: ModelConfig, reply: ChatReply | None) -> None:
        self.done += 1
        self.progress.advance()
        if reply is None:
            self.failed += 1
        else:
            self.tokens += (reply.prompt_tokens or 0) + (reply.completion_tokens or 0)
            self.cost += cost_of(model, reply.prompt_tokens or 0, reply.completion_tokens or 0)
        if self.done == self.total or self.done % max(1, self.total // self.every) == 0:
            sys.stderr.write(f"{self.line()}\n")

    def line(self) -> str:
        """One line of progress."""
        spent = perf_counter() - self.began
        left = spent / self.done * (self.total - self.done) if self.done else 0.0
        money = f", cost {self.cost:.4f} of about {self.cost / self.done * self.total:.4f}" if self.cost else ""
        return (
            f"{self.done}/{self.total} calls, {self.failed} failed, {self.tokens} tokens{money}, "
            f"{spent:.0f} s, about {left:.0f} s left"
        )


def cost_of(model: ModelConfig, prompt: int, answer: int) -> float:
    """Price of some tokens; 0 for a model without a price."""
    if model.price is None:
        return 0.0
    return (prompt * model.price.input + answer * model.price.output) / 1e6


def _play(plan: Plan, arguments: Namespace, card: RunCard) -> list[SwitchRecord]:
    cache = ReplayCache(arguments.cache)
    began = perf_counter()
    try:
        return asyncio.run(_play_with(plan, arguments, cache, card))
    finally:
        card.wall_s = perf_counter() - began
        cache.close()


async def _play_with(plan: Plan, arguments: Namespace, cache: ReplayCache, card: RunCard) -> list[SwitchRecord]:
    if arguments.cached:
        cached = CachedReplies(cache)
        return await play(plan, {(m.name, p.name): cached for m in plan.models for p in plan.paths}, lambda *_: None)
    async with AsyncExitStack() as stack:
        clients: dict[tuple[str, str], ChatClient] = {}
        for model in plan.models:
            for path in plan.paths:
                endpoint = replace(_endpoint(model, arguments), headers=path.headers)
                client = ChatClient(endpoint, cache)
                clients[model.name, path.name] = await stack.enter_async_context(client)
        with Progress("switch matrix", plan.calls) as progress:
            at_once = 2 * arguments.concurrency * len(plan.models)
            records = await play(plan, clients, Meter(progress, plan.calls), at_once)
        calls: Counter[str] = Counter()
        for client in clients.values():
            calls.update(client.calls)
        card.calls = dict(calls)
        return records


def _endpoint(model: ModelConfig, arguments: Namespace) -> Endpoint:
    key = os.environ.get(model.api_key_env) if model.api_key_env else None
    if model.api_key_env and not key:
        raise DataError(f"{model.name}: api_key_env: {model.api_key_env} is not set")
    return Endpoint(
        base_url=model.base_url,
        api_key=key,
        concurrency=arguments.concurrency,
        per_minute=arguments.rate,
        retries=arguments.retries,
        timeout_s=arguments.timeout,
    )


def _adopt(arguments: Namespace, card: RunCard) -> None:
    """Take from the card of the run what its answers depend on.

    Raises:
        DataError: the arguments say otherwise, or name another data file.
    """
    for name in ("benchmark", "turns", "max_tokens"):
        given, recorded = getattr(arguments, name), card.arguments.get(name)
        if given not in (None, recorded):
            option = name.replace("_", "-")
            raise DataError(f"--{option} {given}: the run in {arguments.out} had {recorded}; leave it out")
        setattr(arguments, name, recorded)
    digest = file_digest(_existing(arguments.data))
    if digest not in {source.get("sha256") for source in card.sources}:
        raise DataError(f"--data {arguments.data}: not the file that the run in {arguments.out} was made with")


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise DataError(f"--data: no file {path}")
    return path


def _uncut(benchmark: Benchmark, turns: int | None) -> Benchmark:
    if turns is not None:
        raise DataError("--turns: the last turn of Multi-IF carries all its instructions; it cannot be cut")
    return benchmark


def _drawn(benchmark: Benchmark, arguments: Namespace) -> tuple[Episode, ...]:
    """The episodes of the run, in the file's order; a larger draw with the same seed contains a smaller one."""
    every = benchmark.episodes
    if arguments.episodes is None or arguments.episodes >= len(every):
        return every
    order = np.random.default_rng(arguments.seed).permutation(len(every))
    return tuple(every[i] for i in sorted(order[: arguments.episodes]))


def _options(arguments: Namespace) -> dict[str, object]:
    cap = {} if arguments.max_tokens is None else {"max_tokens": arguments.max_tokens}
    return {**arguments.extra, **cap}


def _print_plan(plan: Plan) -> None:
    rows = []
    for model in plan.models:
        prompt, answer = plan.estimate(model)
        price = f"{cost_of(model, prompt, answer):.4f}" if model.price else "-"
        rows.append((model.name, f"{prompt:,}", f"{answer:,}", price))
    caption = f"{len(plan.episodes)} episodes, {plan.calls:,} calls; tokens estimated with answers of full length"
    print_table(caption, ("model", "prompt tokens", "answer tokens", "cost"), rows)


def _complete_card(
    card: RunCard, config: SwitchConfig, arguments: Namespace, plan: Plan, records: list[SwitchRecord]
) -> None:
    card.models = [model.model_dump_json(exclude={"base_url", "api_key_env"}) for model in config.models]
    card.sources = [{"name": arguments.benchmark, "file": arguments.data.name, "sha256": file_digest(arguments.data)}]
    card.sessions = [{"episodes": [episode.id for episode in plan.episodes]}]
    card.failures = dict(Counter(record.error for record in records if record.error))
    card.notes = _seen_by_proxy(records)
    card.choices = [
        "final-turn policy: the suffix model writes the last answer alone",
        "both terms of the decomposition are centred",
        *(f"path {path.name}: headers {json.dumps(path.headers, sort_keys=True)}" for path in config.paths),
        *([f"answers capped at {arguments.max_tokens} tokens"] if arguments.max_tokens else []),
    ]


def _seen_by_proxy(records: list[SwitchRecord]) -> list[str]:
    """Whether the proxy, if there is one, recognised the prefixes of other models: what mitigations depend on."""
    notes = []
    for path in dict.fromkeys(record.path for record in records):
        switched = [r for r in records if r.path == path and r.prefix != r.suffix and not r.error]
        seen = sum("x-guard-handoff" in record.headers for record in switched)
        if any(record.headers for record in switched):
            notes.append(f"path {path}: the proxy saw a handoff in {seen} of {len(switched)} switched answers")
    return notes


def _write(
    folder: Path, benchmark: Benchmark, outcome: Outcome, records: list[SwitchRecord], card: RunCard, *, keep_card: bool
) -> None:
    written = report(benchmark, outcome, records, [*card.choices, *card.notes])
    (folder / REPORT).write_text(markdown(written), encoding="utf-8")
    (folder / REPORT_HTML).write_text(html(written), encoding="utf-8")
    risk = fitted_risk(outcome.baseline.matrix, f"{benchmark.name}, {benchmark.metric}")
    if risk is None:
        (folder / RISK).unlink(missing_ok=True)
    else:
        tree = risk.to_dict() | {"episodes": len(outcome.episodes), "created": card.created, "commit": card.commit}
        (folder / RISK).write_text(json.dumps(tree, indent=2) + "\n", encoding="utf-8")
    if not keep_card:
        write_card(folder, card)


def _print(outcome: Outcome) -> None:
    tables: list[ReportTable] = [matrix_table(path) for path in outcome.paths]
    if outcome.baseline.matrix.decomposition is not None:
        tables.append(decomposition_table(outcome.baseline.matrix.decomposition))
    if len(outcome.paths) > 1:
        tables.append(paths_table(outcome))
    for table in tables:
        print_table(table.caption, table.header, table.rows)


def _plain(arguments: Namespace) -> dict[str, object]:
    return {
        key: str(value) if isinstance(value, Path) else value for key, value in vars(arguments).items() if key != "run"
    }
