"""What every ledger must do, on memory, SQLite and a real Redis; and how a store is kept out of a request's way."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from guard.authorship import Author
from guard.errors import SettingsError, StoreError
from guard.ports import AuthorshipLedger
from serving.ledger.build import open_ledger
from serving.ledger.layered import LayeredLedger
from serving.ledger.memory import MODELS_A_KEY, MemoryLedger
from serving.ledger.redis import RedisLedger
from serving.ledger.sqlite import SqliteLedger
from serving.settings import LedgerSettings, load
from tests.services import redis_url

HOUR = 3600.0


def author(model: str, at: float | None = None) -> Author:
    return Author(model, "backend", time.time() if at is None else at, requested="alias")


def fresh(count: int = 1) -> list[bytes]:
    return [secrets.token_bytes(16) for _ in range(count)]


@pytest.fixture(params=["memory", "sqlite", pytest.param("redis", marks=pytest.mark.services)])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AuthorshipLedger]:
    made: AuthorshipLedger
    if request.param == "memory":
        made = MemoryLedger(1000, HOUR)
    elif request.param == "sqlite":
        made = SqliteLedger(str(tmp_path / "ledger.sqlite3"), 1000, HOUR)
    else:
        made = RedisLedger(redis_url(), HOUR)
    yield made
    await made.close()


async def test_what_was_said_is_found(ledger: AuthorshipLedger) -> None:
    """A key has its author, whole; another key has none; the order of the question is kept."""
    known, other = fresh(2)
    a = author("a")
    await ledger.record([known], a)
    assert await ledger.lookup([other, known, other]) == [(), (a,), ()]


async def test_several_models_may_say_the_same(ledger: AuthorshipLedger) -> None:
    """Each model that said it is remembered once, with the newest time."""
    (key,) = fresh()
    for at in (1.0, 2.0):
        await ledger.record([key], author("a", time.time() + at))
    await ledger.record([key], author("b"))
    (found,) = await ledger.lookup([key])
    assert sorted(one.model for one in found) == ["a", "b"]


async def test_models_of_a_key_are_bounded(ledger: AuthorshipLedger) -> None:
    """Inventing model names does not grow an entry without end."""
    (key,) = fresh()
    for number in range(MODELS_A_KEY + 5):
        await ledger.record([key], author(f"m{number}", time.time() + number))
    (found,) = await ledger.lookup([key])
    if not isinstance(ledger, SqliteLedger):  # there rows are bounded as a whole
        assert len(found) <= MODELS_A_KEY


async def test_nothing_is_asked_of_nothing(ledger: AuthorshipLedger) -> None:
    """A chat without assistant messages needs no store."""
    assert await ledger.lookup([]) == []


async def test_memory_forgets_the_least_recently_used() -> None:
    """At most ``capacity`` keys stay; a key that was looked up is younger than one that was not."""
    memory = MemoryLedger(2, HOUR)
    one, two, three = fresh(3)
    await memory.record([one, two], author("a"))
    memory.get(one)
    await memory.record([three], author("a"))
    assert [bool(found) for found in await memory.lookup([one, two, three])] == [True, False, True]


async def test_entries_expire(tmp_path: Path) -> None:
    """After its time to live an entry is not found, and takes no room."""
    now = [1000.0]
    memory = MemoryLedger(10, 60, clock=lambda: now[0])
    sqlite = SqliteLedger(str(tmp_path / "l.sqlite3"), 10, 60, clock=lambda: now[0])
    (key,) = fresh()
    for ledger in (memory, sqlite):
        await ledger.record([key], author("a", now[0]))
        assert (await ledger.lookup([key]))[0]
    now[0] += 61
    for ledger in (memory, sqlite):
        assert await ledger.lookup([key]) == [()]
    assert len(memory) == 0
    await sqlite.close()


@pytest.mark.services
async def test_redis_entries_expire() -> None:
    """Redis forgets an entry by itself."""
    ledger = RedisLedger(redis_url(), 1)
    (key,) = fresh()
    await ledger.record([key], author("a"))
    await asyncio.sleep(1.2)
    assert await ledger.lookup([key]) == [()]
    await ledger.close()


async def test_a_file_is_pruned_to_its_bound(tmp_path: Path) -> None:
    """The oldest rows go when the file has too many."""
    ledger = SqliteLedger(str(tmp_path / "l.sqlite3"), 100, HOUR)
    keys = fresh(2000)
    now = time.time()
    for number in range(0, len(keys), 100):
        await ledger.record(keys[number : number + 100], author("a", now + number))
    found = await ledger.lookup(keys)
    assert not any(found[:1000])
    assert all(found[-100:])
    await ledger.close()


async def test_a_file_survives_a_restart(tmp_path: Path) -> None:
    """A second process finds what the first one wrote."""
    path = str(tmp_path / "l.sqlite3")
    (key,) = fresh()
    first = SqliteLedger(path, 100, HOUR)
    await first.record([key], author("a"))
    await first.close()
    second = SqliteLedger(path, 100, HOUR)
    assert (await second.lookup([key]))[0][0].model == "a"
    await second.close()


@pytest.mark.services
async def test_replicas_see_each_others() -> None:
    """What one replica relayed, another recognises; both have their own memory."""
    settings = LedgerSettings(url=redis_url(), budget_ms=2000)
    first, second = open_ledger(settings, lambda: None), open_ledger(settings, lambda: None)
    assert first is not None
    assert second is not None
    (key,) = fresh()
    await first.record([key], author("a"))
    await first.close()
    assert (await second.lookup([key]))[0][0].model == "a"
    await second.close()


class BrokenStore:
    """A store that is down, or that never answers; counts what is asked of it."""

    def __init__(self, *, hangs: bool = False, failures: int | None = None) -> None:
        self.hangs = hangs
        self.failures = failures
        self.asked = 0
        self.written: list[Sequence[bytes]] = []

    async def record(self, keys: Sequence[bytes], author: Author) -> None:
        if self.failures is None or self.failures > 0:
            self.failures = None if self.failures is None else self.failures - 1
            raise StoreError("down")
        self.written.append(keys)

    async def lookup(self, keys: Sequence[bytes]) -> list[tuple[Author, ...]]:
        self.asked += 1
        if self.hangs:
            await asyncio.sleep(60)
        raise StoreError("down")

    async def close(self) -> None:
        pass


def layered(store: BrokenStore, failed: Callable[[], None] = lambda: None, rest_s: float = 5.0) -> LayeredLedger:
    return LayeredLedger(MemoryLedger(100, HOUR), store, budget_s=0.05, failed=failed, rest_s=rest_s)


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_store_that_is_down_costs_knowledge_alone(hangs: bool) -> None:
    """What memory knows is found, the rest is unknown, the failure is counted, and the store then gets some rest."""
    failures: list[None] = []
    store = BrokenStore(hangs=hangs, failures=0)
    ledger = layered(store, lambda: failures.append(None))
    known, other = fresh(2)
    await ledger.record([known], author("a"))
    started = time.monotonic()
    for _ in range(3):
        found = await ledger.lookup([known, other])
        assert [bool(authors) for authors in found] == [True, False]
    assert time.monotonic() - started < 1
    assert (store.asked, len(failures)) == (1, 1)
    await ledger.close()


async def test_a_write_is_tried_until_the_store_is_back() -> None:
    """A store that comes back gets what was said meanwhile."""
    store = BrokenStore(failures=2)
    ledger = layered(store, rest_s=0.01)
    keys = fresh()
    await ledger.record(keys, author("a"))
    await ledger.close()
    assert store.written == [keys]


@pytest.mark.parametrize("url", ["mysql://x", "redis-cluster://x"])
def test_unknown_urls_are_refused(url: str) -> None:
    """A store that does not exist is an error of the settings."""
    with pytest.raises(SettingsError, match=r"ledger\.url"):
        load({"backend": "http://backend", "ledger.url": url}, {})


async def test_the_ledger_can_be_turned_off() -> None:
    """An empty URL means that nothing is remembered."""
    assert open_ledger(LedgerSettings(url=""), lambda: None) is None
