"""Settings of every test."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# Tests run on busy machines, where the time of an example says nothing about the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs only when it is asked for."""
    if "optin" in config.option.markexpr:
        return
    wanted = [item for item in items if "optin" not in item.keywords]
    config.hook.pytest_deselected(items=[item for item in items if "optin" in item.keywords])
    items[:] = wanted
