"""The handoff log's table across versions, on SQLite and a real PostgreSQL."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, text

import serving.migrate
from guard.errors import StoreError
from serving.handoffs import metadata, open_engine, read_handoffs
from serving.migrate import migrate
from tests.services import postgres_url

SCRIPTS = Path(serving.migrate.__file__).parent / "migrations"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An empty database."""
    if request.param == "sqlite":
        made = open_engine(f"sqlite:///{tmp_path}/log.sqlite3")
        yield made
        made.dispose()
        return
    admin = open_engine(postgres_url())
    schema = f"t{secrets.token_hex(6)}"
    with admin.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {schema}"))
    made = open_engine(f"{postgres_url()}?options=-csearch_path%3D{schema}")
    yield made
    made.dispose()
    with admin.begin() as connection:
        connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
    admin.dispose()


def to_version(engine: Engine, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def test_migrations_make_the_table_that_is_written(engine: Engine) -> None:
    """After all migrations the database has exactly the columns and indexes that the program declares."""
    migrate(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        found = [difference for difference in compare_metadata(context, metadata) if "comment" not in str(difference)]
    assert found == []


def test_a_log_of_an_earlier_version_is_kept(engine: Engine) -> None:
    """Rows that an earlier version wrote are still there, with nulls for what it did not know."""
    to_version(engine, "0001")
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO handoffs (id, time, decision_id, prefix_digest, turn, kind, event, kept_messages,"
                " dropped_messages, kept_tokens, dropped_tokens, mode, suffix_model, backend, status, outcome,"
                " decision_ms, total_ms) VALUES (1, '2026-01-01 00:00:00', 'd', 'p', 1, 'context', 'pivot', 1, 2, 3, 4,"
                " 'enforce', 'm', 'b', 200, 'ok', 1.0, 2.0)"
            )
        )
    migrate(engine)
    (row,) = read_handoffs(engine, limit=10)
    assert (row["decision_id"], row["prefix_model"], row["cleared"]) == ("d", None, None)


def test_replicas_may_start_together(engine: Engine) -> None:
    """Several processes that migrate at once do not trip over each other, and a second time changes nothing."""
    failures: list[BaseException] = []

    def start() -> None:
        try:
            migrate(engine)
        except Exception as error:  # noqa: BLE001 - any failure fails the test
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert inspect(engine).has_table("handoffs")


def test_a_newer_log_is_left_alone(engine: Engine) -> None:
    """A version that does not know the table's form says so and changes nothing."""
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match="newer version"):
        migrate(engine)


def test_an_empty_log_has_no_rows(engine: Engine) -> None:
    """A log that nobody wrote to is empty, not an error."""
    assert list(read_handoffs(engine, limit=10)) == []
