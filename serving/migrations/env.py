"""How Alembic runs the migrations: on the connection that it is given, in its transaction."""

from __future__ import annotations

from alembic import context

from serving.handoffs import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters a table by copying it
    transactional_ddl=False,  # the caller's transaction holds all of it
)
context.run_migrations()
