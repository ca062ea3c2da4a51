"""A conversation that changes its subject, through the guard, against a small real model on this machine.

Run by ``scripts/demo``. Starts the chat backend and the proxy, holds the conversation with the official ``openai``
client, and prints for each turn what the guard decided and what it saved.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam
from rich.console import Console
from rich.table import Table

MODEL = "smollm2-135m-instruct"
SYSTEM = "You are a helpful assistant. Answer in one or two short sentences."
TURNS = (
    "My sourdough bread comes out flat. What could be wrong?",
    "How long should the dough rise in a cold kitchen?",
    "And can I put it in the fridge overnight?",
    "Which planet in the solar system has the most moons?",
    "How far is it from the sun?",
    "Back to my bread: should the oven be hotter than 230 degrees?",
)
METRICS = ("guard_decisions", "guard_requests", "guard_dropped", "guard_bypasses", "guard_gate_seconds")
START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one turn."""

    text: str
    prompt_tokens: int
    headers: Mapping[str, str]


def main() -> None:
    """Start everything, talk, and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help="leave the backend and the proxy running afterwards")
    arguments = parser.parse_args()
    console = Console()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pivot-guard-demo-")))
        with console.status("Loading the chat model (SmolLM2-135M on llama.cpp) ..."):
            backend = stack.enter_context(_backend(folder))
        with console.status("Starting the proxy and loading the gate ..."):
            proxy = stack.enter_context(_proxy(backend, folder))
        console.print(f"Backend {backend}   Proxy {proxy}/v1\n")
        _talk(console, backend, proxy)
        _digest(console, proxy)
        if arguments.serve:
            _wait(console, proxy)


@contextmanager
def _backend(folder: Path) -> Iterator[str]:
    script = Path(__file__).with_name("local_backend.py")
    with _process([sys.executable, str(script), "--port", "0", "--alias", MODEL], folder / "backend.log") as process:
        if process.stdout is None or not (url := process.stdout.readline().decode().strip()):
            sys.exit(f"demo: the chat backend did not start:\n{(folder / 'backend.log').read_text()[-2000:]}")
        yield url


@contextmanager
def _proxy(backend: str, folder: Path) -> Iterator[str]:
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(Path(sys.executable).with_name("guard-serve")), "--backend", backend, "--port", str(port)]
    with _process(command, folder / "proxy.log", cwd=folder) as process:
        deadline = time.monotonic() + START_SECONDS
        while not _ready(url):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"demo: the proxy did not start:\n{(folder / 'proxy.log').read_text()[-2000:]}")
            time.sleep(0.1)
        yield url


@contextmanager
def _process(command: list[str], log: Path, cwd: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    # The demo shows the defaults: settings of the caller's environment must not leak into it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GUARD_")}
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=cwd, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ready(url: str) -> bool:
    try:
        return bool(_get(f"{url}/readyz"))
    except URLError:
        return False


def _get(url: str) -> str:
    with urlopen(url, timeout=5) as answer:  # noqa: S310 - a server that this script started
        return str(answer.read().decode())


def _talk(console: Console, backend: str, proxy: str) -> None:
    client = OpenAI(base_url=f"{proxy}/v1", api_key="unused")
    history: list[ChatCompletionMessageParam] = [{"role": "system", "content": SYSTEM}]
    total_with = total_without = 0
    for text in TURNS:
        history.append({"role": "user", "content": text})
        console.print(f"[bold]user[/bold]  {text}", highlight=False)
        console.print("[bold]model[/bold] ", end="")
        answer = _ask(console, client, history)
        without = _prompt_tokens(backend, history)
        total_with, total_without = total_with + answer.prompt_tokens, total_without + without
        console.print(_verdict(answer, without), style="dim", soft_wrap=True)
        history.append({"role": "assistant", "content": answer.text})
    saved = 1 - total_with / total_without
    console.print(f"Prompt tokens in all: {total_with} with the guard, {total_without} without ({saved:.0%} saved)\n")


def _ask(console: Console, client: OpenAI, history: list[ChatCompletionMessageParam]) -> Answer:
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL,
        messages=history,
        stream=True,
        stream_options={"include_usage": True},
        max_tokens=60,
        temperature=0,
    )
    text, prompt_tokens = "", 0
    for chunk in raw.parse():
        piece = chunk.choices[0].delta.content or "" if chunk.choices else ""
        text += piece
        console.print(piece, end="", highlight=False, markup=False)
        if chunk.usage:
            prompt_tokens = chunk.usage.prompt_tokens
    console.print()
    return Answer(text, prompt_tokens, raw.headers)


def _prompt_tokens(backend: str, history: list[ChatCompletionMessageParam]) -> int:
    """Tokens of the whole history's prompt, by the backend's own template and tokenizer (llama.cpp's endpoints)."""
    root = backend.removesuffix("/v1")
    prompt = _post(f"{root}/apply-template", {"messages": history})["prompt"]
    return len(_post(f"{root}/tokenize", {"content": prompt, "add_special": True, "parse_special": True})["tokens"])


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})  # noqa: S310
    with urlopen(request, timeout=30) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
    return found


def _verdict(answer: Answer, without: int) -> str:
    get = answer.headers.get
    label = get("x-guard-label", "first turn")
    if get("x-guard-resumed") is not None:
        label += ", back to an earlier topic"
    probability = get("x-guard-probability")
    chance = f" (p(PIVOT) {float(probability):.2f})" if probability else ""
    kept, dropped = get("x-guard-kept", "?"), get("x-guard-dropped", "?")
    tokens = f"prompt {answer.prompt_tokens} tokens, {without} without the guard"
    return f"guard {label}{chance}: {kept} messages kept, {dropped} dropped; {tokens}\n"


def _digest(console: Console, proxy: str) -> None:
    table = Table("metric", "value", title="From /metrics", title_justify="left")
    for line in _get(f"{proxy}/metrics").splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith(METRICS) and "_created" not in name and "_bucket" not in name and float(value):
            table.add_row(name, value)
    console.print(table)


def _wait(console: Console, proxy: str) -> None:
    console.print(f"Both keep running. Point any OpenAI client at them: base_url={proxy}/v1, model={MODEL}")
    console.print(f"  curl {proxy}/v1/models\n  curl {proxy}/metrics\nCtrl-C stops both.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        console.print("Stopped.")


if __name__ == "__main__":
    main()
