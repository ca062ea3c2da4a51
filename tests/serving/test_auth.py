"""Whose key opens the proxy, and whose goes upstream."""

from __future__ import annotations

import pytest

from tests.backend import Backend
from tests.http import ask, chat
from tests.servers import running_proxy


def test_without_client_keys_the_clients_own_key_goes_upstream(backend: Backend) -> None:
    """The proxy is transparent where nobody configured a key."""
    with running_proxy(backend.url) as proxy:
        assert ask(proxy.port, body=chat("hi"), headers={"authorization": "Bearer client"}).status == 200
        assert backend.last.header("authorization") == "Bearer client"


@pytest.mark.parametrize("name", ["authorization", "api-key", "x-api-key", "x-goog-api-key"])
def test_a_backends_key_replaces_the_clients(backend: Backend, name: str) -> None:
    """A configured key is the only credential that the backend sees, and no client sees it."""
    with running_proxy(backend.url, backend_key="sk-backend") as proxy:
        for path in ("/v1/chat/completions", "/v1/embeddings"):
            answer = ask(proxy.port, path=path, body=chat("hi"), headers={name: "client"})
            assert backend.last.header("authorization") == "Bearer sk-backend"
            assert "client" not in [value for _, value in backend.last.headers]
            assert b"sk-backend" not in answer.body
            assert "sk-backend" not in str(answer.headers)


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic sk-one"}, {"x-guard-key": ""}]
)
def test_without_a_right_key_nothing_is_forwarded(backend: Backend, headers: dict[str, str]) -> None:
    """No or a wrong key is a 401 in the OpenAI shape, on every path."""
    with running_proxy(backend.url, auth__client_keys="sk-one,sk-two") as proxy:
        for path in ("/v1/chat/completions", "/v1/models"):
            answer = ask(proxy.port, path=path, body=chat("hi"), headers=headers)
            assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
    assert backend.requests == []


@pytest.mark.parametrize(
    "headers", [{"authorization": "Bearer sk-two"}, {"authorization": "bearer sk-one"}, {"x-api-key": "sk-one"}]
)
def test_a_key_of_the_guard_opens_it_and_stays(backend: Backend, headers: dict[str, str]) -> None:
    """A client key is accepted where clients put keys, and never forwarded."""
    with running_proxy(backend.url, auth__client_keys="sk-one,sk-two") as proxy:
        assert ask(proxy.port, body=chat("hi"), headers=headers).status == 200
        assert "sk-" not in str(backend.last.headers)


def test_a_client_can_bring_a_key_for_each(backend: Backend) -> None:
    """With the guard's key in its own header, authorization is for the backend."""
    with running_proxy(backend.url, auth__client_keys="sk-one") as proxy:
        headers = {"x-guard-key": "sk-one", "authorization": "Bearer sk-mine"}
        assert ask(proxy.port, body=chat("hi"), headers=headers).status == 200
        assert backend.last.header("authorization") == "Bearer sk-mine"
        assert "sk-one" not in str(backend.last.headers)


def test_a_preflight_needs_no_key(backend: Backend) -> None:
    """A browser cannot send one with the question; the backend's key is not put on it either."""
    with running_proxy(backend.url, auth__client_keys="sk-one", backend_key="sk-backend") as proxy:
        headers = {"origin": "http://page", "access-control-request-method": "POST"}
        assert ask(proxy.port, "OPTIONS", headers=headers).status == 200
        assert "sk-" not in str(backend.requests)
