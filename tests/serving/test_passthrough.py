"""Everything under /v1 that is not guarded."""

from __future__ import annotations

import pytest

from tests.backend import Backend, Received, Wire
from tests.http import ask, chat
from tests.servers import Proxy, running_proxy


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_methods_and_paths_pass(backend: Backend, proxy: Proxy, method: str) -> None:
    """Method, path, query and body reach the backend as they are."""
    body = b"\x00\xff not json" if method != "GET" else None
    answer = ask(proxy.port, method, "/v1/files/a%20b?x=%2F&y", body)
    assert (answer.status, answer.body) == (200, b'{"object":"list","data":[]}')
    assert (backend.last.method, backend.last.target) == (method, "/v1/files/a%20b?x=%2F&y")
    assert backend.last.body == (body or b"")
    assert "x-guard-status" not in answer.headers


def test_head_and_options_pass(backend: Backend, proxy: Proxy) -> None:
    """Methods without a body in question or answer work."""
    assert ask(proxy.port, "HEAD", "/v1/models").headers["content-length"] == "7"
    assert ask(proxy.port, "OPTIONS", "/v1/models").status == 200
    assert [request.method for request in backend.requests] == ["HEAD", "OPTIONS"]


def test_no_header_is_added(backend: Backend, proxy: Proxy) -> None:
    """A backend sees the client's headers, its own name as host, and nothing else."""
    ask(proxy.port, "GET", "/v1/models", headers={"user-agent": "client/1", "x-custom": "1"})
    seen = {name.lower(): value for name, value in backend.last.headers}
    assert seen == {
        "host": f"127.0.0.1:{backend.port}",
        "user-agent": "client/1",
        "x-custom": "1",
        "accept-encoding": "identity",
    }


def test_uploads_without_a_length_are_streamed(backend: Backend, proxy: Proxy) -> None:
    """A body in chunks arrives whole, however long it is."""
    pieces = [b"a" * 300_000, b"b" * 300_000, b"c"]
    answer = ask(proxy.port, "POST", "/v1/files", iter(pieces), {"transfer-encoding": "chunked"})
    assert answer.status == 200
    assert backend.last.body == b"".join(pieces)


def test_large_bodies_keep_their_length(backend: Backend, proxy: Proxy) -> None:
    """A long body is sent with its length, on guarded paths too."""
    for path, body in (("/v1/files", b"x" * 3_000_000), ("/v1/chat/completions", chat("x" * 3_000_000))):
        assert ask(proxy.port, path=path, body=body).status == 200
        assert backend.last.body == body
        assert backend.last.header("content-length") == str(len(body))


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions/", "/v1//chat/completions", "/v1/v1/chat/completions", "//v1/chat/completions"]
)
def test_slips_in_the_path_do_what_was_meant(backend: Backend, proxy: Proxy, path: str) -> None:
    """A doubled /v1 or a slash too many still is the guarded endpoint."""
    answer = ask(proxy.port, path=path, body=chat("hi"))
    assert answer.headers["x-guard-status"] == "unchanged"
    assert backend.last.target == "/v1/chat/completions"


def test_another_prefix_is_kept(backend: Backend) -> None:
    """A backend whose API is not under /v1 is reached where it is."""
    with running_proxy(f"http://127.0.0.1:{backend.port}/api/paas/v4/") as proxy:
        ask(proxy.port, "GET", "/v1/models")
        assert backend.last.target == "/api/paas/v4/models"


def test_redirects_are_the_clients_to_follow(backend: Backend, proxy: Proxy) -> None:
    """The proxy goes nowhere on its own."""

    async def redirect(request: Received, wire: Wire) -> None:
        await wire.answer(b"", 307, [("location", "http://elsewhere/")])

    backend.script = redirect
    answer = ask(proxy.port, "GET", "/v1/models")
    assert (answer.status, answer.headers["location"]) == (307, "http://elsewhere/")
    assert len(backend.requests) == 1


def test_cookies_of_clients_do_not_mix(backend: Backend, proxy: Proxy) -> None:
    """A cookie that one client got is not sent for the next one."""

    async def bake(request: Received, wire: Wire) -> None:
        await wire.answer(b"{}", headers=[("set-cookie", "session=one")])

    backend.script = bake
    assert ask(proxy.port, "GET", "/v1/models").headers["set-cookie"] == "session=one"
    ask(proxy.port, "GET", "/v1/models")
    assert backend.last.header("cookie") is None


def test_other_paths_are_answered_here(backend: Backend, proxy: Proxy) -> None:
    """What is not the API does not reach a backend, and the error says where the API is."""
    answer = ask(proxy.port, "GET", "/chat/completions")
    assert (answer.status, answer.error["code"]) == (404, "not_found")
    assert "/v1" in answer.error["message"]
    assert backend.requests == []


def test_long_headers_of_a_backend_pass(backend: Backend, proxy: Proxy) -> None:
    """Cookies and policies of many kilobytes are no error."""

    async def verbose(request: Received, wire: Wire) -> None:
        await wire.answer(b"{}", headers=[("x-policy", "p" * 30_000)])

    backend.script = verbose
    assert ask(proxy.port, "GET", "/v1/models").headers["x-policy"] == "p" * 30_000
