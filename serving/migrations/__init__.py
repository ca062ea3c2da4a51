"""Migrations of the handoff log, run by ``serving.migrate`` through Alembic."""
