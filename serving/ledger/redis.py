"""The ledger in Redis, for several replicas: what one relayed, all recognise.

A key is a hash of one field a model; it expires ``ttl_s`` after it was last said. The number of keys is Redis' to
bound: set ``maxmemory`` and a ``maxmemory-policy`` that evicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from guard.authorship import Author
from guard.errors import SettingsError, StoreError
from serving.ledger.memory import MODELS_A_KEY

if TYPE_CHECKING:
    from redis.asyncio import Redis

PREFIX = b"guard:author:"
_CONNECT_S = 1.0
_ANSWER_S = 2.0


class _Value(msgspec.Struct, array_like=True):
    backend: str
    at: float
    requested: str


_VALUE = msgspec.json.Decoder(_Value)


class RedisLedger:
    """Authors by key in a Redis server."""

    def __init__(self, url: str, ttl_s: float) -> None:
        """Connect to nothing yet.

        Raises:
            SettingsError: the client library is missing, or the URL is none of Redis.
        """
        try:
            from redis.asyncio import Redis
            from redis.exceptions import RedisError
        except ImportError:
            raise SettingsError("ledger.url: Redis needs the extra: pip install 'pivot-guard[redis]'") from None
        self._ttl_s = max(1, int(ttl_s))
        self._errors: tuple[type[Exception], ...] = (RedisError, OSError)
        try:
            self._client: Redis = Redis.from_url(
                url, socket_connect_timeout=_CONNECT_S, socket_timeout=_ANSWER_S, health_check_interval=30
            )
        except ValueError:
            raise SettingsError("ledger.url: want redis://host:port/db or rediss://...") from None

    async def record(self, keys: Sequence[bytes], author: Author) -> None:
        value = msgspec.json.encode(_Value(author.backend, author.at, author.requested))
        try:
            async with self._client.pipeline(transaction=False) as pipeline:
                for key in keys:
                    pipeline.hset(PREFIX + key, author.model, value)
                    pipeline.expire(PREFIX + key, self._ttl_s)
                await pipeline.execute()
        except self._errors as error:
            raise StoreError(f"authorship ledger: {type(error).__name__}") from error

    async def lookup(self, keys: Sequence[bytes]) -> list[tuple[Author, ...]]:
        try:
            async with self._client.pipeline(transaction=False) as pipeline:
                for key in keys:
                    pipeline.hgetall(PREFIX + key)
                found = await pipeline.execute()
        except self._errors as error:
            raise StoreError(f"authorship ledger: {type(error).__name__}") from error
        return [_authors(fields) for fields in found]

    async def close(self) -> None:
        await self._client.aclose()


def _authors(fields: dict[bytes, bytes]) -> tuple[Author, ...]:
    authors = []
    for model, data in fields.items():
        try:
            value = _VALUE.decode(data)
        except msgspec.DecodeError:  # another version wrote it
            continue
        authors.append(Author(model.decode("utf-8", "replace"), value.backend, value.at, value.requested))
    return tuple(sorted(authors, key=lambda author: author.at)[-MODELS_A_KEY:])
