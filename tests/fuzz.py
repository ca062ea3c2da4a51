"""One random request through everything: decided, shortened, sent through a real proxy, answered in random pieces.

``Invariants.check`` holds what the project promises against one conversation; the fuzz run (``scripts/fuzz``) and a
short version of it in the suite draw thousands.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from random import Random
from typing import Any

import brotli
import zstandard

from guard.cache import LRURulingCache
from guard.controller import Kind
from guard.conversation import INSTRUCTION_ROLES
from guard.guard import Guard
from guard.policy import Policy
from guard.ports import GateQuery
from guard.standing import is_standing
from serving.wire import read_chat
from tests.backend import Backend, Received, Wire, running_backend
from tests.chat_format import Problem, problems
from tests.fakes import CallableScorer, NoCache, WordRelevance
from tests.random_chats import random_body, random_chat, random_chunks
from tests.servers import Proxy, running_proxy

Json = dict[str, Any]
PACKINGS = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstandard.compress}


def gate(seed: int) -> CallableScorer:
    """Random answers that depend on the question alone."""

    def score(query: GateQuery) -> float | None:
        return (None, 0.1, 0.1, 0.9, 0.9, 0.9)[zlib.crc32(repr((seed, query)).encode()) % 6]

    return CallableScorer(score)


def random_policy(random: Random) -> Policy:
    """Any policy."""
    return Policy(
        resume=random.random() < 0.5,
        standing=random.random() < 0.5,
        pin=random.choice((0, 0, 0, 1, 3)),
        budget=random.choice((None, None, 0, 30, 200)),
        recent=random.choice((0, 1, 3)),
    )


def check_edit(messages: list[Json], body: bytes, policy: Policy, seed: int) -> bytes:
    """What is forwarded of a request, if all the promises about it hold.

    Raises:
        AssertionError: one does not.
    """
    chat = read_chat(body)
    conversation = chat.conversation()
    verdict = Guard(gate(seed), WordRelevance(), NoCache()).decide(conversation, policy)
    warm = Guard(gate(seed), WordRelevance(), LRURulingCache())
    assert warm.decide(conversation, policy) == verdict, "a cold guard decides like a cold guard"
    assert warm.recall(conversation, policy) == verdict, "a warm guard decides like a cold one"
    kept, dropped = verdict.selection.kept, verdict.selection.dropped
    assert sorted(kept + dropped) == list(range(len(messages))), "every message is kept or dropped"
    protected = {p for p, message in enumerate(conversation.messages) if message.role in INSTRUCTION_ROLES}
    last = len(conversation.exchanges) - 1
    for number, exchange in enumerate(conversation.exchanges):
        standing = policy.standing and is_standing(conversation.turn_text(number))
        protected.update(exchange.members if number == last or number < policy.pin or standing else ())
    assert protected <= set(kept), "what is protected stays"
    if verdict.live is None or verdict.live.kind in (Kind.FIRST, Kind.UNSCORED):
        assert not dropped, "nothing is left out where nothing was decided"
    rest = json.loads(chat.rebuild(kept))
    assert rest["messages"] == [messages[position] for position in kept], "messages stay what they are"
    for late_results in (False, True):
        before = set(problems(messages, late_results=late_results))
        after = {Problem(kept[p.position], p.text) for p in problems(rest["messages"], late_results=late_results)}
        assert after <= before, "an edit adds no problem"
    return chat.rebuild(kept) if dropped else body


@dataclass
class Invariants:
    """A proxy, a backend, and what they are checked with."""

    backend: Backend
    proxy: Proxy
    seed: int
    connection: HTTPConnection
    pieces: list[bytes] = field(default_factory=list)

    async def answer(self, request: Received, wire: Wire) -> None:
        """Send what is due, piece by piece."""
        await wire.begin_stream()
        for piece in self.pieces:
            await wire.chunk(piece)
            await asyncio.sleep(0)
        await wire.end_stream()

    def check(self, random: Random) -> None:
        """Send one conversation.

        Raises:
            AssertionError: a promise is broken.
        """
        messages = random_chat(random)
        body = random_body(messages, random, stream=True)
        expected = check_edit(messages, body, Policy(), self.seed)
        self.pieces = random_chunks(_stream(random), random)
        packing = random.choice((None, None, None, *PACKINGS))
        sent = PACKINGS[packing](body) if packing else body
        headers = {"content-encoding": packing} if packing else {}
        self.connection.request("POST", "/v1/chat/completions", sent, headers)
        answer = self.connection.getresponse()
        assert answer.read() == b"".join(self.pieces), "an answer is relayed byte for byte"
        edited = expected is not body
        assert (answer.getheader("x-guard-status") == "applied") == edited, "the client is told"
        assert self.backend.last.body == (expected if edited else sent), "a request is forwarded as decided"
        self.backend.requests.clear()


@contextmanager
def invariants(seed: int) -> Iterator[Invariants]:
    """Everything that ``Invariants`` needs."""
    guard = Guard(gate(seed), WordRelevance(), LRURulingCache())
    with running_backend() as backend, running_proxy(backend.url, guard, gate__budget_ms=60_000) as proxy:
        connection = HTTPConnection("127.0.0.1", proxy.port, timeout=60)
        made = Invariants(backend, proxy, seed, connection)
        backend.script = made.answer
        yield made
        connection.close()


def _stream(random: Random) -> bytes:
    """Events with characters of any length, in any of the line ends."""
    end = random.choice((b"\n\n", b"\r\n\r\n"))
    texts = random.choices(("Hello", "你好", "😀", "é\n", ": ", "data: ", ""), k=random.randrange(1, 6))
    events = [
        b"data: " + json.dumps({"choices": [{"delta": {"content": t}}]}, ensure_ascii=False).encode() for t in texts
    ]
    return end.join([*events, b"data: [DONE]", b""])
