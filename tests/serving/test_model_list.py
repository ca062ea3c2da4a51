"""The list of models over several backends, as a client sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from openai import AuthenticationError, NotFoundError, OpenAI

from serving import model_list
from serving.model_list import read_models
from tests.backend import Backend, Received, Script, Wire, running_backend
from tests.http import ask
from tests.servers import Proxy, running_proxy, wait_until

Json = dict[str, Any]


def model(name: str, owner: str, **more: object) -> Json:
    return {"id": name, "object": "model", "created": 7, "owned_by": owner, **more}


def lists(*models: Json, bare: bool = False) -> Script:
    """A backend that lists these models, and knows each of them by its path."""

    async def script(request: Received, wire: Wire) -> None:
        path = request.target.split("?")[0]
        found = [one for one in models if path == f"/v1/models/{one['id']}"]
        if path == "/v1/models":
            listed: object = list(models) if bare else {"object": "list", "data": models, "has_more": False}
            await wire.answer(json.dumps(listed).encode(), headers=[("access-control-allow-origin", "*")])
        elif found:
            await wire.answer(json.dumps(found[0]).encode())
        else:
            await refuses(404)(request, wire)

    return script


def refuses(status: int) -> Script:
    async def script(request: Received, wire: Wire) -> None:
        await wire.answer(b'{"error":{"message":"scripted","code":"refused"}}', status)

    return script


async def stalls(request: Received, wire: Wire) -> None:
    await wire.until_left()


ONE = (model("small", "one-inc", context_length=2048), model("shared", "one-inc"))
TWO = (model("shared", "two-inc"), model("gpt-big", "two-inc"), model("hidden", "two-inc"))


@dataclass
class Pair:
    one: Backend
    two: Backend
    proxy: Proxy
    client: OpenAI

    def ids(self) -> list[str]:
        return [listed.id for listed in self.client.models.list()]


@contextmanager
def pair(
    scripts: Sequence[Script] = (lists(*ONE), lists(*TWO)),
    settings: Sequence[Json] = ({}, {"models": ["shared", "gpt-*"]}),
    **options: Any,  # noqa: ANN401
) -> Iterator[Pair]:
    """Two backends and a proxy: the first serves every model, the second ``shared`` and a pattern."""
    with ExitStack() as stack:
        one, two = (stack.enter_context(running_backend(script)) for script in scripts)
        named = zip(("one", "two"), (one, two), settings, strict=True)
        backends = [{"name": name, "url": backend.url, **more} for name, backend, more in named]
        proxy = stack.enter_context(running_proxy("", backend=None, backends=backends, **options))
        client = stack.enter_context(OpenAI(base_url=f"{proxy.url}/v1", api_key="client-key", max_retries=0))
        yield Pair(one, two, proxy, client)


def test_the_list_holds_what_all_backends_offer() -> None:
    """Each model once, with the fields that its backend gave it; what no request would reach is left out."""
    with pair() as it:
        listed = {one.id: one for one in it.client.models.list()}
        assert list(listed) == ["shared", "small", "gpt-big"]
        assert {name: one.owned_by for name, one in listed.items()} == {
            "shared": "one-inc",
            "small": "one-inc",
            "gpt-big": "two-inc",
        }
        assert listed["small"].to_dict() == ONE[0]


def test_aliases_are_listed_as_what_they_lead_to() -> None:
    """An alias comes first and has the fields of its first target that is listed; a pattern is no name."""
    routes = {"fast": ["gpt-big", "small"], "small": ["small"], "odd": ["gpt-unlisted"], "team-*": ["small"]}
    with pair(routes=routes) as it:
        listed = [one.to_dict() for one in it.client.models.list()]
    assert listed == [
        model("fast", "two-inc"),
        ONE[0],
        {"id": "odd", "object": "model", "created": 0, "owned_by": "one"},
        ONE[1],
        TWO[1],
    ]


async def endless(request: Received, wire: Wire) -> None:
    await wire.begin_stream()
    while wire.keep_open:
        await wire.chunk(b" " * 2**20)


async def odd(request: Received, wire: Wire) -> None:
    await wire.answer(b'{"data":[{"id":"small","x":"\xff"}]}')


async def deep(request: Received, wire: Wire) -> None:
    await wire.answer(b'{"data":[{"id":"small","x":' + b"[" * 1000 + b"]" * 1000 + b"}]}")


@pytest.mark.parametrize("script", [refuses(500), refuses(401), lists(), stalls, endless, odd, deep])
def test_a_backend_without_a_list_costs_its_own_models_alone(script: Script) -> None:
    """Down, refusing or silent: the others' models are there, and so are those that the settings name."""
    quick = {"models": ["named", "gpt-*"], "timeouts": {"read_s": 0.2}}
    with pair((lists(*ONE), script), ({}, quick)) as it:
        assert it.ids() == ["named", "small", "shared"]
        if script in (endless, odd):
            labels = {"backend": "two", "result": "no_list"}
            wait_until(lambda: it.proxy.metric("guard_attempts_total", labels) == 1)


def test_a_backend_that_is_gone_is_left_out_and_noted() -> None:
    """A refused connection is no error of the list; the operator sees it in the figures."""
    with running_backend() as gone:
        url = gone.url
    with running_backend(lists(*TWO)) as two:
        backends = [{"name": "gone", "url": url}, {"name": "two", "url": two.url}]
        with running_proxy("", backend=None, backends=backends) as proxy:
            answer = ask(proxy.port, "GET", "/v1/models")
            assert [one["id"] for one in json.loads(answer.body)["data"]] == ["shared", "gpt-big", "hidden"]
            for name, result in (("gone", "backend_unreachable"), ("two", "2xx")):
                labels = {"backend": name, "result": result}
                wait_until(lambda labels=labels: proxy.metric("guard_attempts_total", labels) == 1)


def test_a_backend_that_drips_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that keeps coming is never silent, so the whole of it has a limit too."""

    async def drips(request: Received, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(b'{"data":[')
        await wire.until_left()

    monkeypatch.setattr(model_list, "PATIENCE_S", 0.2)
    with pair((drips, lists(*TWO))) as it:
        assert it.ids() == ["shared", "gpt-big"]


def test_without_any_list_the_first_answer_comes_back() -> None:
    """A client that checks its key by the list is told that it is wrong; with nobody there the proxy says so."""
    with pair((refuses(401), refuses(500)), ({}, {})) as it, pytest.raises(AuthenticationError, match="scripted"):
        it.client.models.list()
    with running_backend() as gone:
        url = gone.url
    backends = [{"name": name, "url": url, "models": [name]} for name in ("a", "b")]
    with running_proxy("", backend=None, backends=backends) as proxy:
        answer = ask(proxy.port, "GET", "/v1/models")
        assert (answer.status, answer.error["code"]) == (502, "backend_unreachable")


def test_each_backend_gets_its_own_credentials() -> None:
    """A configured key replaces the client's at its backend; nothing that asks for other bytes goes upstream."""
    with pair(settings=({}, {"api_key": "key-of-two"})) as it:
        headers = {"authorization": "Bearer client-key", "accept-encoding": "gzip", "if-none-match": '"x"'}
        assert ask(it.proxy.port, "GET", "/v1/models?api-version=1", headers=headers).status == 200
        assert it.one.last.header("authorization") == "Bearer client-key"
        assert it.two.last.header("authorization") == "Bearer key-of-two"
        for backend in (it.one, it.two):
            assert backend.last.target == "/v1/models?api-version=1"
            assert backend.last.header("accept-encoding") is None
            assert backend.last.header("if-none-match") is None


def test_of_several_backends_without_a_key_none_gets_the_clients() -> None:
    """Nobody knows which of them it is for, so the list is asked for without it."""
    with pair(settings=({}, {})) as it:
        for name in ("authorization", "api-key", "x-goog-api-key"):
            assert ask(it.proxy.port, "GET", "/v1/models", headers={name: "client-key"}).status == 200
            assert "client-key" not in str([it.one.last.headers, it.two.last.headers])


def test_client_keys_are_asked_for_and_stay_here() -> None:
    """Where the proxy has keys of its own the list needs one, and no backend sees it."""
    with pair(auth__client_keys=["guard-key"]) as it:
        assert ask(it.proxy.port, "GET", "/v1/models").status == 401
        headers = {"authorization": "Bearer guard-key"}
        assert ask(it.proxy.port, "GET", "/v1/models", headers=headers).status == 200
        assert it.one.last.header("authorization") is None


def test_head_describes_the_list() -> None:
    """A probe gets the head of the same answer; a browser's permission is passed on."""
    with pair() as it:
        whole, head = (ask(it.proxy.port, method, "/v1/models") for method in ("GET", "HEAD"))
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == str(len(whole.body)) == whole.headers["content-length"]
        assert whole.headers["access-control-allow-origin"] == "*"


def test_one_model_is_asked_for_where_it_is() -> None:
    """A model's own page comes from the backend that serves it, an alias's from what it leads to."""
    settings = ({"models": ["small"]}, {"models": ["shared", "gpt-*"]})
    with pair(settings=settings, routes={"fast": ["gpt-big"]}) as it:
        assert it.client.models.retrieve("shared").owned_by == "two-inc"
        assert it.client.models.retrieve("fast").id == "gpt-big"
        assert it.client.models.retrieve("small").to_dict() == ONE[0]
        with pytest.raises(NotFoundError, match="No backend serves"):
            it.client.models.retrieve("nobody")


def test_one_backends_list_passes_as_it_is() -> None:
    """Odd spacing, unknown fields and all: with one backend there is nothing to put together."""
    body = b'{ "data" : [ {"id":"m", "x": 1.0} ], "more": null }'

    async def odd(request: Received, wire: Wire) -> None:
        await wire.answer(body, headers=[("x-own", "1")])

    with running_backend(odd) as backend, running_proxy(backend.url, routes={"alias": ["m"]}) as proxy:
        answer = ask(proxy.port, "GET", "/v1/models")
        assert (answer.body, answer.headers["x-own"]) == (body, "1")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'[{"id":"a"},{"id":"b"}]', ["a", "b"]),
        (b'{"data":[{"id":"a"},{"name":"x"},null,{"id":1},{"id":"a","x":2}]}', ["a"]),
        (b'{"data":[]}', []),
        (b'{"data":null}', None),
        (b"<html>", None),
        (b"\xff", None),
        (b'{"data":[{"id":"a","x":"\xff"}]}', None),
        (b'{"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
        (b"", None),
    ],
)
def test_lists_of_other_servers_are_read(body: bytes, expected: list[str] | None) -> None:
    """A bare list is one too; entries without an id are left out; anything else is no list."""
    models = read_models(body)
    assert (None if models is None else list(models)) == expected
