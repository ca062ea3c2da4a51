"""The real servers that tests marked ``services`` use; where one does not answer, its tests are skipped."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

import pytest


def redis_url() -> str:
    """A Redis server for tests."""
    return _answering(os.environ.get("GUARD_TEST_REDIS", "redis://127.0.0.1:6379/9"), 6379)


def postgres_url() -> str:
    """A PostgreSQL database for tests, as SQLAlchemy writes it."""
    return _answering(os.environ.get("GUARD_TEST_POSTGRES", "postgresql+psycopg://postgres@127.0.0.1:5432/test"), 5432)


def _answering(url: str, port: int) -> str:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "127.0.0.1", parts.port or port), timeout=1).close()
    except OSError:
        pytest.skip(f"no server at {parts.hostname}:{parts.port or port}")
    return url
