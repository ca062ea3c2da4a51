"""The final-turn protocol: every model writes the earlier turns once, and every model writes the last turn after each.

    calls of an episode with L user turns = K (L - 1) for the prefixes + K K for the last turns, on each path

A prefix is generated once per (model, episode) and serves all cells of its row. Every answer goes into the replay cache
as it comes, so a run that was interrupted resumes without asking again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from eval.chat_client import ChatReply, ChatRequest, ReplayCache
from eval.errors import BackendError
from eval.switch.config import ModelConfig, PathConfig
from eval.switch.episodes import Episode

ASSUMED_TOKENS = 150
"""Length of an answer that was not given yet, where estimates need one and no cap is set."""
BYTES_A_TOKEN = 4


class SwitchRecord(BaseModel):
    """One cell of one episode: ``prefix`` wrote the earlier answers, ``suffix`` the last one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    prefix: str
    suffix: str
    episode: str
    score: float | None = None
    """None when the answer could not be had; see ``error``."""
    answer: str = ""
    finish_reason: str | None = None
    capped_prefix: int = 0
    """Earlier answers that were cut off by the token limit."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_s: float | None = None
    headers: dict[str, str] = {}
    error: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked.

    Attributes:
        models: in the order of rows and columns.
        paths: the first is the baseline.
        episodes: what is played.
        options: further fields of every request, e.g. ``max_tokens``.
    """

    models: tuple[ModelConfig, ...]
    paths: tuple[PathConfig, ...]
    episodes: tuple[Episode, ...]
    options: Mapping[str, object]

    @property
    def calls(self) -> int:
        """Requests of the whole plan."""
        count = len(self.models)
        return sum(count * (len(e.users) - 1) + len(self.paths) * count * count for e in self.episodes)

    def request(
        self, model: ModelConfig, episode: Episode, answers: Sequence[str], path: PathConfig | None = None
    ) -> ChatRequest:
        """The request for the answer after ``answers``; ``path`` is None for the turns of a prefix."""
        # The name is in the salt because two servers may call different models the same; the path, because it changes
        # what the model is given.
        salt = f"switch|{model.name}" + (
            f"|{json.dumps(path.headers, sort_keys=True)}" if path and path.headers else ""
        )
        options = {**model.options, **self.options}
        return ChatRequest(model.asked, _messages(model, episode, answers), options, salt=salt)

    def estimate(self, model: ModelConfig) -> tuple[int, int]:
        """Prompt and answer tokens that ``model`` will be asked for, estimated at full length."""
        cap = self.options.get("max_tokens")
        answer = cap if isinstance(cap, int) else ASSUMED_TOKENS
        filler = "x" * (answer * BYTES_A_TOKEN)
        prompt, calls = 0, 0
        for episode in self.episodes:
            for length in range(len(episode.users) - 1):
                prompt += self.request(model, episode, [filler] * length).estimated_tokens
                calls += 1
            last = self.request(model, episode, [filler] * (len(episode.users) - 1)).estimated_tokens
            prompt += last * len(self.models) * len(self.paths)
            calls += len(self.models) * len(self.paths)
        return prompt, calls * answer


class Client(Protocol):
    """What answers requests."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The answer.

        Raises:
            BackendError: it is not to be had.
        """
        ...


class CachedReplies:
    """A client that sends nothing: it knows what the replay cache holds."""

    def __init__(self, cache: ReplayCache) -> None:
        self._cache = cache

    async def complete(self, request: ChatRequest) -> ChatReply:
        reply = self._cache.get(request.digest)
        if reply is None:
            raise BackendError("not in the cache")
        return reply


Clients = Mapping[tuple[str, str], Client]
"""The client of each (model, path)."""


async def play(
    plan: Plan, clients: Clients, done: Callable[[ModelConfig, ChatReply | None], None], at_once: int = 64
) -> list[SwitchRecord]:
    """Play every episode and return a record a cell, in the order of paths, prefixes, suffixes, episodes.

    Args:
        plan: what is asked.
        clients: who is asked.
        done: told of every answer, and of None for each that is not to be had.
        at_once: prefixes under way. Few of them finish one episode after the other, so that an interrupted run has
            whole episodes.
    """
    slots = asyncio.Semaphore(at_once)

    async def row(prefix: ModelConfig, episode: Episode) -> list[SwitchRecord]:
        async with slots:
            return await _row(plan, clients, prefix, episode, done)

    rows = await asyncio.gather(*(row(prefix, episode) for episode in plan.episodes for prefix in plan.models))
    order = {path.name: i for i, path in enumerate(plan.paths)}
    names = {model.name: i for i, model in enumerate(plan.models)}
    records = [record for records in rows for record in records]
    return sorted(records, key=lambda r: (order[r.path], names[r.prefix], names[r.suffix]))


async def _row(
    plan: Plan,
    clients: Clients,
    prefix: ModelConfig,
    episode: Episode,
    done: Callable[[ModelConfig, ChatReply | None], None],
) -> list[SwitchRecord]:
    """One prefix of one episode, and all cells after it."""
    answers: list[str] = []
    capped = 0
    error = ""
    for _ in episode.users[:-1]:
        reply = None if error else await _ask(clients[prefix.name, plan.paths[0].name], prefix, plan, episode, answers)
        if isinstance(reply, ChatReply):
            answers.append(reply.text)
            capped += reply.finish_reason == "length"
        else:
            error = error or f"prefix: {reply}"
        done(prefix, reply if isinstance(reply, ChatReply) else None)

    async def cell(suffix: ModelConfig, path: PathConfig) -> SwitchRecord:
        record = SwitchRecord(
            path=path.name, prefix=prefix.name, suffix=suffix.name, episode=episode.id, capped_prefix=capped
        )
        reply = error or await _ask(clients[suffix.name, path.name], suffix, plan, episode, answers, path)
        done(suffix, reply if isinstance(reply, ChatReply) else None)
        if isinstance(reply, str):
            return record.model_copy(update={"error": reply})
        return record.model_copy(update={"score": episode.score(reply.text), "answer": reply.text} | _facts(reply))

    return list(await asyncio.gather(*(cell(suffix, path) for path in plan.paths for suffix in plan.models)))


async def _ask(
    client: Client,
    model: ModelConfig,
    plan: Plan,
    episode: Episode,
    answers: Sequence[str],
    path: PathConfig | None = None,
) -> ChatReply | str:
    """The reply, or what went wrong for good."""
    try:
        return await client.complete(plan.request(model, episode, answers, path))
    except BackendError as error:
        return str(error)


def _messages(model: ModelConfig, episode: Episode, answers: Sequence[str]) -> tuple[Mapping[str, str], ...]:
    system = "\n\n".join(text for text in (model.system, episode.system) if text)
    messages = [{"role": "system", "content": system}] if system else []
    for position, user in enumerate(episode.users[: len(answers) + 1]):
        messages.append({"role": "user", "content": user})
        if position < len(answers):
            messages.append({"role": "assistant", "content": answers[position]})
    return tuple(messages)


def _facts(reply: ChatReply) -> dict[str, object]:
    return {
        "finish_reason": reply.finish_reason,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_s": reply.total_s,
        "headers": {name: value for name, value in reply.headers.items() if name != "x-guard-decision-id"},
    }
