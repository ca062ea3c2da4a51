"""Where a model name leads, and which backends are left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.errors import SettingsError
from serving.errors import ApiError
from serving.routing import RetryBudget, Router
from serving.settings import RoutingSettings, load

BACKENDS = [
    {"name": "cloud", "url": "http://cloud", "models": ["gpt-*", "o3"]},
    {"name": "local", "url": "http://local", "models": ["small", "tiny"]},
    {"name": "spare", "url": "http://spare", "models": ["small", "gpt-4o"]},
]
ROUTES = {
    "fast": ["small", {"model": "gpt-4o", "backend": "cloud"}],
    "team-*": [{"model": "tiny", "backend": "local"}],
}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def router(clock: Clock | None = None, **routing: Any) -> Router:  # noqa: ANN401
    settings = load({"backends": BACKENDS, "routes": ROUTES, "routing": routing}, {})
    return Router(settings, clock or Clock())


def led(to: Router, model: str) -> list[tuple[str, str]]:
    return [(target.backend.name, target.model) for target in to.targets(model)]


def test_a_name_leads_to_the_backends_that_serve_it() -> None:
    """Backends are found by name or pattern, in their order; several that serve one model stand in for each other."""
    assert led(router(), "gpt-5-mini") == [("cloud", "gpt-5-mini")]
    assert led(router(), "small") == [("local", "small"), ("spare", "small")]


def test_a_route_replaces_the_name() -> None:
    """An alias leads to its targets in order; a target without backend stands for all that serve it."""
    assert led(router(), "fast") == [("local", "small"), ("spare", "small"), ("cloud", "gpt-4o")]
    assert led(router(), "team-blue") == [("local", "tiny")]


def test_a_model_that_nobody_serves_is_an_error() -> None:
    """The answer is the one that clients know, and repeats no odd bytes."""
    with pytest.raises(ApiError, match="gpx-5") as caught:
        router().targets("gpx-5")
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")


def test_a_request_without_a_model_goes_to_the_first_backend() -> None:
    """What names no model is for the first backend to judge."""
    assert led(router(), "") == [("cloud", "")]


@pytest.mark.parametrize(
    ("routes", "message"),
    [({"a": ["nobody"]}, "no backend serves"), ({"a": [{"model": "small", "backend": "x"}]}, "no backend x"),
     ({"a": []}, "at least 1")],
)  # fmt: skip
def test_routes_that_lead_nowhere_are_refused(routes: dict[str, Any], message: str) -> None:
    """A route is checked at the start, not at its first request."""
    with pytest.raises(SettingsError, match=message):
        load({"backends": BACKENDS, "routes": routes}, {})


def test_a_failing_backend_rests_and_is_tried_again() -> None:
    """After several failures in a row a backend goes to the end of the line; after its rest one failure suffices."""
    clock = Clock()
    made = router(clock, breaker_failures=2, breaker_s=10)
    local = made.targets("small")[0].backend
    made.failed(local)
    assert led(made, "small")[0][0] == "local"
    made.failed(local)
    assert led(made, "small") == [("spare", "small"), ("local", "small")]
    assert made.targets("small")[0].rank == 1
    clock.now = 11
    assert led(made, "small")[0][0] == "local"
    made.failed(local)
    assert led(made, "small")[0][0] == "spare"
    clock.now = 22
    made.succeeded(local)
    made.failed(local)
    assert led(made, "small")[0][0] == "local"


@given(st.lists(st.booleans(), max_size=200), st.floats(0, 1), st.integers(0, 20))
def test_second_attempts_are_a_share_of_requests(spends: list[bool], share: float, burst: int) -> None:
    """However requests and retries are mixed, retries are at most the burst and the share of requests so far."""
    budget = RetryBudget(RoutingSettings(retry_share=share, retry_burst=burst))
    requests = retries = 0
    for spend in spends:
        if spend:
            retries += budget.spend()
        else:
            requests += 1
            budget.earn()
        assert retries <= burst + share * requests + 1e-6


def test_metric_names_are_those_of_the_settings() -> None:
    """Patterns name no model; names of targets and backends do."""
    assert router().model_names == {"o3", "small", "tiny", "gpt-4o"}
