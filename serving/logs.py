"""The process log: one line a request at most, no keys, no message text."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

from serving.record import RequestRecord
from serving.settings import Logging

logger = logging.getLogger("serving.request")

_LONGEST_NAME = 256
_CUT_NOTICE = "ASGI callable returned without completing response."


class JsonFormatter(logging.Formatter):
    """One JSON object a line; what is under ``fields`` of the record becomes its keys."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class TextFormatter(logging.Formatter):
    """The same for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{key}={_one_line(value)}" for key, value in getattr(record, "fields", {}).items())
        return f"{super().format(record)} {fields}".rstrip()


def _one_line(value: object) -> str:
    """A value with what is unprintable in it escaped: clients choose names, and none may begin a line of the log."""
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class _NoCutNotice(logging.Filter):
    """The server calls an uncompleted answer an error; here it is how a cut is passed on, and counted elsewhere."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.getMessage() != _CUT_NOTICE


def configure(settings: Logging) -> None:
    """Send the process log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    # Nothing of this is shown; collecting it for every line is not free.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    quiet_cuts()


def quiet_cuts() -> None:
    """Keep the server's notices about cut answers out of the log."""
    server = logging.getLogger("uvicorn.error")
    if not any(isinstance(known, _NoCutNotice) for known in server.filters):
        server.addFilter(_NoCutNotice())


class RequestLog:
    """Writes the line of each request."""

    def finish(self, record: RequestRecord) -> None:
        """Log a finished request."""
        if logger.isEnabledFor(logging.INFO):
            # Made by hand: looking for the calling line would cost as much as all the rest.
            line = logging.LogRecord(logger.name, logging.INFO, __file__, 0, "request", (), None)
            line.__dict__["fields"] = _fields(record)
            logger.handle(line)


def _fields(record: RequestRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "method": record.method,
        "path": record.path,
        "status": record.status,
        "outcome": record.outcome.value,
        "backend": record.backend,
        "total_ms": round(record.total_s * 1000, 2),
    }
    decision = record.decision
    if decision is not None:
        fields |= {
            "model": record.model[:_LONGEST_NAME],
            "decision_id": decision.id,
            "mode": decision.mode.value,
            "guard": decision.status,
            "label": decision.label,
            "kept": len(decision.kept),
            "dropped": len(decision.dropped),
            "overhead_ms": round(record.overhead_s * 1000, 2),
        }
    if record.answered not in ("", record.model):
        fields["answered"] = record.answered[:_LONGEST_NAME]
    if len(record.attempts) > 1:
        fields["attempts"] = [f"{one.backend}: {one.result}" for one in record.attempts]
    if record.handoff is not None:
        fields |= {
            "handoff": record.handoff.reason.value,
            "prefix": dict(record.handoff.prefix),
            "foreign": record.handoff.foreign,
            "risk": record.handoff.risk,
        }
    return fields
