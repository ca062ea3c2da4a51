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
    """A proxy with default settings and a gate that counts words."""
    with running_proxy(backend.url) as running:
        yield running
