"""What clients ask for and operators configure becomes the URL that both meant."""

from __future__ import annotations

import pytest

from serving.errors import ApiError
from serving.urls import api_path, base_url, is_api, join


@pytest.mark.parametrize(
    ("configured", "base"),
    [
        ("http://host:1/v1", "http://host:1/v1"),
        ("http://host:1/v1/", "http://host:1/v1"),
        ("http://host:1", "http://host:1/v1"),
        ("http://host:1/", "http://host:1/v1"),
        ("https://api.z.ai/api/paas/v4/", "https://api.z.ai/api/paas/v4"),
        ("http://host/openai/deployments/gpt", "http://host/openai/deployments/gpt"),
        ("http://host/v1/chat/completions", "http://host/v1"),
    ],
)
def test_configured_urls(configured: str, base: str) -> None:
    """A backend can be given with or without /v1, with a slash, with another prefix, or as a whole endpoint."""
    assert base_url(configured) == base


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        (b"/v1", b""),
        (b"/v1/", b""),
        (b"/v1/models", b"/models"),
        (b"/v1/models/", b"/models"),
        (b"/v1//chat/completions", b"/chat/completions"),
        (b"//v1/chat//completions", b"/chat/completions"),
        (b"/v1/v1/chat/completions", b"/chat/completions"),
        (b"/v1/v1", b""),
        (b"/v1/models/a%2Fb:c", b"/models/a%2Fb:c"),
        (b"/v1/v1beta/x", b"/v1beta/x"),
    ],
)
def test_asked_paths(asked: bytes, path: bytes) -> None:
    """Doubled slashes and a doubled /v1 are the client's slips; escapes are left alone."""
    assert api_path(asked) == path


@pytest.mark.parametrize(
    "asked", [b"/v1/../admin", b"/v1/%2e%2e/admin", b"/v1/a/..", b"/v1/a/%2E./b", b"/v1/..%2fadmin"]
)
def test_climbing_paths_are_refused(asked: bytes) -> None:
    """A client cannot reach pages of the backend's host that are not the API."""
    with pytest.raises(ApiError) as refused:
        api_path(asked)
    assert refused.value.status == 400


def test_queries_keep_their_escapes() -> None:
    """What follows the path is the backend's business."""
    assert join("http://host/v1", b"/models", b"q=%20a&b") == "http://host/v1/models?q=%20a&b"


def test_only_v1_is_the_api() -> None:
    """Other paths are the proxy's own pages."""
    assert [is_api(path) for path in ("/v1", "/v1/x", "//v1/x", "/v10", "/metrics")] == [True, True, True, False, False]
