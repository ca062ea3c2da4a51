"""Which headers cross the proxy, and in which direction."""

from __future__ import annotations

from collections.abc import Iterable

Header = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""They speak of one connection and end with it (RFC 9110, 7.6.1)."""
OWN_PREFIX = b"x-guard-"
"""Controls of the guard; they mean nothing to a backend and stay here."""
_NOT_REQUESTED = HOP_BY_HOP | {b"host", b"content-length", b"expect"}
"""Written anew for the backend (host, length) or answered here (expect)."""
OF_THE_BODY = frozenset({b"content-encoding", b"content-md5", b"digest", b"content-digest", b"repr-digest"})
"""Describe the body's bytes as they came in; of a shortened body they would be wrong."""
CREDENTIALS = frozenset({b"authorization", b"api-key", b"x-api-key", b"x-goog-api-key"})
"""Where clients of OpenAI, Azure, Anthropic and Google put a key."""


def to_backend(headers: Iterable[Header], dropped: frozenset[bytes] = frozenset()) -> list[tuple[str, str]]:
    """The client's headers that go upstream; names as the ASGI server gives them, in lower case.

    Args:
        headers: as received.
        dropped: further names to leave out.
    """
    headers = list(headers)
    unwanted = _NOT_REQUESTED | dropped | _named_by_connection(headers)
    return [
        (name.decode("latin-1"), _text(value))
        for name, value in headers
        if name not in unwanted and not name.startswith(OWN_PREFIX)
    ]


def to_client(headers: Iterable[Header]) -> list[Header]:
    """The backend's headers that reach the client, repeated ones included."""
    lower = [(name.lower(), value) for name, value in headers]
    unwanted = HOP_BY_HOP | _named_by_connection(lower)
    return [(name, value) for name, value in lower if name not in unwanted]


def _named_by_connection(headers: Iterable[Header]) -> set[bytes]:
    """Headers that this hop's ``connection`` header declares to be its own."""
    values = [value for name, value in headers if name == b"connection"]
    named = {part.strip().lower() for value in values for part in value.split(b",")} if values else set()
    return named - {b"content-length", b"content-type", b"authorization"}


def _text(value: bytes) -> str:
    # The client library writes UTF-8; latin-1 is for the rare value that is not.
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
