"""``guard-serve``: start the proxy, check its settings, explain a decision, list handoffs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from guard.cache import LRURulingCache
from guard.errors import GuardError, SettingsError, UnreadableChat
from guard.guard import Guard
from guard.policy import Mode
from serving import explain as explaining
from serving import handoffs_command
from serving.app import create_app
from serving.errors import ApiError
from serving.handoffs import open_engine, sqlite_file
from serving.logs import configure
from serving.server import bind, run, serve
from serving.settings import Gate, Settings, load
from serving.wire import read_chat

MakeGuard = Callable[[Gate], Guard]
_FLAGS = ("config", "backend", "backend_key", "host", "port", "mode")


def main(
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] = os.environ,
    make_guard: MakeGuard | None = None,
) -> int:
    """Run a command; the result is the exit status."""
    arguments = _parser().parse_args(argv)
    command = {"explain": _explain, "handoffs": _handoffs}.get(arguments.command, _serve)
    try:
        return command(arguments, environ, make_guard or _guard)
    except GuardError as error:
        for line in str(error).splitlines():
            print(f"guard-serve: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="guard-serve",
        description="An OpenAI-compatible proxy that forwards only the history that belongs to the current topic.",
        epilog="Every option of guard.yaml can be set as --set KEY=VALUE or as GUARD_KEY in the environment.",
    )
    parser.set_defaults(command="serve")
    _add_flags(parser)
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", help="port to listen on (default 8080)")
    parser.add_argument("--backend", metavar="URL", help="OpenAI-compatible server, e.g. http://localhost:11434/v1")
    parser.add_argument("--mode", help=f"how far the guard goes: {', '.join(Mode)} (default enforce)")
    parser.add_argument("--check", action="store_true", help="validate the settings, load the gate, and exit")
    commands = parser.add_subparsers(metavar="COMMAND")
    _add_explain(commands.add_parser("explain", help="show why each user turn of a chat request was decided as it was"))
    _add_handoffs(commands.add_parser("handoffs", help="list the handoff log"))
    return parser


def _add_flags(parser: argparse.ArgumentParser) -> None:
    # Suppressed defaults: a flag given before the command must not be undone by the command's parser.
    parser.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="settings file (see guard.yaml)")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=argparse.SUPPRESS, help="any option, e.g. policy.pin=2"
    )


def _add_explain(parser: argparse.ArgumentParser) -> None:
    _add_flags(parser)
    parser.set_defaults(command="explain")
    parser.add_argument("file", help="a chat request as JSON; - reads standard input")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_handoffs(parser: argparse.ArgumentParser) -> None:
    _add_flags(parser)
    parser.set_defaults(command="handoffs")
    handoffs_command.add_arguments(parser)


def _settings(arguments: argparse.Namespace, environ: Mapping[str, str], *, backend: bool = True) -> Settings:
    given = vars(arguments)
    flags: dict[str, Any] = {name: given[name] for name in _FLAGS if given.get(name) is not None}
    for assignment in given.get("set", ()):
        key, separator, value = assignment.partition("=")
        if not separator:
            raise SettingsError(f"--set {key}: want KEY=VALUE")
        flags[key] = value
    if not backend and "backends" not in flags:
        flags.setdefault("backend", "http://localhost")  # not contacted
    return load(flags, environ)


def _serve(arguments: argparse.Namespace, environ: Mapping[str, str], make_guard: MakeGuard) -> int:
    settings = _settings(arguments, environ)
    _check_files(settings)
    app = create_app(settings, make_guard(settings.gate))
    if arguments.check:
        print("The settings are valid.")
        return 0
    api = bind(settings.host, settings.port)
    admin = bind(settings.admin.host, settings.admin.port, "admin.port") if settings.admin.port is not None else None
    configure(settings.logging)
    host, port = api.getsockname()[:2]
    backends = ", ".join(backend.url for backend in settings.backends)
    print(f"pivot-guard listens on http://{host}:{port}/v1, mode {settings.mode}, backend {backends}", file=sys.stderr)
    run(serve(app, settings, api, admin))
    return 0


def _check_files(settings: Settings) -> None:
    """Find out now what would else show with the first request.

    Raises:
        SettingsError: a SQLite file cannot be where the settings want it.
    """
    for key, url in (("log.url", settings.log.url), ("ledger.url", settings.ledger.url)):
        file = sqlite_file(url)
        if file is None:
            continue
        if not file.parent.is_dir():
            raise SettingsError(f"{key}: there is no folder {file.parent}; make it, or choose another")
        if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
            raise SettingsError(f"{key}: {file} cannot be written; choose another file, or give leave to write it")


def _explain(arguments: argparse.Namespace, environ: Mapping[str, str], make_guard: MakeGuard) -> int:
    settings = _settings(arguments, environ, backend=False)
    try:
        body = sys.stdin.buffer.read() if arguments.file == "-" else Path(arguments.file).read_bytes()
        conversation = read_chat(body).conversation()
    except OSError as error:
        raise SettingsError(f"cannot read {arguments.file}: {error.strerror}") from None
    except ApiError as error:
        raise UnreadableChat(error.message) from None
    policy = settings.policy_for(Mode.ENFORCE, None)
    turns = explaining.explain(make_guard(settings.gate), conversation, policy)
    print(explaining.as_json(turns) if arguments.json else explaining.in_words(turns))
    return 0


def _handoffs(arguments: argparse.Namespace, environ: Mapping[str, str], make_guard: MakeGuard) -> int:
    del make_guard
    settings = _settings(arguments, environ, backend=False)
    if not settings.log.url:
        raise SettingsError("log.url: the handoff log is turned off")
    return handoffs_command.run(arguments, open_engine(settings.log.url))


def _guard(gate: Gate) -> Guard:
    # Here and not at the top: listing handoffs or printing help should not wait for numeric libraries to load.
    from models.build import GateSettings, build_guard

    wanted = GateSettings(gate.artifact, gate.runtime, gate.device, gate.threads, gate.url)
    return build_guard(wanted, LRURulingCache(gate.cache_size))
