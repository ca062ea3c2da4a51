"""From what a client asked for and what an operator configured to the URL that both meant.

>>> join(base_url("http://localhost:11434"), api_path(b"/v1//chat/completions"), b"")
'http://localhost:11434/v1/chat/completions'
>>> join(base_url("https://api.z.ai/api/paas/v4/"), api_path(b"/v1/v1/models"), b"a=1")
'https://api.z.ai/api/paas/v4/models?a=1'
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes, urlsplit

from serving.errors import bad_request

_SLASHES = re.compile(rb"/{2,}")
_VERSION = re.compile(rb"^(/v1)+(?=/|$)")
_PLAIN = re.compile(rb"^(/[A-Za-z0-9_~-]+)*/?$")
_ENDPOINTS = ("/chat/completions", "/completions", "/models", "/responses")


def base_url(configured: str) -> str:
    """What a backend's paths are appended to: no slash at the end, ``/v1`` where the operator gave no path at all."""
    url = configured.rstrip("/")
    for endpoint in _ENDPOINTS:  # pasted from a curl example
        url = url.removesuffix(endpoint)
    return url if urlsplit(url).path else url + "/v1"


def is_api(path: str) -> bool:
    """Whether a request path belongs to the OpenAI API."""
    return path.lstrip("/").split("/", 1)[0] == "v1"


def api_path(raw_path: bytes) -> bytes:
    """The part of a client's path below ``/v1``, without doubled slashes, a doubled ``/v1`` or a slash at the end.

    Raises:
        ApiError: the path climbs; with the backend's key it could reach pages that are not the API.
    """
    path = _VERSION.sub(b"", _SLASHES.sub(b"/", raw_path))
    if not _PLAIN.match(path) and any(part in (b".", b"..") for part in re.split(rb"[/\\]", unquote_to_bytes(path))):
        raise bad_request("The path must not hold '.' or '..' segments.", code="invalid_path")
    return path.rstrip(b"/")


def join(base: str, path: bytes, query: bytes) -> str:
    """The URL upstream; path and query keep their escapes."""
    url = base + path.decode("latin-1")
    return f"{url}?{query.decode('latin-1')}" if query else url
