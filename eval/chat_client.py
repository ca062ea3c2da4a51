"""Chat requests to any OpenAI-compatible server: bounded, paced, retried, and never paid twice.

A request is keyed by the digest of everything its answer depends on: model, messages, options, the repeat, and a salt
for what stands between (the gate of a guarded path). The base URL is not part of it: a local server has another port
every time. Answers are kept in one SQLite file, so that an interrupted run resumes where it stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, perf_counter
from types import TracebackType
from typing import Self

import aiohttp
from pydantic import BaseModel, ConfigDict, ValidationError

from eval.errors import BackendError
from eval.records import json_digest

RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504})
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
LONGEST_LINE = 2**22
KEPT_HEADERS = "x-guard-"
BYTES_A_TOKEN = 4


@dataclass(frozen=True)
class Endpoint:
    """A server and how hard it may be driven.

    Attributes:
        base_url: up to and including ``/v1``.
        api_key: sent as a bearer token, if there is one.
        headers: further headers.
        concurrency: requests at once.
        per_minute: requests begun a minute; None: no limit.
        retries: attempts after the first.
        timeout_s: longest time of one request.
    """

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    concurrency: int = 4
    per_minute: float | None = None
    retries: int = 5
    timeout_s: float = 600


@dataclass(frozen=True)
class ChatRequest:
    """A chat completion to ask for.

    Attributes:
        model: name of the model.
        messages: role and content of each message.
        options: further fields of the body (``temperature``, ``max_tokens``, ...).
        repeat: number of the run, so that repeated runs are asked again.
        salt: what else the answer depends on, e.g. the gate of a guarded path.
    """

    model: str
    messages: tuple[Mapping[str, str], ...]
    options: Mapping[str, object] = field(default_factory=dict)
    repeat: int = 0
    salt: str = ""

    @property
    def digest(self) -> str:
        """Key of the answer."""
        return json_digest([self.model, [dict(m) for m in self.messages], dict(self.options), self.repeat, self.salt])

    @property
    def estimated_tokens(self) -> int:
        """Prompt tokens, estimated at four bytes a token."""
        return sum(4 + len(message["content"].encode()) // BYTES_A_TOKEN for message in self.messages)

    def body(self) -> dict[str, object]:
        """The JSON body."""
        return {
            "model": self.model,
            "messages": [dict(message) for message in self.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.options,
        }


class ChatReply(BaseModel):
    """An answer with what it cost."""

    model_config = ConfigDict(frozen=True)

    text: str
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    first_token_s: float | None = None
    total_s: float
    headers: dict[str, str] = {}
    """Headers of the reply that begin with ``x-guard-``."""


class ReplayCache:
    """Answers by request digest, in one SQLite file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("CREATE TABLE IF NOT EXISTS replies (digest TEXT PRIMARY KEY, reply TEXT NOT NULL)")

    def get(self, digest: str) -> ChatReply | None:
        """The answer to a request, if it was asked before."""
        row = self._connection.execute("SELECT reply FROM replies WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else ChatReply.model_validate_json(row[0])

    def put(self, digest: str, reply: ChatReply) -> None:
        """Remember an answer; it is on disk when this returns."""
        self._connection.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (digest, reply.model_dump_json()))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class Pace:
    """Spaces the starts of requests by a rate a minute; the clients of one server share one."""

    def __init__(self, per_minute: float | None) -> None:
        self._seconds = 60 / per_minute if per_minute else 0.0
        self._next_start = 0.0

    async def wait(self) -> None:
        """Wait for the next start that the rate allows."""
        start = max(self._next_start, monotonic())
        self._next_start = start + self._seconds
        await asyncio.sleep(start - monotonic())


class ChatClient:
    """Asks one endpoint; identical requests in flight are sent once. Use as an async context manager."""

    def __init__(self, endpoint: Endpoint, cache: ReplayCache | None = None, pace: Pace | None = None) -> None:
        self.endpoint = endpoint
        self.calls = {"sent": 0, "replayed": 0, "retried": 0}
        self._cache = cache
        self._pending: dict[str, asyncio.Task[ChatReply]] = {}
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._pace = Pace(endpoint.per_minute) if pace is None else pace
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        headers = dict(self.endpoint.headers)
        if self.endpoint.api_key:
            headers["Authorization"] = f"Bearer {self.endpoint.api_key}"
        timeout = aiohttp.ClientTimeout(total=self.endpoint.timeout_s)
        self._session = aiohttp.ClientSession(headers=headers, timeout=timeout, read_bufsize=LONGEST_LINE)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pending = list(self._pending.values())
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The answer, from the cache if it was given before.

        Raises:
            BackendError: the server refused, or every retry failed.
        """
        digest = request.digest
        known = None if self._cache is None else self._cache.get(digest)
        if known is not None:
            self.calls["replayed"] += 1
            return known
        task = self._pending.get(digest)
        if task is None:
            task = asyncio.create_task(self._ask(request, digest))
            self._pending[digest] = task
            task.add_done_callback(lambda _: self._pending.pop(digest, None))
        return await asyncio.shield(task)

    async def _ask(self, request: ChatRequest, digest: str) -> ChatReply:
        async with self._slots:
            for attempt in range(self.endpoint.retries + 1):
                await self._pace.wait()
                try:
                    reply = await self._send(request)
                except _RetryableError as failure:
                    if attempt == self.endpoint.retries:
                        raise BackendError(f"gave up after {attempt + 1} attempts: {failure}") from None
                    self.calls["retried"] += 1
                    await asyncio.sleep(pause(attempt, failure.retry_after, digest))
                else:
                    if self._cache is not None:
                        self._cache.put(digest, reply)
                    return reply
        raise AssertionError("unreachable: the loop returns or raises")

    async def _send(self, request: ChatRequest) -> ChatReply:
        if self._session is None:
            raise BackendError("the client is not open")
        self.calls["sent"] += 1
        started = perf_counter()
        url = f"{self.endpoint.base_url.rstrip('/')}/chat/completions"
        try:
            async with self._session.post(url, json=request.body()) as response:
                if response.status != 200:
                    raise await _refusal(response)
                return await _read(response, started)
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise _RetryableError(f"{type(error).__name__}: {error}") from None


def pause(attempt: int, retry_after: float | None, digest: str) -> float:
    """Seconds before the next attempt, ``attempt`` counted from 0: what the server asked for, or twice the last pause.

    Spread by the request's digest, so that waiting requests do not come back at once.
    """
    if retry_after is not None:
        return min(retry_after, LONGEST_PAUSE_S)
    spread = 0.5 + int(digest[:4], 16) / 0xFFFF
    return min(FIRST_PAUSE_S * 2.0**attempt * spread, LONGEST_PAUSE_S)


class _RetryableError(Exception):
    """An attempt failed in a way that another may not."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class _Text(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    delta: _Text | None = None
    message: _Text | None = None
    finish_reason: str | None = None


class _Details(BaseModel):
    cached_tokens: int | None = None


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Payload(BaseModel):
    """A chunk of a stream, or a whole answer."""

    choices: list[_Choice] = []
    usage: _Usage | None = None


async def _read(response: aiohttp.ClientResponse, started: float) -> ChatReply:
    """Collect a streamed or a whole answer, noting when the first text came."""
    parts: list[str] = []
    first: float | None = None
    finish: str | None = None
    usage = _Usage()
    async for payload in _payloads(response):
        usage = payload.usage or usage
        for choice in payload.choices:
            text = (choice.delta or choice.message or _Text()).content
            finish = choice.finish_reason or finish
            if text:
                first = perf_counter() - started if first is None else first
                parts.append(text)
    if finish is None:
        raise _RetryableError("the answer broke off")
    details = usage.prompt_tokens_details or _Details()
    return ChatReply(
        text="".join(parts),
        finish_reason=finish,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=details.cached_tokens,
        completion_tokens=usage.completion_tokens,
        first_token_s=first,
        total_s=perf_counter() - started,
        headers={k.lower(): v for k, v in response.headers.items() if k.lower().startswith(KEPT_HEADERS)},
    )


async def _payloads(response: aiohttp.ClientResponse) -> AsyncIterator[_Payload]:
    if response.content_type != "text/event-stream":
        yield _payload(await response.read())
        return
    async for line in response.content:
        if not line.startswith(b"data:"):
            continue
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            return
        yield _payload(data)


def _payload(data: bytes) -> _Payload:
    try:
        return _Payload.model_validate_json(data)
    except ValidationError:
        raise _RetryableError("the server sent something that is no chat completion") from None


async def _refusal(response: aiohttp.ClientResponse) -> Exception:
    message = f"HTTP {response.status}: {(await response.text())[:200]}"
    if response.status not in RETRIED:
        return BackendError(message)
    after = None
    with contextlib.suppress(ValueError):
        after = float(response.headers.get("Retry-After", ""))
    return _RetryableError(message, after)
