"""Every client does the same things through the proxy; what worked is collected into a table.

A test says which client it runs and what it shows: ``@pytest.mark.client("openai-python", "streaming")``. With
``CLIENTS_TABLE`` in the environment the table is written to that file: the rows of clients that ran are new, the others
stay.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.backend import Backend, running_backend
from tests.end_to_end.clients.model import converse
from tests.end_to_end.clients.table import Results, as_markdown, merged
from tests.servers import Proxy, running_proxy

RESULTS = pytest.StashKey[Results]()


@pytest.fixture
def backend() -> Iterator[Backend]:
    """A fake model."""
    with running_backend(converse) as running:
        yield running


@pytest.fixture
def proxy(backend: Backend) -> Iterator[Proxy]:
    """A proxy in front of it."""
    with running_proxy(backend.url) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    marker = item.get_closest_marker("client")
    if marker is not None and not report.skipped and (report.when == "call" or report.failed):
        client, feature = marker.args
        results = item.config.stash.setdefault(RESULTS, {})
        worked = results.setdefault(client, {})
        worked[feature] = worked.get(feature, True) and report.passed
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = os.environ.get("CLIENTS_TABLE")
    results = session.config.stash.get(RESULTS, {})
    if path and results:
        page = Path(path)
        earlier = page.read_text(encoding="utf-8") if page.exists() else ""
        page.write_text(as_markdown(merged(earlier, results)), encoding="utf-8")
