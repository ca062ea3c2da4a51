"""Compressed request bodies, opened to decide about them.

A body that nothing is left out of goes upstream as it came. One that is shortened goes upstream plain: every backend
reads that, and the headers that described the compressed bytes stay here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import brotli
import zstandard

from guard.errors import UnreadableChat
from serving.errors import too_large

_MOST_CODINGS = 3
"""No client applies more; each costs a pass over the body."""
_GZIP, _ZLIB, _RAW_DEFLATE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS


def is_plain(content_encoding: bytes) -> bool:
    """Whether a ``content-encoding`` header says that nothing was done to the body."""
    return content_encoding.strip().lower() in (b"", b"identity")


def decoded(body: bytes, content_encoding: bytes, limit: int) -> bytes:
    """The body without its codings; they were applied in the order of the header.

    Args:
        body: as received.
        content_encoding: the header.
        limit: most bytes that may come of it, whatever little was sent.

    Raises:
        ApiError: it is longer than ``limit``.
        UnreadableChat: a coding is unknown, or the bytes are not in it.
    """
    codings = [coding.strip().lower() for coding in content_encoding.split(b",")]
    if len(codings) > _MOST_CODINGS or any(coding not in _DECODERS for coding in codings):
        raise UnreadableChat("an unknown content encoding")
    for coding in reversed(codings):
        try:
            body = _DECODERS[coding](body, limit)
        except (zlib.error, brotli.error, zstandard.ZstdError, EOFError):
            raise UnreadableChat("the body is not in its content encoding") from None
        if len(body) > limit:
            raise too_large(limit)
    return body


# Each gives at most a little more than ``limit`` bytes, which shows that there are too many.


def _identity(body: bytes, limit: int) -> bytes:
    del limit
    return body


def _gunzip(body: bytes, limit: int) -> bytes:
    members: list[bytes] = []
    room = limit + 1
    while body and room > 0:  # a gzip file may consist of several members
        plain, body = _inflated(body, _GZIP, room)
        members.append(plain)
        room -= len(plain)
    return b"".join(members)


def _deflate(body: bytes, limit: int) -> bytes:
    try:
        return _inflated(body, _ZLIB, limit + 1)[0]
    except zlib.error:  # some clients leave out the wrapping that the standard asks for
        return _inflated(body, _RAW_DEFLATE, limit + 1)[0]


def _inflated(body: bytes, window: int, most: int) -> tuple[bytes, bytes]:
    inflater = zlib.decompressobj(window)
    plain = inflater.decompress(body, most)
    if not inflater.eof and len(plain) < most:
        raise EOFError
    return plain, inflater.unused_data


def _brotli(body: bytes, limit: int) -> bytes:
    decompressor = brotli.Decompressor()
    plain = bytearray(decompressor.process(body, output_buffer_limit=limit + 1))
    while not decompressor.is_finished() and len(plain) <= limit:
        more = decompressor.process(b"", output_buffer_limit=limit + 1)
        if not more:
            raise EOFError
        plain += more
    return bytes(plain)


def _zstd(body: bytes, limit: int) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True) as reader:
        plain = bytes(reader.read(limit + 1))
    rest = body if len(plain) <= limit else b""
    while rest:  # the reader takes half a frame for a whole one
        frame = zstandard.ZstdDecompressor().decompressobj()
        frame.decompress(rest)
        if not frame.eof:
            raise EOFError
        rest = frame.unused_data
    return plain


_DECODERS: dict[bytes, Callable[[bytes, int], bytes]] = {
    b"": _identity,
    b"identity": _identity,
    b"gzip": _gunzip,
    b"x-gzip": _gunzip,
    b"deflate": _deflate,
    b"br": _brotli,
    b"zstd": _zstd,
}
