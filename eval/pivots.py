"""``guard-eval pivots``: the pivot benchmark of arXiv 2605.09268 on three paths.

gate       no chat model: label from the gate, shortlist = what the selector keeps
unguarded  the model sees the whole history and answers the joint prompt: label and shortlist are its own
guarded    the same model behind the proxy

An interrupted run loses nothing: the same command resumes from the answers in the cache.
"""

from __future__ import annotations

import asyncio
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

from eval.backend_options import add_backend_arguments, endpoint
from eval.chat_client import ChatClient, Endpoint, Pace, ReplayCache
from eval.errors import BackendError, DataError
from eval.gate import LoadedGate, add_gate_arguments, load_gate
from eval.model_paths import Asker, ModelPath, Plan, Task, Turn, turns_of
from eval.outputs import output_folder
from eval.pivots_report import write_reports
from eval.progress import Progress
from eval.prompt import prompt_digests
from eval.proxy import running_proxy
from eval.records import RECORDS, RunCard, TurnRecord, json_digest, write_card, write_records
from eval.report import print_table
from eval.score import score_sessions
from eval.session_sets import SessionSet, add_session_arguments, session_sets, sources_of
from eval.sessions import write_sessions
from guard.policy import Policy
from models.arguments import natural, positive

NAME = "pivots"
HELP = "run the pivot benchmark: gate only, unguarded and guarded chat models"
PATHS = ("gate", "unguarded", "guarded")
CHOICES = (
    "[ours] V3 cuts p in {1..6} user turns of B, as V1 does; its sessions may exceed 20 utterances.",
    "[ours] Draws are hashes of (seed, variant, digest of the source, counter).",
    "[ours] The history in a prompt is the data set's own, whatever the model answered before.",
    "[ours] A malformed answer is retried with its fault named: the same request would bring the same answer.",
    "[ours] top_k is left to --extra: servers that do not know it refuse the request.",
    "[ours] On the guarded path the gate reads the utterances as they are sent, with their numbers in front.",
    "[ours] --structured constrains decoding to the answer's shape and to the numbers of earlier utterances.",
    "[ours] Intervals: percentile bootstrap over sessions, 95 %, 1000 draws unless --draws says otherwise.",
)


def configure(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_session_arguments(parser)
    paths = parser.add_argument_group("paths")
    paths.add_argument("--paths", nargs="+", choices=PATHS, default=["gate"])
    paths.add_argument("--model", action="append", default=[], help="chat model at the server; may be repeated")
    paths.add_argument("--reasoning", action="append", default=[], metavar="MODEL", help="a model that reasons first")
    paths.add_argument(
        "--model-sessions", type=positive, help="chat models get the first N sessions of each set only, in V3 of each P"
    )
    paths.add_argument("--repeats", type=positive, default=2, help="runs of each chat model (default 2)")
    paths.add_argument("--answers", action="store_true", help="also ask plainly, where answers can be scored")
    paths.add_argument("--structured", action="store_true", help="constrain decoding to the joint answer's schema")
    paths.add_argument("--max-tokens", type=natural, default=256, help="longest answer (default 256)")
    paths.add_argument("--violation-retries", type=natural, default=2, help="attempts after a malformed answer")
    paths.add_argument("--guard-url", help="a running proxy (default: start guard-serve)")
    add_gate_arguments(parser)
    add_backend_arguments(parser)
    parser.add_argument("--draws", type=natural, default=1000, help="resamples of the bootstrap")
    parser.add_argument("--out", type=Path, default=Path("run"), help="run folder (default run)")


def run(arguments: Namespace) -> int:
    """Run the benchmark with the gate that the arguments name."""
    return benchmark(load_gate(arguments), arguments)


def benchmark(gate: LoadedGate, arguments: Namespace) -> int:
    """Build the sessions, walk the paths, and write records, card and reports."""
    started = time.monotonic()
    models = [path for path in arguments.paths if path != "gate"]
    if models and not arguments.model:
        raise DataError("--model is needed for the paths " + " and ".join(models))
    sources = list(sources_of(arguments))
    sets = [one for source in sources for one in session_sets(source, arguments)]
    policy = Policy(threshold=arguments.threshold)
    if arguments.dry_run:
        _print_plan(gate, policy, sets, arguments)
        return 0
    out = output_folder(arguments.out)
    shown = {key: _shown(value) for key, value in vars(arguments).items() if key not in ("run", "command")}
    card = RunCard.begin("guard-eval pivots", shown, arguments.seed)
    card.gate = gate.facts(policy)
    card.models = list(arguments.model)
    card.reasoning = list(arguments.reasoning)
    card.sources = [source.facts() for source in sources]
    card.sessions = [one.facts() for one in sets]
    card.prompts = prompt_digests()
    card.choices = list(CHOICES)
    records = gate_records(gate, policy, sets) if "gate" in arguments.paths else []
    for one in sets:
        write_sessions(out / f"{one.source}-{one.variant}.jsonl.gz", one.sessions)
    if models:
        records += asyncio.run(model_records(gate, policy, sets, arguments, card))
    write_records(out / RECORDS, records)
    card.failures = dict(Counter(record.error for record in records if record.error))
    card.failures |= Counter(f"malformed: {slug}" for record in records for slug in record.violations)
    card.wall_s = round(time.monotonic() - started, 1)
    write_card(out, card)
    for table in write_reports([out], out, arguments.draws):
        print_table(table.caption, table.header, table.rows)
    return 0


def gate_records(gate: LoadedGate, policy: Policy, sets: Sequence[SessionSet]) -> list[TurnRecord]:
    """The path without a chat model."""
    return [record for one in sets for record in score_sessions(gate, one.sessions, one.source, policy, one.variant)]


async def model_records(
    gate: LoadedGate, policy: Policy, sets: Sequence[SessionSet], arguments: Namespace, card: RunCard
) -> list[TurnRecord]:
    """The paths with a chat model; the card gets the counts of calls.

    Paths take turns, a few sessions each: whatever else the machine does in the meantime slows them alike.

    Raises:
        BackendError: no call was answered, or many in a row were not.
    """
    paths = [path for path in PATHS if path != "gate" and path in arguments.paths]
    asked = schedule(gate, policy, sets, arguments)
    records: list[TurnRecord] = []
    async with AsyncExitStack() as stack:
        cache = stack.enter_context(closing(ReplayCache(arguments.cache)))
        progress = stack.enter_context(Progress("chat models", sum(len(turns) for _, turns in asked)))
        clients = {}
        pace = Pace(arguments.rate)
        for path in paths:
            target = await stack.enter_async_context(_endpoint(path, arguments))
            clients[path] = await stack.enter_async_context(ChatClient(target, cache, pace))
        askers = {path: Asker(client, progress) for path, client in clients.items()}
        for plan, turns in asked:
            records += await askers[plan.path].ask(plan, turns)
        errors = [asker.last_error for asker in askers.values() if asker.last_error]
        if errors and all(record.error == "backend" for record in records):
            raise BackendError(f"every call failed; the last: {errors[-1]}")
        for path, client in clients.items():
            card.calls |= {f"{path}: {key}": count for key, count in client.calls.items()}
    return records


def plans(gate: LoadedGate, policy: Policy, arguments: Namespace, model: str) -> Iterator[Plan]:
    """Every run of a model: paths, tasks, repeats."""
    options: dict[str, object] = {"temperature": 0, "top_p": 0.9}
    if arguments.max_tokens:
        options["max_tokens"] = arguments.max_tokens
    options |= arguments.extra
    tasks: tuple[Task, ...] = ("joint", "answer") if arguments.answers else ("joint",)
    salts: dict[ModelPath, str] = {"unguarded": "", "guarded": json_digest(gate.facts(policy))}
    for path, salt in salts.items():
        for task in tasks if path in arguments.paths else ():
            for repeat in range(arguments.repeats):
                yield Plan(
                    path,
                    model,
                    task,
                    repeat,
                    options,
                    structured=arguments.structured,
                    violation_retries=arguments.violation_retries,
                    salt=salt,
                )


def batches(
    gate: LoadedGate, policy: Policy, sets: Sequence[SessionSet], arguments: Namespace
) -> Iterator[dict[Task, list[Turn]]]:
    """The turns of each task, a few sessions at a time."""
    tasks = {plan.task for model in arguments.model for plan in plans(gate, policy, arguments, model)}
    for one in sets:
        sessions = one.first(arguments.model_sessions)
        for begin in range(0, len(sessions), arguments.concurrency):
            few = sessions[begin : begin + arguments.concurrency]
            yield {task: list(turns_of(gate, policy, task, few, one.source, one.variant)) for task in tasks}


def schedule(
    gate: LoadedGate, policy: Policy, sets: Sequence[SessionSet], arguments: Namespace
) -> list[tuple[Plan, list[Turn]]]:
    """What is asked, in order: of each model a few sessions on every path, then the next few.

    The path that begins alternates: until the pivot both send the same, and the second finds it in the server's cache.
    """
    turns = list(batches(gate, policy, sets, arguments))
    return [
        (plan, batch[plan.task])
        for model in arguments.model
        for number, batch in enumerate(turns)
        for plan in list(plans(gate, policy, arguments, model))[:: -1 if number % 2 else 1]
    ]


@asynccontextmanager
async def _endpoint(path: str, arguments: Namespace) -> AsyncIterator[Endpoint]:
    if path == "unguarded":
        yield endpoint(arguments)
    elif arguments.guard_url:
        yield endpoint(arguments, arguments.guard_url)
    else:
        settings = {
            "gate.artifact": arguments.gate,
            "gate.threads": arguments.threads,
            "gate.budget_ms": 60_000,
            "policy.threshold": arguments.threshold,
            "log.url": "",
        }
        backend = endpoint(arguments)
        async with running_proxy(backend.base_url, settings, arguments.out / "guard-serve.log") as url:
            yield endpoint(arguments, url)


def _print_plan(gate: LoadedGate, policy: Policy, sets: Sequence[SessionSet], arguments: Namespace) -> None:
    counts: dict[tuple[str, str, str, str], list[int]] = {}
    for plan, turns in schedule(gate, policy, sets, arguments):
        count = counts.setdefault((plan.model, plan.path, plan.task, str(plan.repeat + 1)), [0, 0])
        count[0] += len(turns)
        guarded = plan.path == "guarded"
        count[1] += sum(turn.decision.tokens_kept if guarded else turn.decision.tokens_offered for turn in turns)
    rows = [
        (*key, f"{calls:,}", f"{tokens:,}", f"{calls * arguments.max_tokens:,}")
        for key, (calls, tokens) in counts.items()
    ]
    header = ("model", "path", "task", "run", "calls", "prompt tokens (estimate)", "answer tokens (at most)")
    print_table("Calls, if no answer has to be asked for twice", header, rows)


def _shown(value: object) -> object:
    """An argument as JSON; paths by their names, which are the same on every machine."""
    if isinstance(value, Path):
        return value.name
    if isinstance(value, list | tuple):
        return [_shown(one) for one in value]
    return value
