"""Whether a backend can be reached. Asks for a connection and no more: a completion as a health check costs money."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from serving.upstream import Backend

_PATIENCE_S = 2.0


async def reachable(backend: Backend) -> bool:
    """Whether the backend's port accepts a connection."""
    parts = urlsplit(backend.base)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except OSError:
        return False
    writer.close()
    return True
