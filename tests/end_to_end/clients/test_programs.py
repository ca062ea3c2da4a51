"""Clients that bring their own runtime: Node packages, and Python packages that need an environment of their own.

``scripts/test_clients`` installs them under ``build/clients`` and runs this file. Each program in ``programs`` takes a
base URL and a feature, and prints what it got as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.backend import Backend
from tests.servers import Proxy

pytestmark = pytest.mark.optin

PROGRAMS = Path(__file__).parent / "programs"
INSTALLED = Path(os.environ.get("CLIENTS_HOME", "build/clients")).resolve()
EXPECTED = {
    "completion": "Hello",
    "streaming": "Hello",
    "tool loop": "It is 5.",
    "structured output": {"city": "Paris", "population": 2},
    "pivot": "Hello",
}


def command(program: str) -> list[str]:
    if program.endswith(".py"):
        return [str(INSTALLED / "venv/bin/python"), str(PROGRAMS / program)]
    return ["node", str(INSTALLED / "node" / program)]


def run(program: str, proxy: Proxy, feature: str) -> Any:  # noqa: ANN401 - whatever the client found
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(
        [*command(program), f"{proxy.url}/v1", feature], capture_output=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return json.loads(done.stdout.decode().splitlines()[-1])


def versions() -> dict[str, str]:
    path = INSTALLED / "versions.json"
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


NAMES = {
    "openai_node.mjs": "openai",
    "ai_sdk.mjs": "ai",
    "litellm_client.py": "litellm",
    "openai_agents.py": "openai-agents",
}
LABELS = {
    "openai": "openai-node",
    "ai": "Vercel AI SDK",
    "litellm": "LiteLLM as client",
    "openai-agents": "OpenAI Agents SDK",
}


def label(program: str) -> str:
    name = NAMES[program]
    return f"{LABELS[name]} {versions().get(name, '')}".strip()


CASES = [
    pytest.param(program, feature, id=f"{NAMES[program]}-{feature}", marks=pytest.mark.client(label(program), feature))
    for program in NAMES
    for feature in EXPECTED
]


@pytest.mark.parametrize(("program", "feature"), CASES)
def test_a_client_gets_what_it_asked_for(proxy: Proxy, backend: Backend, program: str, feature: str) -> None:
    """The same features work in every client, and a changed subject leaves the old one out."""
    assert run(program, proxy, feature) == EXPECTED[feature]
    if feature == "pivot":
        assert b"cats" not in backend.last.body
