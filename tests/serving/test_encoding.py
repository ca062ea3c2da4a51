from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard

from guard.errors import UnreadableChat
from serving.encoding import decoded
from serving.errors import ApiError
from tests.backend import Backend, Received, Wire
from tests.http import PIVOT, REFINE, ask, chat
from tests.servers import Proxy, running_proxy

LIMIT = 1_000_000


def raw_deflate(body: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflater.compress(body) + deflater.flush()


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate without its wrapping": ("deflate", raw_deflate),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstandard.compress),
    "two, in capitals": ("GZIP , br", lambda body: brotli.compress(gzip.compress(body))),
    "identity": ("identity", lambda body: body),
}
coded = pytest.mark.parametrize(("coding", "pack"), CODINGS.values(), ids=CODINGS)


@coded
@pytest.mark.parametrize("body", [b"", b"{}", b"0123456789" * 1000])
def test_a_coded_body_is_read(coding: str, pack: Callable[[bytes], bytes], body: bytes) -> None:
    """Every registered coding is undone, in the reverse order of the header."""
    assert decoded(pack(body), coding.encode(), LIMIT) == body


@coded
def test_a_bomb_ends_at_the_limit(coding: str, pack: Callable[[bytes], bytes]) -> None:
    """What comes of a body is bounded, and the answer says by what."""
    bomb = pack(b"0" * 100_000)
    assert len(decoded(bomb, coding.encode(), 100_000)) == 100_000
    with pytest.raises(ApiError) as caught:
        decoded(bomb, coding.encode(), 99_999)
    assert caught.value.status == 413


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_bytes_in_another_coding_are_unreadable(coding: str) -> None:
    """A header that is wrong about the body is for the backend to judge."""
    with pytest.raises(UnreadableChat):
        decoded(b'{"messages": []}', coding.encode(), LIMIT)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_half_a_body_is_unreadable(coding: str) -> None:
    """Nothing is decided on the beginning of a chat."""
    whole = CODINGS[coding][1](b"0123456789" * 1000)
    with pytest.raises(UnreadableChat):
        decoded(whole[: len(whole) // 2], coding.encode(), LIMIT)


@pytest.mark.parametrize("coding", ["compress", "exi", "gzip, dcb", "br, br, br, br"])
def test_unknown_codings_are_unreadable(coding: str) -> None:
    """A coding that the proxy does not know may be one that the backend does."""
    with pytest.raises(UnreadableChat):
        decoded(b"x", coding.encode(), LIMIT)


def test_members_of_a_gzip_file_are_joined() -> None:
    """A gzip body may consist of several members."""
    assert decoded(gzip.compress(b"ab") + gzip.compress(b"cd"), b"gzip", LIMIT) == b"abcd"


@coded
def test_a_coded_pivot_is_shortened(
    backend: Backend, proxy: Proxy, coding: str, pack: Callable[[bytes], bytes]
) -> None:
    """The backend gets the rest in plain, with no header that still describes the client's bytes."""
    told = {"content-encoding": coding, "content-digest": "sha-256=:eA==:", "content-md5": "eA=="}
    answer = ask(proxy.port, body=pack(chat(*PIVOT)), headers=told)
    assert (answer.status, answer.headers["x-guard-status"]) == (200, "applied")
    assert [message["content"] for message in json.loads(backend.last.body)["messages"]] == [PIVOT[-1]]
    assert backend.last.header("content-length") == str(len(backend.last.body))
    assert [backend.last.header(name) for name in told] == [None, None, None]


@coded
def test_a_coded_refine_is_forwarded_as_it_came(
    backend: Backend, proxy: Proxy, coding: str, pack: Callable[[bytes], bytes]
) -> None:
    """Where nothing is left out the backend gets the client's bytes and the header that describes them."""
    backend.script = _accept
    body = pack(chat(*REFINE))
    answer = ask(proxy.port, body=body, headers={"content-encoding": coding})
    assert answer.headers["x-guard-status"] == "unchanged"
    assert (backend.last.body, backend.last.header("content-encoding")) == (body, coding)


@pytest.mark.parametrize("coding", ["compress", "gzip"])
def test_what_cannot_be_opened_is_forwarded_untouched(backend: Backend, proxy: Proxy, coding: str) -> None:
    """An unknown coding, or a body that is not in it, reaches the backend as it came, and the client is told."""
    backend.script = _accept
    answer = ask(proxy.port, body=b"\x1f\x9d\x90odd", headers={"content-encoding": coding})
    assert answer.headers["x-guard-status"] == "bypassed:unreadable"
    assert (backend.last.body, backend.last.header("content-encoding")) == (b"\x1f\x9d\x90odd", coding)


def test_a_bomb_is_refused_by_the_proxy(backend: Backend) -> None:
    """The limit on bodies holds for what they unpack to, and nothing is forwarded."""
    with running_proxy(backend.url, limits__body_bytes=LIMIT) as proxy:
        bomb = gzip.compress(chat("x" * LIMIT))
        assert ask(proxy.port, body=bomb, headers={"content-encoding": "gzip"}).status == 413
    assert backend.requests == []


async def _accept(request: Received, wire: Wire) -> None:
    await wire.answer(b"{}")
