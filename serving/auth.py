"""Who may use the proxy, and whose key goes upstream.

Without client keys anybody may, and a client's own key travels to the backend. With client keys a request needs one of
them; it stays here. A backend with a configured key gets that key and no other.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from serving.errors import unauthorized
from serving.headers import CREDENTIALS, Header, to_backend
from serving.upstream import Backend

KEY_HEADER = b"x-guard-key"
"""Takes the guard's key where ``authorization`` carries the client's own key for the backend."""
_KEY_HEADERS = (KEY_HEADER, *sorted(CREDENTIALS))


class Keyring:
    """The keys that are accepted; none: no key is needed."""

    def __init__(self, keys: Sequence[str]) -> None:
        # Digests have one length, so that comparing tells nothing about a key's.
        self._digests = [_digest(key.encode()) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def knows(self, key: bytes) -> bool:
        """Whether ``key`` is one of them; the time it takes does not depend on which."""
        digest = _digest(key)
        return sum(hmac.compare_digest(digest, known) for known in self._digests) > 0


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def bearer(value: bytes) -> bytes:
    """The key in an ``authorization`` header, or in a header that holds the bare key."""
    return value[7:].strip() if value[:7].lower() == b"bearer " else value.strip()


class ClientAuth:
    """Checks the clients' keys and puts the right credentials on requests upstream."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keyring = Keyring(keys)

    def check(self, method: str, head: Mapping[bytes, bytes]) -> None:
        """Let a request in.

        Raises:
            ApiError: it has no key or a wrong one.
        """
        if not self._keyring or _is_preflight(method, head):
            return
        if not any(self._keyring.knows(bearer(head[name])) for name in _KEY_HEADERS if name in head):
            raise unauthorized()

    def upstream_headers(self, headers: Sequence[Header], backend: Backend, method: str) -> list[tuple[str, str]]:
        """The request's headers for ``backend``, with the credentials it should see."""
        if backend.authorization is None:
            return to_backend(headers, self._own_credentials(headers))
        kept = to_backend(headers, CREDENTIALS)
        if not _is_preflight(method, dict(headers)):
            kept.append(("Authorization", backend.authorization))
        return kept

    def _own_credentials(self, headers: Sequence[Header]) -> frozenset[bytes]:
        """Headers that carry one of the guard's keys."""
        if not self._keyring:
            return frozenset()
        return frozenset(name for name, value in headers if name in CREDENTIALS and self._keyring.knows(bearer(value)))


def _is_preflight(method: str, head: Mapping[bytes, bytes]) -> bool:
    """A browser asks before it sends, and cannot send a key with the question."""
    return method == "OPTIONS" and b"access-control-request-method" in head
