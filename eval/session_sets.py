"""Which data a command takes its sessions from, and the sets of sessions that are cut from it."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from eval import splices
from eval.datasets.registry import Source, load_source
from eval.errors import DataError
from eval.records import json_digest
from eval.sessions import Session, session_json
from models.arguments import at_least, natural, positive

VARIANTS = ("v1", "v2", "v3")
SAMPLES = Path(__file__).parent / "samples"


@dataclass(frozen=True, slots=True)
class SessionSet:
    """Sessions of one variant, cut from one source."""

    source: str
    variant: str
    sessions: tuple[Session, ...]

    def first(self, number: int | None) -> list[Session]:
        """The first ``number`` sessions, or of each P where P varies (V3); all of them for None."""
        if number is None:
            return list(self.sessions)
        taken: Counter[int | None] = Counter()
        first = []
        for session in self.sessions:
            kind = session.pivot_turn if self.variant == "v3" else None
            taken[kind] += 1
            if taken[kind] <= number:
                first.append(session)
        return first

    def facts(self) -> dict[str, object]:
        """What the run card says of it."""
        digest = json_digest([session_json(session) for session in self.sessions])
        return {
            "source": self.source,
            "variant": self.variant,
            "digest": digest,
            **asdict(splices.statistics(self.sessions)),
        }


def add_session_arguments(parser: ArgumentParser) -> None:
    """Declare sources, variants, and how many sessions of what shape."""
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data", action="append", default=[], type=_named_path, metavar="NAME=PATH", help="source; may be repeated"
    )
    data.add_argument("--sample", action="store_true", help="the sample conversations that come with the package")
    data.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    data.add_argument("--sessions", type=positive, default=300, help="sessions of V1 and V2, and of V3 for each P")
    data.add_argument(
        "--most-utterances", type=positive, default=splices.MOST_UTTERANCES, help="longest session of V1, V2"
    )
    data.add_argument(
        "--pivot-turns", nargs="+", type=at_least(2), default=list(splices.PIVOT_TURNS), metavar="P", help="from 2 on"
    )
    data.add_argument("--seed", type=natural, default=0)


def session_sets(source: Source, arguments: Namespace) -> Iterable[SessionSet]:
    """The variants that are asked for, cut from one source."""
    name, digest, seed = source.dataset.name, source.digest, arguments.seed
    if {"v1", "v2"} & set(arguments.variants):
        hard = splices.v1(source.conversations, digest, seed, arguments.sessions, arguments.most_utterances)
        if "v1" in arguments.variants:
            yield SessionSet(name, "v1", tuple(_scorable(hard, source)))
        if "v2" in arguments.variants:
            yield SessionSet(name, "v2", tuple(_scorable(splices.v2(hard, digest, seed), source)))
    if "v3" in arguments.variants:
        late = splices.v3(source.conversations, digest, seed, arguments.sessions, arguments.pivot_turns)
        yield SessionSet(name, "v3", tuple(_scorable(late, source)))


def sources_of(arguments: Namespace) -> list[Source]:
    """The sources that the arguments name.

    Raises:
        DataError: none is named, or one cannot be had.
    """
    given = list(arguments.data)
    if arguments.sample:
        given += [(file.name.removesuffix(".jsonl.gz"), file) for file in sorted(SAMPLES.glob("*.jsonl.gz"))]
    if not given:
        raise DataError("no data: give --data NAME=PATH, or --sample for the conversations that come with the package")
    return [load_source(name, path) for name, path in given]


def _scorable(sessions: Iterable[Session], source: Source) -> Iterable[Session]:
    """Sessions with reference answers only where the data set has such."""
    if source.dataset.scores_answers:
        return sessions
    return [session.without_answers() for session in sessions]


def _named_path(text: str) -> tuple[str, Path]:
    name, separator, path = text.partition("=")
    if not separator or not name:
        raise ArgumentTypeError("NAME=PATH is wanted, e.g. topiocqa=topiocqa_valid.jsonl")
    return name, Path(path)
