"""Which headers cross."""

from __future__ import annotations

from serving.headers import to_backend, to_client


def test_headers_of_the_hop_and_of_the_guard_stay_here() -> None:
    """Hop-by-hop headers, those that the connection names, and the guard's own controls do not go upstream."""
    received = [
        (b"host", b"proxy"),
        (b"connection", b"keep-alive, x-hop"),
        (b"x-hop", b"1"),
        (b"te", b"trailers"),
        (b"x-guard-mode", b"off"),
        (b"x-guard-key", b"secret"),
        (b"content-length", b"3"),
        (b"traceparent", b"00-1"),
        (b"x-title", "é".encode()),
    ]
    assert to_backend(received) == [("traceparent", "00-1"), ("x-title", "é")]


def test_answers_keep_what_is_end_to_end() -> None:
    """Rate limits, request ids, retry hints, encodings and repeated cookies reach the client."""
    sent = [
        (b"Content-Encoding", b"gzip"),
        (b"Retry-After", b"3"),
        (b"x-request-id", b"r"),
        (b"X-RateLimit-Remaining", b"1"),
        (b"Set-Cookie", b"a=1"),
        (b"Set-Cookie", b"b=2"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Keep-Alive", b"timeout=5"),
    ]
    names = [name for name, _ in to_client(sent)]
    assert names == [
        b"content-encoding",
        b"retry-after",
        b"x-request-id",
        b"x-ratelimit-remaining",
        b"set-cookie",
        b"set-cookie",
    ]
