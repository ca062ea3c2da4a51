"""Handoffs as rows: what an operator can ask about later, without the text of a chat.

A context handoff is a user turn that was labelled PIVOT: the model goes on without what came before. It is noted once,
at the user's message; the steps of an agent loop under that message are the same turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ColumnElement,
    DateTime,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    select,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from guard.conversation import Conversation
from guard.errors import SettingsError
from serving.decision import Decision
from serving.record import RequestRecord

Row = dict[str, Any]

metadata = MetaData()
handoffs = Table(
    "handoffs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("time", DateTime(timezone=True), nullable=False, index=True),
    Column("decision_id", String(32), nullable=False, index=True),
    Column("prefix_digest", String(64), nullable=False, index=True),
    Column("turn", Integer, nullable=False),
    Column("kind", String(16), nullable=False, comment="context or model"),
    Column("event", String(16), nullable=False, comment="pivot, resume; for a change of model refine"),
    Column("label", String(8)),
    Column("probability", Float),
    Column("thread", Integer),
    Column("kept_messages", Integer, nullable=False),
    Column("dropped_messages", Integer, nullable=False),
    Column("kept_tokens", Integer, nullable=False, comment="estimated"),
    Column("dropped_tokens", Integer, nullable=False, comment="estimated"),
    Column("mode", String(8), nullable=False),
    Column("prefix_authors", JSON, comment="turns of the history by model; null: not known"),
    Column("suffix_model", String(256), nullable=False),
    Column("backend", String(128), nullable=False),
    Column("reason", String(16), comment="of a change of model: client, route, fallback"),
    Column("risk", Float),
    Column("status", Integer, nullable=False, comment="HTTP status of the answer; 0: none"),
    Column("outcome", String(16), nullable=False),
    Column("decision_ms", Float, nullable=False),
    Column("first_byte_ms", Float),
    Column("total_ms", Float, nullable=False),
    Column("content", Text, comment="text of the turn's message; only with log.content: full"),
    Column("requested_model", String(256), comment="what the client asked for; suffix_model is what answered"),
    Column("prefix_model", String(256), comment="the other model that wrote most of what is forwarded; null: none"),
    Column("foreign_messages", Integer, comment="forwarded assistant messages by other models"),
    Column("cleared", Boolean, comment="of a change of model: nothing by another model is forwarded any more"),
    Column("mitigations", String(64), comment="policies that changed the request, by comma"),
    Column("signed", String(64), comment="providers that signed reasoning in what is forwarded, by comma"),
)
"""Changing this table needs a migration in ``serving/migrations``."""


def handoff_rows(record: RequestRecord, *, content: bool) -> list[Row]:
    """The rows of a finished request: none, one, or one of each kind."""
    rows = [context_handoff(record, content=content), model_handoff(record, content=content)]
    return [row for row in rows if row is not None]


def model_handoff(record: RequestRecord, *, content: bool) -> Row | None:
    """The row of a request that another model answered than wrote its history."""
    event, decision, conversation = record.handoff, record.decision, record.conversation
    if event is None or decision is None or conversation is None:
        return None
    text = conversation.messages[conversation.exchanges[-1].user].text
    return {
        "time": datetime.now(UTC),
        "decision_id": event.decision_id,
        "prefix_digest": event.digest,
        "turn": event.turn,
        "kind": event.kind.value,
        "event": event.turn_kind or "undecided",
        "label": event.label or None,
        "probability": event.probability,
        "thread": event.thread,
        "kept_messages": event.kept,
        "dropped_messages": event.dropped,
        "kept_tokens": event.kept_tokens,
        "dropped_tokens": event.dropped_tokens,
        "mode": event.mode.value,
        "prefix_authors": {_storable(model): turns for model, turns in event.prefix.items()},
        "suffix_model": _storable(event.model)[:256],
        "backend": event.backend,
        "reason": event.reason.value,
        "risk": event.risk,
        **_how_it_went(record, decision),
        "content": _storable(text) if content else None,
        "requested_model": _storable(record.model)[:256],
        "prefix_model": _storable(event.prefix_model)[:256] if event.foreign else None,
        "foreign_messages": event.foreign,
        "cleared": event.cleared,
        "mitigations": ",".join(event.mitigations) or None,
        "signed": ",".join(event.signed) or None,
    }


def context_handoff(record: RequestRecord, *, content: bool) -> Row | None:
    """The row of a request that begins a topic or returns to one; None for every other request."""
    decision, conversation = record.decision, record.conversation
    live = decision.verdict.live if decision and decision.verdict else None
    if decision is None or conversation is None or live is None or decision.label != "PIVOT":
        return None
    if not _at_user_message(conversation):
        return None
    return {
        "time": datetime.now(UTC),
        "decision_id": decision.id,
        "prefix_digest": live.digest.hex(),
        "turn": live.index,
        "kind": "context",
        "event": live.kind.value,
        "label": decision.label,
        "probability": live.probability,
        "thread": live.thread,
        "kept_messages": len(decision.kept),
        "dropped_messages": len(decision.dropped),
        "kept_tokens": record.tokens(decision.kept),
        "dropped_tokens": record.tokens(decision.dropped),
        "mode": decision.mode.value,
        "prefix_authors": None,
        "suffix_model": _storable(record.answered or record.model)[:256],
        "backend": record.backend,
        "reason": None,
        "risk": None,
        **_how_it_went(record, decision),
        "content": _storable(conversation.turn_text(live.index)) if content else None,
        "requested_model": _storable(record.model)[:256],
        **dict.fromkeys(("prefix_model", "foreign_messages", "cleared", "mitigations", "signed")),
    }


def _how_it_went(record: RequestRecord, decision: Decision) -> Row:
    return {
        "status": record.status,
        "outcome": record.outcome.value,
        "decision_ms": round(decision.seconds * 1000, 3),
        "first_byte_ms": round(record.first_byte_s * 1000, 3) or None,
        "total_ms": round(record.total_s * 1000, 3),
    }


def _at_user_message(conversation: Conversation) -> bool:
    return len(conversation.exchanges[-1].members) == 1


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\x00", "")


def open_engine(url: str) -> Engine:
    """An engine for the log's URL; connects to nothing yet.

    Raises:
        SettingsError: the URL or its driver is not usable.
    """
    try:
        engine = create_engine(make_url(url), pool_pre_ping=True)
    except ArgumentError:
        raise SettingsError(
            "log.url: want a URL such as sqlite:///handoffs.sqlite3 or postgresql+psycopg://..."
        ) from None
    except ImportError as error:
        raise SettingsError(
            f"log.url: its driver is not installed ({error.name}); PostgreSQL: pivot-guard[postgres]"
        ) from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _sqlite_for_a_log)
    return engine


def sqlite_file(url: str) -> Path | None:
    """The file that a SQLite URL names; None where it names none."""
    file = url.partition("sqlite:///")[2].partition("?")[0] if url.startswith("sqlite:") else ""
    return Path(file) if file and file != ":memory:" else None


def _sqlite_for_a_log(connection: Any, _record: object) -> None:  # noqa: ANN401 - whatever the driver has
    """A killed process leaves a whole file, and readers do not wait for the writer."""
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=5000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows are asked for; None: any."""

    kind: str | None = None
    reason: str | None = None
    suffix_model: str | None = None
    prefix_model: str | None = None
    decision_id: str | None = None
    since: datetime | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """As SQL."""
        columns = {
            name: getattr(self, name) for name in ("kind", "reason", "suffix_model", "prefix_model", "decision_id")
        }
        equal = [handoffs.c[name] == value for name, value in columns.items() if value is not None]
        return [*equal, *([handoffs.c.time >= self.since] if self.since else [])]


ANY = Wanted()


def read_handoffs(engine: Engine, *, limit: int | None, after: int = 0, wanted: Wanted = ANY) -> Iterator[Row]:
    """The newest ``limit`` wanted rows with an id over ``after``, oldest first."""
    matching = select(handoffs).where(handoffs.c.id > after, *wanted.conditions())
    newest = matching.order_by(handoffs.c.id.desc()).limit(limit).subquery()
    with engine.connect() as connection:
        if not inspect(connection).has_table(handoffs.name):
            return  # nothing was ever logged
        for row in connection.execute(select(newest).order_by(newest.c.id)):
            yield row._asdict()


def as_json(row: Row) -> str:
    """A row as one line of JSON."""
    return msgspec.json.encode(row).decode()
