"""From the settings to a ledger."""

from __future__ import annotations

from collections.abc import Callable

from guard.ports import AuthorshipLedger
from serving.ledger.layered import LayeredLedger
from serving.ledger.memory import MemoryLedger
from serving.ledger.redis import RedisLedger
from serving.ledger.sqlite import SqliteLedger
from serving.settings import LedgerSettings

_SQLITE = "sqlite:///"


def open_ledger(settings: LedgerSettings, failed: Callable[[], None]) -> AuthorshipLedger | None:
    """The configured ledger; None where it is turned off. Called inside a running event loop.

    Raises:
        SettingsError: the store cannot be opened, or its client library is not installed.
    """
    if not settings.url:
        return None
    memory = MemoryLedger(settings.capacity, settings.ttl_s)
    if settings.url == "memory":
        return memory
    return LayeredLedger(memory, _store(settings), budget_s=settings.budget_ms / 1000, failed=failed)


def _store(settings: LedgerSettings) -> AuthorshipLedger:
    if settings.url.startswith(_SQLITE):
        return SqliteLedger(settings.url.removeprefix(_SQLITE), settings.store_capacity, settings.ttl_s)
    return RedisLedger(settings.url, settings.ttl_s)
