"""The stages of ``guard-train`` in order: data, training, artifact.

A second round, if it is asked for, trains on freshly drawn samples and on those among many that the first round gets
wrong. A run keeps its state in a folder beside the artifact; a stopped one goes on from there.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer
from transformers import BertForSequenceClassification

from models.artifact import WEIGHTS_FILE, DataSource, Manifest, sha256
from models.training import authored, development
from models.training.base import DEFAULT, find_base, origin
from models.training.batches import spec_of
from models.training.checks import FALSE_RESETS, Checker
from models.training.dialogue import Dialogue, Genre
from models.training.errors import TrainingError
from models.training.finish import Facts, finish
from models.training.loop import Draw, Plan, Trainer
from models.training.material import Material
from models.training.mining import hard
from models.training.mixture import Mixture
from models.training.network import load_network, load_tokenizer
from models.training.progress import Progress
from models.training.samples import Sample
from models.training.sources import SHIPPABLE, files, load
from models.window import WindowSpec

log = logging.getLogger(__name__)

FIRST = Plan(steps=4500)
SECOND = Plan(steps=0, rate=4e-5, warm_up=0.05, check_every=150)
MINED_SHARE = 0.4
"""Of the second round's samples."""

TIMES: dict[Genre, int] = {"chat": 6, "qa": 5}
"""How often the project's own chats of a genre count, beside the larger and less varied sources of that genre."""

DRAWN_A_STEP = 8
"""Samples drawn for mining, a step of the first round."""


@dataclass(frozen=True, slots=True)
class Options:
    """What one run is.

    Attributes:
        data: folder of ``NAME.jsonl.gz``.
        out: the artifact's folder.
        chats: folder of the project's own chats.
        base: encoder to start from: folder, package or hub id.
        seed: of everything that is drawn.
        first: plan of the first round.
        second: plan of the second, on mined samples; without steps there is none.
        false_resets: share of natural refinements that the threshold may reset.
        window: tokens of the window that is served.
        sessions: sessions of a row that is measured.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        threads: CPU threads; 0 leaves torch's own choice.
        version: of the weights, for the manifest.
    """

    data: Path
    out: Path
    chats: Path = authored.CHATS
    base: str = DEFAULT
    seed: int = 0
    first: Plan = FIRST
    second: Plan = SECOND
    false_resets: float = FALSE_RESETS
    window: int = 96
    sessions: int = 120
    device: str = "cpu"
    threads: int = 0
    version: str = "0"

    @property
    def work(self) -> Path:
        """Folder of the run's state."""
        return self.out.with_name(self.out.name + ".training")

    def rounds(self) -> tuple[Plan, Plan]:
        """The plans with their seeds."""
        return replace(self.first, seed=self.seed), replace(self.second, seed=self.seed + 1)


@dataclass(frozen=True, slots=True)
class Data:
    """What is trained on, and what is not.

    Attributes:
        pool: dialogues to train on.
        held_back: dialogues of the same sources that measure.
        sources: for the manifest.
    """

    pool: list[Dialogue]
    held_back: list[Dialogue]
    sources: tuple[DataSource, ...]


def train_gate(options: Options, *, resume: bool = False) -> Manifest:
    """Make an artifact.

    Raises:
        TrainingError: data, base or folder are not what training needs.
    """
    data = gather(options.data, options.chats)
    base = find_base(options.base)
    name, inherited = origin(options.base, base)
    _claim(options, data, base, resume=resume)
    if options.threads:
        torch.set_num_threads(options.threads)
    spec = spec_of(options.window)
    rows = development.build(options.data, data.held_back, options.seed, options.sessions)
    log.info("%d dialogues to train on, %d held back", len(data.pool), len(data.held_back))
    tokenizer = load_tokenizer(base)
    check = Checker(rows.chosen_by, tokenizer, spec, options.seed)
    network = _fit(options, base, tokenizer, spec, Mixture(Material(data.pool)), check)
    sources = data.sources + tuple(source for source in inherited if source.name not in {s.name for s in data.sources})
    facts = Facts(name, options.version, sources, options.seed, spec, options.false_resets)
    return finish(network, tokenizer, rows, facts, options.out)


def gather(folder: Path, chats: Path) -> Data:
    """Load what may be trained on: the allow list's files, and the project's own chats. Other files are not read.

    Raises:
        TrainingError: there is nothing, or a file is malformed.
    """
    pool, held_back, sources = _authored(chats)
    for source, path in files(folder, SHIPPABLE).items():
        trained = [dialogue for dialogue in load(path, source) if not dialogue.held_back]
        pool += trained
        held_back += [dialogue for dialogue in load(path, source, answers=True) if dialogue.held_back]
        sources.append(
            DataSource(name=source.name, licence=source.licence, dialogues=len(trained), sha256=sha256(path))
        )
    if not pool:
        names = ", ".join(source.name for source in SHIPPABLE)
        raise TrainingError(f"{folder} holds none of the files that may be trained on (NAME.jsonl.gz of: {names})")
    return Data(pool, held_back, tuple(sources))


def _authored(chats: Path) -> tuple[list[Dialogue], list[Dialogue], list[DataSource]]:
    dialogues = authored.load_chats(chats)
    pool = [dialogue for dialogue in dialogues if not dialogue.held_back]
    count = len({authored.chat_of(dialogue) for dialogue in pool})
    source = DataSource(name=authored.SOURCE, licence="Apache-2.0", dialogues=count)
    held_back = [dialogue for dialogue in dialogues if dialogue.held_back]
    repeated = [dialogue for dialogue in pool for _ in range(TIMES.get(dialogue.genre, 1))]
    return repeated, held_back, [source] if dialogues else []


def _fit(
    options: Options, base: Path, tokenizer: Tokenizer, spec: WindowSpec, mixture: Mixture, check: Checker
) -> BertForSequenceClassification:
    first, second = options.rounds()
    progress = Progress(first.steps + second.steps)
    network = load_network(base, options.seed).to(options.device)
    Trainer(network, tokenizer, spec, first, options.work / "first").run(mixture.draw, check, progress)
    if second.steps:
        mined = _mined(network, mixture, check, options)
        draw = _half_mined(mixture, mined)
        Trainer(network, tokenizer, spec, second, options.work / "second").run(draw, check, progress)
    return network


def _mined(network: BertForSequenceClassification, mixture: Mixture, check: Checker, options: Options) -> list[Sample]:
    """Hard samples; their positions are remembered, so that a resumed run need not score again."""
    rng = Random(f"{options.seed}:mine")  # noqa: S311 - not for secrets
    drawn = mixture.draw(rng, options.first.steps * DRAWN_A_STEP)
    path = options.work / "mined.json"
    if not path.exists():
        found = hard(drawn, check.logits(network, drawn), check.threshold(network))
        log.info("%d of %d samples are hard", len(found), len(drawn))
        path.write_text(json.dumps(found))
    return [drawn[position] for position in json.loads(path.read_text())]


def _half_mined(mixture: Mixture, mined: Sequence[Sample]) -> Draw:
    def draw(rng: Random, count: int) -> list[Sample]:
        old = round(count * MINED_SHARE) if mined else 0
        samples = mixture.draw(rng, count - old) + mixture.vary(rng, rng.choices(mined, k=old) if old else [])
        rng.shuffle(samples)
        return samples

    return draw


def _claim(options: Options, data: Data, base: Path, *, resume: bool) -> None:
    """Take the run's folder: a new one, or with ``resume`` that of the same run."""
    asked = {
        "seed": options.seed,
        "window": options.window,
        "rounds": [asdict(plan) for plan in options.rounds()],
        "base": sha256(base / WEIGHTS_FILE) if (base / WEIGHTS_FILE).is_file() else str(base),
        "data": {source.name: [source.sha256, source.dialogues] for source in data.sources},
    }
    path = options.work / "run.json"
    if path.is_file():
        if not resume:
            raise TrainingError(f"{options.work} holds an earlier run: go on with --resume, or remove it")
        if json.loads(path.read_text("utf-8")) != json.loads(json.dumps(asked)):
            raise TrainingError(f"{options.work} holds another run (seed, steps, base or data differ): remove it")
        return
    options.work.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asked, indent=1), "utf-8")
