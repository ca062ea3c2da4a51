"""``GET /v1/models`` over several backends: one list of the models that a client may ask for.

Aliases and the models that the settings name come first, whether or not their backend can be asked at the moment; then
what each backend lists, as far as requests for it would be let through. A model is listed once, as the first of its
backends describes it; an alias, as the model that it leads to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aiohttp
import msgspec
from msgspec import Raw

from serving.auth import ClientAuth
from serving.client import Presence, Request, Send, read_body
from serving.errors import ApiError, broken, silent
from serving.headers import CREDENTIALS, Header, to_client
from serving.record import Attempt, RequestRecord
from serving.routing import Router, Target
from serving.upstream import Backend, Upstream
from serving.urls import join

PATIENCE_S = 5.0
"""A backend that takes longer for its list is left out; clients wait about ten seconds for the whole."""
LONGEST = 4 * 1024 * 1024
"""Bytes of a list; a backend that sends more has none."""
NO_LIST = "no_list"
"""Logged of a backend that answered, and with something else."""
_OF_ONE_BACKEND = frozenset({b"accept-encoding", b"if-none-match", b"if-modified-since", b"range"})
"""What a client asks of one answer's bytes makes no sense for a list that is put together."""

Models = Mapping[str, Raw]
"""A backend's entries by their id, as they came."""


class _List(msgspec.Struct):
    data: list[Raw]


class _Model(msgspec.Struct):
    id: str


_LIST = msgspec.json.Decoder(_List | list[Raw])
_MODEL = msgspec.json.Decoder(_Model)
_FIELDS = msgspec.json.Decoder(dict[str, Raw])


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a backend said; ``models`` is None where it is no list."""

    backend: Backend
    status: int
    headers: Sequence[Header]
    body: bytes
    models: Models | None


@dataclass(frozen=True, slots=True)
class ModelList:
    """The route of the list; made for several backends, one backend's own list passes as it is."""

    router: Router
    upstream: Upstream
    auth: ClientAuth
    limit: int

    async def handle(self, request: Request, presence: Presence, send: Send, record: RequestRecord) -> None:
        """Ask every backend at once, and answer with what came back.

        Raises:
            ApiError: no backend answered.
            ClientGone: the client left.
        """
        await read_body(request, self.limit)
        presence.watch()
        said = await asyncio.gather(*(self._ask(request, backend) for backend in self.router.backends))
        for backend, answer in zip(self.router.backends, said, strict=True):
            record.attempts.append(Attempt(backend.name, "", _result(answer)))
        answers = [answer for answer in said if isinstance(answer, _Answer)]
        if not answers:
            raise next(error for error in said if isinstance(error, ApiError))
        record.status, headers, body = self._merged(answers)
        await send({"type": "http.response.start", "status": record.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _ask(self, request: Request, backend: Backend) -> _Answer | ApiError:
        left_out = _OF_ONE_BACKEND if self._may_have_the_clients_key(backend) else _OF_ONE_BACKEND | CREDENTIALS
        headers = [header for header in request.headers if header[0] not in left_out]
        fields = self.auth.upstream_headers(headers, backend, "GET")
        try:
            async with asyncio.timeout(PATIENCE_S):
                url = join(backend.base, request.path, request.query)
                response = await self.upstream.send(backend, "GET", url, fields, None)
                async with response:
                    body = await _read(response, backend)
        except TimeoutError:
            return silent(backend.name)
        except (aiohttp.ClientError, OSError):
            return broken(backend.name)
        except ApiError as error:
            return error
        models = read_models(body) if response.status == 200 else None
        return _Answer(backend, response.status, to_client(response.raw_headers), body, models)

    def _may_have_the_clients_key(self, backend: Backend) -> bool:
        """Whether it can be no other backend's: of several without a key of their own, nobody knows which it is for."""
        return [one for one in self.router.backends if one.authorization is None] == [backend]

    def _merged(self, answers: Sequence[_Answer]) -> tuple[int, list[Header], bytes]:
        """Status, headers and body; without any list the first answer as it is, a refused key for instance."""
        first = next((answer for answer in answers if answer.models is not None), None)
        if first is None:
            return answers[0].status, list(answers[0].headers), answers[0].body
        listed = {answer.backend.name: answer.models for answer in answers if answer.models is not None}
        body = merge(self.router, listed)
        allowed = [header for header in first.headers if header[0].startswith(b"access-control-")]
        about = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        return 200, [*about, *allowed], body


async def _read(response: aiohttp.ClientResponse, backend: Backend) -> bytes:
    """The body; raises ApiError where it is too long."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > LONGEST:
            message = f"Backend '{backend.name}' sent a list of over {LONGEST} bytes."
            raise ApiError(502, message, type="backend_error", code=NO_LIST)
    return bytes(body)


def _result(answer: _Answer | ApiError) -> str:
    if isinstance(answer, ApiError):
        return answer.code or "error"
    return NO_LIST if answer.status == 200 and answer.models is None else str(answer.status)


def read_models(body: bytes) -> Models | None:
    """The entries of a backend's list by their id; None if it is no list.

    Most servers answer with an object, some with the bare list. An entry without an id is left out.
    """
    try:
        body.decode()  # the parser does not look into what it passes on
        found = _LIST.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    models: dict[str, Raw] = {}
    for entry in found.data if isinstance(found, _List) else found:
        try:
            models.setdefault(_MODEL.decode(entry).id, entry)
        except msgspec.DecodeError:
            continue
    return models


def merge(router: Router, listed: Mapping[str, Models]) -> bytes:
    """One list from those of the backends, given by their names."""
    models = {name: _entry(name, targets, listed) for name, targets in router.offered.items()}
    for backend in router.backends:
        for name, entry in listed.get(backend.name, {}).items():
            if router.serves(backend, name):
                models.setdefault(name, entry)
    return msgspec.json.encode({"object": "list", "data": list(models.values())})


def _entry(name: str, targets: Sequence[Target], listed: Mapping[str, Models]) -> Raw:
    """What the first target says of its model, under ``name``."""
    for target in targets:
        entry = listed.get(target.backend.name, {}).get(target.model)
        if entry is not None:
            return entry if target.model == name else _encoded(_FIELDS.decode(entry) | {"id": name})
    return _encoded({"id": name, "object": "model", "created": 0, "owned_by": targets[0].backend.name})


def _encoded(fields: Mapping[str, object]) -> Raw:
    return Raw(msgspec.json.encode(fields))
