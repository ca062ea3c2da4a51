"""A backend and a proxy in front of it, both real servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.backend import Backend, running_backend
from tests.servers import Proxy, running_proxy


@pytest.fixture
def backend() -> Iterator[Backend]:
    """A fake OpenAI backend."""
    with running_backend() as running:
        yield running


@pytest.fixture
def proxy(backend: Backend) -> Iterator[Proxy]:
    """A proxy whose gate counts words, however long that takes on a busy machine."""
    with running_proxy(backend.url, gate__budget_ms=60_000) as running:
        yield running
