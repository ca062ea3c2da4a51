"""Bring the handoff log's table to the form that this version writes. Safe to call at every start, from any replica."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Engine, text

from guard.errors import StoreError

_SCRIPTS = Path(__file__).parent / "migrations"
_LOCK = 7_316_902_114
"""Names the lock under which one replica migrates while the others wait; any number that nobody else uses."""


def migrate(engine: Engine) -> None:
    """Apply the migrations that are missing.

    Raises:
        SQLAlchemyError: the store cannot be reached or changed.
        StoreError: a newer version has written the table.
    """
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            # The driver begins no transaction for a change of tables; readers would see it half done.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise StoreError(f"handoff log: {error}; a newer version has written it") from error
