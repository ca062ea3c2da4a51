"""What goes wrong, and what a client sees of it."""

from __future__ import annotations

import asyncio
import http.client
import socket
from contextlib import ExitStack

import pytest

from tests.backend import Backend, Received, Wire, running_backend
from tests.http import ask, chat, sent
from tests.servers import Proxy, running_proxy, wait_until


@pytest.mark.parametrize("body", [b"{", b"", b"nonsense", b'{"messages": [}'])
def test_malformed_json_is_a_400_with_an_error_object(backend: Backend, proxy: Proxy, body: bytes) -> None:
    """Clients parse the error and do not retry; nothing is forwarded."""
    answer = ask(proxy.port, body=body)
    assert (answer.status, answer.error["type"], answer.error["code"]) == (400, "invalid_request_error", "invalid_json")
    assert backend.requests == []


def test_a_long_body_is_a_413(backend: Backend) -> None:
    """With or without a declared length, and on every path."""
    with running_proxy(backend.url, limits__body_bytes=1000) as proxy:
        long = chat("x" * 2000)
        answers = [
            ask(proxy.port, body=long),
            ask(proxy.port, body=iter([long[:500], long[500:]]), headers={"transfer-encoding": "chunked"}),
            ask(proxy.port, path="/v1/files", body=long),
            ask(
                proxy.port,
                path="/v1/files",
                body=iter([long[:500], long[500:]]),
                headers={"transfer-encoding": "chunked"},
            ),
        ]
        assert [(answer.status, answer.error["code"]) for answer in answers] == [(413, "request_too_large")] * 4


def test_a_backend_that_is_down_is_a_502() -> None:
    """The error names the backend by its configured name, never by a key."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with running_proxy(f"http://127.0.0.1:{port}/v1") as proxy:
        answer = ask(proxy.port, body=chat("hi"))
        assert (answer.status, answer.error["code"]) == (502, "backend_unreachable")
        assert "'default'" in answer.error["message"]
        wait_until(lambda: proxy.metric("guard_backend_up", {"backend": "default"}) == 0)


def test_a_request_that_may_have_been_accepted_is_sent_once(backend: Backend, proxy: Proxy) -> None:
    """A backend that closes after reading may have billed: no second try, and clients are told to make none."""

    async def hang_up(request: Received, wire: Wire) -> None:
        wire.cut()

    backend.script = hang_up
    answer = ask(proxy.port, body=chat("hi"))
    assert (answer.status, answer.error["code"]) == (502, "backend_disconnected")
    assert answer.headers["x-should-retry"] == "false"
    assert len(backend.requests) == 1


def test_a_silent_backend_is_a_504(backend: Backend) -> None:
    """A backend that sends nothing for too long is given up."""

    async def sleep(request: Received, wire: Wire) -> None:
        await wire.until_left()

    backend.script = sleep
    with running_proxy(backend.url, timeouts__read_s=0.2) as proxy:
        answer = ask(proxy.port, body=chat("hi"))
        assert (answer.status, answer.error["code"]) == (504, "backend_timeout")


def test_a_backend_may_have_time_outs_of_its_own() -> None:
    """One that answers slowly is waited for while another is given up early; what is not given is as for all."""

    async def slow(request: Received, wire: Wire) -> None:
        await asyncio.sleep(0.6)
        await wire.answer(b"{}")

    own = {"patient": {"read_s": 10}, "hurried": {"read_s": 0.1}, "usual": {"connect_s": 3}}
    with running_backend(slow) as backend:
        backends = [
            {"name": name, "url": backend.url, "models": [name], "timeouts": timeouts} for name, timeouts in own.items()
        ]
        with running_proxy("", backend=None, backends=backends, timeouts__read_s=0.2) as proxy:
            statuses = {name: ask(proxy.port, body=chat("hi", model=name)).status for name in own}
    assert statuses == {"patient": 200, "hurried": 504, "usual": 504}


def test_a_backend_may_have_little_time_to_connect() -> None:
    """A backend that takes no connection is given up after its own time, and the next one answers."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # nobody accepts them, and the queue is full then
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        spare = stack.enter_context(running_backend())
        url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        backends = [
            {"name": "full", "url": url, "timeouts": {"connect_s": 0.2}},
            {"name": "spare", "url": spare.url},
        ]
        proxy = stack.enter_context(running_proxy("", backend=None, backends=backends, timeouts__connect_s=60))
        assert ask(proxy.port, body=chat("hi")).status == 200
        assert len(spare.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_a_backends_own_error_comes_back_unchanged(backend: Backend, proxy: Proxy, status: int) -> None:
    """Status, body and retry hints are the backend's."""
    body = b'{"error": {"message": "context length", "code": "context_length_exceeded"}}'

    async def refuse(request: Received, wire: Wire) -> None:
        await wire.answer(body, status, [("Retry-After", "7"), ("x-request-id", "r1")])

    backend.script = refuse
    answer = ask(proxy.port, body=chat("hi"))
    assert (answer.status, answer.body) == (status, body)
    assert (answer.headers["retry-after"], answer.headers["x-request-id"]) == ("7", "r1")


@pytest.mark.parametrize("status", [101, 600, 999])
def test_a_status_that_is_no_answer_is_a_502(backend: Backend, proxy: Proxy, status: int) -> None:
    """A backend that changes the protocol, or invents a status, did not answer."""

    async def odd(request: Received, wire: Wire) -> None:
        await wire.answer(b"{}", status)

    backend.script = odd
    assert ask(proxy.port, body=chat("hi")).status == 502
    assert ask(proxy.port, "GET", "/v1/models").status == 502


@pytest.mark.parametrize("piece", [b"data: whole\n\n", b"data: hal"])
def test_a_cut_stream_arrives_as_a_cut(backend: Backend, proxy: Proxy, piece: bytes) -> None:
    """The client gets every byte that came, and then a broken body, not a clean end."""

    async def break_off(request: Received, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(piece)
        wire.cut()

    backend.script = break_off
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
    connection.request("POST", "/v1/chat/completions", chat("hi", stream=True))
    with pytest.raises(http.client.IncompleteRead) as broken:
        connection.getresponse().read()
    connection.close()
    assert broken.value.partial == piece
    wait_until(lambda: proxy.metric("guard_requests_total", requests("cut")) == 1)


def requests(outcome: str) -> dict[str, str]:
    return {"route": "chat", "mode": "enforce", "outcome": outcome}


def test_a_body_shorter_than_declared_arrives_as_a_cut(backend: Backend, proxy: Proxy) -> None:
    """An answer with a length that is cut does not look complete either."""

    async def break_off(request: Received, wire: Wire) -> None:
        await wire.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
        wire.cut()

    backend.script = break_off
    with pytest.raises(http.client.IncompleteRead):
        ask(proxy.port, body=chat("hi"))


def test_an_idle_connection_that_the_backend_closed_is_not_an_error(backend: Backend, proxy: Proxy) -> None:
    """Backends close idle connections at any time; requests go on over new ones, each sent once."""

    async def answer_and_close(request: Received, wire: Wire) -> None:
        await wire.answer(b"{}")
        wire.cut()

    backend.script = answer_and_close
    assert [ask(proxy.port, body=chat("hi")).status for _ in range(20)] == [200] * 20
    assert (len(backend.requests), backend.connections) == (20, 20)


def test_connections_are_reused(backend: Backend, proxy: Proxy) -> None:
    """A backend sees one connection for requests that follow each other."""
    for _ in range(5):
        ask(proxy.port, body=chat("hi"))
    assert backend.connections == 1


class TestClientGone:
    """A client that leaves ends the backend's work within a second."""

    def test_before_the_first_byte(self, backend: Backend, proxy: Proxy) -> None:
        """Streamed or not, waiting for an answer that nobody wants ends."""
        left: list[bool] = []

        async def stall(request: Received, wire: Wire) -> None:
            await wire.until_left()
            left.append(True)

        backend.script = stall
        for stream in (True, False):
            left.clear()
            with sent(proxy.port, chat("hi", stream=stream)):
                wait_until(lambda: len(backend.requests) > 0)
            wait_until(lambda: left == [True], 1)
            backend.requests.clear()
        wait_until(lambda: proxy.metric("guard_requests_total", requests("client_gone")) == 2)

    def test_in_the_middle_of_a_stream(self, backend: Backend, proxy: Proxy) -> None:
        """A stream that nobody reads is not generated to its end."""
        left: list[bool] = []

        async def drip(request: Received, wire: Wire) -> None:
            await wire.begin_stream()
            await wire.chunk(b"data: 1\n\n")
            await wire.until_left()
            left.append(True)

        backend.script = drip
        with sent(proxy.port, chat("hi", stream=True)) as connection:
            assert b"200" in connection.recv(1000)
        wait_until(lambda: left == [True], 1)

    def test_during_its_upload(self, backend: Backend, proxy: Proxy) -> None:
        """Half a request is not forwarded as a whole one."""
        with sent(proxy.port, chat("hi"), missing=5):
            pass
        with sent(proxy.port, b"x" * 100_000, path="/v1/files", missing=5):
            pass
        wait_until(lambda: proxy.metric("guard_requests_total", requests("client_gone") | {"mode": "none"}) == 1)
        gone = {"route": "other", "mode": "none", "outcome": "client_gone"}
        wait_until(lambda: proxy.metric("guard_requests_total", gone) == 1)
        assert backend.requests == []


def test_a_cut_after_bytes_in_one_packet_loses_none() -> None:
    """Bytes that arrived together with the break are passed on before it."""

    async def burst(request: Received, wire: Wire) -> None:
        await wire.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nlast\r\n")
        wire.cut()
        await asyncio.sleep(0)

    with running_backend(burst) as backend, running_proxy(backend.url) as proxy:
        for _ in range(20):
            with pytest.raises(http.client.IncompleteRead) as broken:
                ask(proxy.port, body=chat("hi", stream=True))
            assert broken.value.partial == b"last"
