"""Command-line options of every command that asks a chat server."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from eval.chat_client import Endpoint
from eval.errors import DataError
from models.arguments import natural, positive, positive_number

DEFAULT_CACHE = Path(".guard-eval/replies.sqlite3")


def add_backend_arguments(parser: ArgumentParser) -> None:
    """Declare where the chat models are and how hard they may be driven."""
    group = parser.add_argument_group("backend")
    group.add_argument("--base-url", metavar="URL", help="OpenAI-compatible server, up to and including /v1")
    group.add_argument("--api-key-env", metavar="NAME", help="environment variable that holds its key")
    group.add_argument("--concurrency", type=positive, default=4, help="requests at once (default 4)")
    group.add_argument(
        "--rate", type=positive_number, metavar="PER_MINUTE", help="requests begun a minute (default: no limit)"
    )
    group.add_argument("--retries", type=natural, default=5, help="attempts after a failed one (default 5)")
    group.add_argument("--timeout", type=positive_number, default=600, metavar="S", help="seconds a request may take")
    group.add_argument("--extra", type=json_object, default={}, metavar="JSON", help="further fields of every body")
    group.add_argument(
        "--cache", type=Path, default=DEFAULT_CACHE, help=f"answers already paid for (default {DEFAULT_CACHE})"
    )
    group.add_argument("--dry-run", action="store_true", help="print the calls and their tokens, send nothing")


def endpoint(arguments: Namespace, base_url: str | None = None) -> Endpoint:
    """The endpoint that the arguments describe, at ``base_url`` if it is given.

    Raises:
        DataError: no server is named, or the key's variable is not set.
    """
    url = base_url or arguments.base_url
    if not url:
        raise DataError("--base-url is needed: the server that holds the chat model")
    key = None
    if arguments.api_key_env:
        key = os.environ.get(arguments.api_key_env)
        if not key:
            raise DataError(f"--api-key-env: {arguments.api_key_env} is not set")
    return Endpoint(
        base_url=url,
        api_key=key,
        concurrency=arguments.concurrency,
        per_minute=arguments.rate,
        retries=arguments.retries,
        timeout_s=arguments.timeout,
    )


def json_object(text: str) -> dict[str, object]:
    """A JSON object given on the command line."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ArgumentTypeError("a JSON object is wanted")
    return value
