"""``guard-train``: from a data folder to an artifact, in one command."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from guard.errors import GuardError
from models.arguments import natural, positive, positive_number, probability
from models.training.authored import CHATS
from models.training.base import DEFAULT

NEEDED = ("onnx", "torch", "transformers")


def main(arguments: Sequence[str] | None = None) -> int:
    """Train a gate; the result is the exit status."""
    given = _parser().parse_args(arguments)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f"guard-train: {', '.join(missing)} not installed; pip install 'pivot-guard[train]'", file=sys.stderr)
        return 2
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("models").setLevel(logging.INFO)
    try:
        return _train(given)
    except GuardError as error:
        print(f"guard-train: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("guard-train: stopped; the same command with --resume goes on", file=sys.stderr)
        return 130


def _train(given: argparse.Namespace) -> int:
    # Here and not at the top: help and wrong arguments should not wait for torch.
    from transformers.utils import logging as transformers_logging

    from models.training.pipeline import FIRST, SECOND, Options, train_gate

    transformers_logging.set_verbosity_error()  # that a fresh head is not in the encoder's weights is no news
    transformers_logging.disable_progress_bar()

    options = Options(
        data=given.data,
        out=given.out,
        chats=given.chats,
        base=given.base,
        seed=given.seed,
        first=replace(FIRST, steps=given.steps or FIRST.steps, rate=given.rate or FIRST.rate),
        second=replace(SECOND, steps=given.mined_steps),
        false_resets=given.false_resets,
        sessions=given.sessions,
        device=given.device,
        threads=given.threads,
        version=given.version,
    )
    manifest = train_gate(options, resume=given.resume)
    print(f"{given.out}: {manifest.name} {manifest.version}, threshold {manifest.threshold:.4f}; figures in README.md")
    print(f"{options.work} holds the run's checkpoints and can be removed")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="guard-train", description="Train a pivot gate, from data folder to artifact."
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder of NAME.jsonl.gz; see models/training/sources.py"
    )
    parser.add_argument("--out", type=Path, required=True, help="the artifact's folder; checkpoints go to OUT.training")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn (default 0)")
    parser.add_argument("--steps", type=positive, help="batches of 48 samples (default 4500)")
    parser.add_argument(
        "--rate", type=positive_number, help="peak learning rate (default 1.2e-4; to go on from a gate: 4e-5)"
    )
    parser.add_argument("--mined-steps", type=natural, default=0, help="of a second round, on hard samples (default 0)")
    parser.add_argument(
        "--base",
        default=DEFAULT,
        help=f"BERT encoder, or a gate to go on from: folder, package or hub id (default {DEFAULT})",
    )
    parser.add_argument("--resume", action="store_true", help="go on with a run that was stopped")
    parser.add_argument(
        "--chats", type=Path, default=CHATS, help="folder of labelled chats (default: the project's own)"
    )
    parser.add_argument(
        "--sessions", type=positive, default=120, help="sessions of a row that is measured (default 120)"
    )
    parser.add_argument(
        "--false-resets",
        type=probability,
        default=0.01,
        help="share of natural refinements that may be reset (default 0.01)",
    )
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda or cuda:N")
    parser.add_argument("--threads", type=natural, default=0, help="CPU threads (default: torch's choice)")
    parser.add_argument("--version", default="0", help="of the weights, for the manifest")
    return parser


if __name__ == "__main__":
    sys.exit(main())
