"""Settings: flags over environment over file over defaults. The only reader of the environment.

Every option of ``guard.yaml`` is an environment variable too: ``policy.pin`` is ``GUARD_POLICY__PIN``.
The three sources are merged as plain trees before they are validated, so that an unknown or wrong key is refused
whichever source it came from: environment readers of the usual kind ignore a variable they do not know, and a misspelt
``GUARD_MOED=shadow`` would enforce.

    >>> load({"backend": "http://localhost:11434/v1"}, {"GUARD_PORT": "9000"}).port
    9000
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from guard.errors import SettingsError
from guard.policy import Mode, Policy

PREFIX = "GUARD_"
NOT_OURS = frozenset({"GUARD_VENV", "GUARD_CONFIG", "GUARD_DATA_DIR"})
"""Variables of the prefix that are no options: two of the scripts and tests, and the path of the file itself."""
SERVICE_LINK = re.compile(r"GUARD_(SERVICE_(HOST|PORT.*)|PORT_\d+_(TCP|UDP).*)$")
"""What Kubernetes puts into the environment of a pod beside a service named "guard"."""
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")


def _comma_list(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _http_url(value: object) -> object:
    wanted = "an http:// or https:// URL is wanted"
    if not isinstance(value, str):
        raise ValueError(wanted)  # noqa: TRY004 - what the validation turns into a message
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise ValueError(f"{wanted}, with a port of 1 to 65535 if any") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or _UNPRINTABLE.search(value):
        raise ValueError(wanted)
    return value


def _backend_url(value: str) -> str:
    parts = urlsplit(value)
    if "@" in parts.netloc:
        raise ValueError("a URL without user and password is wanted; a key goes into api_key or api_key_env")
    if "?" in value or "#" in value:
        raise ValueError("a URL without '?' and '#' is wanted; clients' paths are appended to it")
    return value


def _key(value: object) -> object:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str):
        return value
    key = text.strip()  # files and secrets often end with a line break
    if not key.isprintable():
        raise ValueError("a key without control characters is wanted")
    return key


def _mode(value: object) -> object:
    return "off" if value is False else value  # what YAML makes of an unquoted off


def _ledger_url(value: object) -> object:
    known = ("sqlite:///", "redis://", "rediss://", "unix://")
    if isinstance(value, str) and (value in ("", "memory") or value.startswith(known)):
        return value
    raise ValueError("want memory, sqlite:///FILE, redis://HOST:PORT/DB, or an empty one for none")


Tree = dict[str, Any]
HttpUrl = Annotated[str, BeforeValidator(_http_url)]
BackendUrl = Annotated[HttpUrl, AfterValidator(_backend_url)]
Key = Annotated[SecretStr, BeforeValidator(_key)]
Keys = Annotated[list[Key], BeforeValidator(_comma_list)]
ModeName = Annotated[Mode, BeforeValidator(_mode)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BackendTimeouts(_Section):
    """Seconds for one backend; what is not given is as in ``timeouts``."""

    connect_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    read_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class Backend(_Section):
    """One OpenAI-compatible server."""

    name: str = Field(default="default", pattern=r"^[A-Za-z0-9._-]+$")
    url: BackendUrl
    api_key: Key | None = None
    api_key_env: str | None = None
    models: list[str] = ["*"]
    timeouts: BackendTimeouts = BackendTimeouts()


class Target(_Section):
    """Where a route leads: a model, at one backend or at all that serve it."""

    model: str = Field(min_length=1)
    backend: str | None = None


def _target(value: object) -> object:
    return {"model": value} if isinstance(value, str) else value


Targets = Annotated[list[Annotated[Target, BeforeValidator(_target)]], Field(min_length=1)]


class RoutingSettings(_Section):
    """What happens when a backend does not answer.

    Another target is tried when a backend cannot be reached or answers with a status of ``fallback_on``: it has done
    nothing then. After a break or a time-out it may have, and a second call could be a second bill; ``after_accept``
    says to take that chance.
    """

    fallback_on: list[int] = [429, 500, 502, 503, 529]
    after_accept: bool = False
    retries: int = Field(default=0, ge=0, le=5)
    retry_share: float = Field(default=0.2, ge=0, le=1)
    retry_burst: int = Field(default=20, ge=0)
    breaker_failures: int = Field(default=5, ge=1)
    breaker_s: float = Field(default=30, ge=0)
    order: Literal["configured", "risk"] = "configured"


class RiskSettings(_Section):
    """What a change of model is expected to cost: the file that ``guard-eval switch-matrix`` writes."""

    file: str | None = None


class HandoffSettings(_Section):
    """What is done to a request when another model goes on with its history; nothing by default.

    ``drop`` the other model's answers, ``restate`` the user's requests, ``mark`` the other model's turns, ``strip``
    reasoning that another provider signed. See ``serving.mitigations``.
    """

    mitigations: list[Literal["drop", "restate", "mark", "strip"]] = []


class PolicySettings(_Section):
    """What decisions depend on beside messages and gate; see ``guard.policy.Policy``."""

    threshold: float | None = Field(default=None, ge=0, le=1)
    resume: bool = True
    resume_depth: int = Field(default=4, ge=0, le=64)
    standing: bool = True
    pin: int = Field(default=0, ge=0)
    budget: int | None = Field(default=None, ge=1)
    recent: int = Field(default=4, ge=1)


class Gate(_Section):
    """Which gate, how it runs, and how long a request waits for it."""

    artifact: str = "shipped"
    runtime: Literal["auto", "onnx", "torch", "vllm"] = "auto"
    device: str = "auto"
    threads: int = Field(default=1, ge=1)
    url: HttpUrl | None = None
    budget_ms: int = Field(default=1000, ge=1)
    workers: int = Field(default=2, ge=1)
    backlog: int = Field(default=64, ge=1)
    cache_size: int = Field(default=100_000, ge=1)


class Limits(_Section):
    """Bounds on what a request may cost."""

    body_bytes: int = Field(default=64 * 1024 * 1024, ge=1)


class Timeouts(_Section):
    """Seconds. ``read_s`` is the longest silence of a backend, before its first byte and between two."""

    connect_s: float = Field(default=5, gt=0, allow_inf_nan=False)
    read_s: float = Field(default=600, gt=0, allow_inf_nan=False)
    # Servers in wide use close idle connections after 5 s; letting go first avoids sending into a closing connection.
    keepalive_s: float = Field(default=4, ge=0, allow_inf_nan=False)
    shutdown_s: int = Field(default=30, ge=0)


class Auth(_Section):
    """Keys that clients need; none: anybody who reaches the port."""

    client_keys: Keys = []
    admin_key: Key | None = None


class Admin(_Section):
    """Where ``/metrics`` is; no port: beside the API."""

    host: str = "127.0.0.1"
    port: int | None = Field(default=None, ge=0, le=65535)


class HandoffLogSettings(_Section):
    """The handoff log; an empty URL turns it off."""

    url: str = "sqlite:///handoffs.sqlite3"
    content: Literal["none", "full"] = "none"
    queue: int = Field(default=10_000, ge=1)


class LedgerSettings(_Section):
    """Who wrote which assistant message; an empty URL turns it off.

    ``memory``, ``sqlite:///FILE`` (survives a restart), or ``redis://HOST:PORT/DB`` (replicas know each other's).
    """

    url: Annotated[str, BeforeValidator(_ledger_url)] = "memory"
    capacity: int = Field(50_000, ge=1)
    store_capacity: int = Field(2_000_000, ge=1)
    ttl_s: float = Field(30 * 24 * 3600, gt=0, allow_inf_nan=False)
    budget_ms: int = Field(50, ge=1)


class Logging(_Section):
    """The process log, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "json"


class Otel(_Section):
    """OpenTelemetry traces over OTLP/HTTP; no endpoint: none."""

    endpoint: HttpUrl | None = None


class Settings(_Section):
    """Everything an operator may choose."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    backends: list[Backend] = Field(min_length=1)
    mode: ModeName = Mode.ENFORCE
    modes: dict[str, ModeName] = {}
    routes: dict[str, Targets] = {}
    routing: RoutingSettings = RoutingSettings()
    handoff: HandoffSettings = HandoffSettings()
    risk: RiskSettings = RiskSettings()
    policy: PolicySettings = PolicySettings()
    gate: Gate = Gate()
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    auth: Auth = Auth()
    admin: Admin = Admin()
    log: HandoffLogSettings = HandoffLogSettings()
    ledger: LedgerSettings = LedgerSettings()
    logging: Logging = Logging()
    otel: Otel = Otel()

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [backend.name for backend in self.backends]
        if len(set(names)) < len(names):
            raise ValueError("backends: every backend needs a name of its own")
        return self

    @model_validator(mode="after")
    def _routes_lead_somewhere(self) -> Self:
        names = {backend.name for backend in self.backends}
        for route, targets in self.routes.items():
            for target in targets:
                if target.backend is not None and target.backend not in names:
                    raise ValueError(f"routes.{route}: there is no backend {target.backend}")
                if target.backend is None and not any(serves(backend, target.model) for backend in self.backends):
                    raise ValueError(f"routes.{route}: no backend serves {target.model}")
        return self

    def mode_for(self, model: str) -> Mode:
        """The mode of a model: the first pattern of ``modes`` that fits, else ``mode``."""
        return next((mode for pattern, mode in self.modes.items() if _fits(model, pattern)), self.mode)

    def policy_for(self, mode: Mode, pin: int | None) -> Policy:
        """The policy of one request; its own pin replaces the configured one."""
        values = self.policy.model_dump()
        return Policy(mode=mode, **(values if pin is None else values | {"pin": pin}))


def serves(backend: Backend, model: str) -> bool:
    """Whether a backend serves a model, by its names and patterns."""
    return any(_fits(model, pattern) for pattern in backend.models)


def _fits(model: str, pattern: str) -> bool:
    return model == pattern or fnmatchcase(model, pattern)  # "claude[1m]" is a name too


def load(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Merge the sources and validate.

    Args:
        flags: what was given on the command line, keys as in ``guard.yaml`` (dotted or nested), ``backend`` and
            ``config``.
        environ: the process environment.

    Raises:
        SettingsError: a key is unknown or its value not allowed; the message names the key, never the value.
    """
    config = flags.get("config") or environ.get("GUARD_CONFIG")
    sources = [
        _file_tree(config) if config else {},
        _environment_tree(environ),
        _flag_tree({key: value for key, value in flags.items() if key != "config"}),
    ]
    merged: Tree = {}
    for source in sources:
        merged = _merge(merged, _expand_backend(source))
    _resolve_keys(merged, environ)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(detail) for detail in error.errors())) from None


def _file_tree(path: str) -> Tree:
    try:
        tree = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"config: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"config: {path} is not UTF-8") from None
    except RecursionError:
        raise SettingsError(f"config: {path} is nested too deeply") from None
    except ValueError:  # a date that is none
        raise SettingsError(f"config: {path} holds a value that is not valid YAML; put it into quotes") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise SettingsError(f"config: {path}{where} is not valid YAML") from None
    if not isinstance(tree, dict | None):
        raise SettingsError(f"config: {path} must hold keys and values at its top level")
    return tree or {}


def _environment_tree(environ: Mapping[str, str]) -> Tree:
    tree: Tree = {}
    for name, value in environ.items():
        if not name.startswith(PREFIX) or name in NOT_OURS or SERVICE_LINK.match(name):
            continue
        if name == "GUARD_PORT" and value.startswith("tcp://"):  # Kubernetes again
            continue
        _put(tree, name.removeprefix(PREFIX).lower().split("__"), _parsed(value))
    return tree


def _flag_tree(flags: Mapping[str, Any]) -> Tree:
    tree: Tree = {}
    for name, value in flags.items():
        if value is not None:
            _put(tree, name.split("."), _parsed(value) if isinstance(value, str) else value)
    return tree


def _put(tree: Tree, path: list[str], value: object) -> None:
    for key in path[:-1]:
        inner = tree.setdefault(key, {})
        if not isinstance(inner, dict):
            inner = tree[key] = {}
        tree = inner
    tree[path[-1]] = value


def _parsed(value: str) -> object:
    """Lists, objects and null may be written as JSON; numbers and switches are read by the validation."""
    if value == "null":
        return None
    if value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _expand_backend(tree: Tree) -> Tree:
    """``backend`` (one URL) and ``backend_key`` are short for ``backends`` with one entry.

    A key stands beside its URL, in the same source: one that came from elsewhere could go to a host it is not for.
    """
    short = {"url": tree.get("backend"), "api_key": tree.get("backend_key")}
    if "backend" not in tree:
        if "backend_key" in tree:
            raise SettingsError(
                "backend_key: its URL must be set in the same place (both as flags, both in the environment with "
                "GUARD_BACKEND, or both in the file), so that a key never goes to another host"
            )
        return tree
    if "backends" in tree:
        raise SettingsError("backend, backends: set one of them; backend is short for a list of one")
    rest = {key: value for key, value in tree.items() if key not in ("backend", "backend_key")}
    return rest | {"backends": [{key: value for key, value in short.items() if value is not None}]}


def _merge(low: Tree, high: Tree) -> Tree:
    merged = dict(low)
    for key, value in high.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _resolve_keys(tree: Tree, environ: Mapping[str, str]) -> None:
    """Fetch the keys that backends name by ``api_key_env``."""
    backends = tree.get("backends")
    for number, backend in enumerate(backends if isinstance(backends, list) else []):
        name = backend.get("api_key_env") if isinstance(backend, dict) else None
        if not name:
            continue
        if not isinstance(name, str):
            raise SettingsError(f"backends.{number}.api_key_env: want the name of an environment variable")
        if name not in environ:
            raise SettingsError(f"backends.{number}.api_key_env: the environment has no variable {name}")
        backend["api_key"] = environ[name]


def _explain(detail: ErrorDetails) -> str:
    path = [str(part) for part in detail["loc"]]
    key = ".".join(path)
    if detail["type"] == "extra_forbidden":
        return f"{key}: unknown key; {_allowed(path)}"
    if detail["type"] == "missing" and key == "backends":
        return "backends: at least one is needed, for example --backend http://localhost:11434/v1"
    message = detail["msg"].removeprefix("Value error, ")
    return f"{key}: {message}" if key else message


def _allowed(path: list[str]) -> str:
    section: type[BaseModel] = Settings
    for part in path[:-1]:
        field = section.model_fields.get(part)
        inner = field.annotation if field else None
        section = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else section
        section = Backend if part == "backends" else section
    names = sorted(section.model_fields)
    close = get_close_matches(path[-1], names, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}allowed here: {', '.join(names)}"
