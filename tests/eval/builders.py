"""Short ways to sessions, records and gates."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from eval import pivots, score, verify
from eval.gate import LoadedGate
from eval.records import TurnRecord
from eval.replay import SessionCache
from eval.sessions import Session, SessionTurn
from guard.controller import Label
from guard.guard import Guard
from guard.ports import PivotScorer
from tests.fakes import WordRelevance, WordScorer

LABELS = {"P": Label.PIVOT, "R": Label.REFINE, "U": None}


def loaded_gate(scorer: PivotScorer | None = None) -> LoadedGate:
    """A gate that says PIVOT when a turn shares no word with its topic, ready for replay."""
    cache = SessionCache()
    return LoadedGate(Guard(scorer or WordScorer(), WordRelevance(), cache), cache)


def session(name: str, *turns: str) -> Session:
    """A session from ``U: text`` (no label), ``R: text``, ``P: text``, ``A: text`` and ``S: text`` (system)."""
    parsed = [turn.split(": ", 1) for turn in turns]
    roles = {"A": "assistant", "S": "system"}
    return Session(name, tuple(SessionTurn(roles.get(tag, "user"), text, LABELS.get(tag)) for tag, text in parsed))


def record(label: str | None, predicted: object = None, session: object = "s", **fields: object) -> TurnRecord:
    """A record with the fields that a test cares about."""
    base: dict[str, object] = {
        "source": "test",
        "session": session,
        "position": 2,
        "number": 2,
        "label": label,
        "predicted": predicted,
        "shortlist": (),
    }
    return TurnRecord.model_validate(base | fields)


def score_arguments(*words: str) -> Namespace:
    """Arguments of ``guard-eval score`` as the command line would give them."""
    return _parsed(score.configure, words)


def pivots_arguments(*words: str) -> Namespace:
    """Arguments of ``guard-eval pivots`` as the command line would give them."""
    return _parsed(pivots.configure, words)


def verify_arguments(*words: str) -> Namespace:
    """Arguments of ``guard-eval verify`` as the command line would give them."""
    return _parsed(verify.configure, words)


def _parsed(configure: Callable[[ArgumentParser], None], words: tuple[str, ...]) -> Namespace:
    parser = ArgumentParser()
    configure(parser)
    return parser.parse_args(words)
