"""The guarded path: the same model, reached through ``guard-serve``, as any client reaches it.

The benchmarks know the proxy by its command and its HTTP headers alone.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from eval.errors import BackendError, DataError

START_S = 120.0
STOP_S = 10.0
_ADDRESS = re.compile(r"listens on (http://\S+/v1)")


@asynccontextmanager
async def running_proxy(backend_url: str, settings: dict[str, object], log: Path) -> AsyncIterator[str]:
    """Start ``guard-serve`` on a free port in front of ``backend_url`` and yield its base URL; stop it at the end.

    Args:
        backend_url: the server that holds the model.
        settings: options of ``guard.yaml``, keys dotted; None: the default.
        log: file that takes the proxy's output.

    Raises:
        DataError: the command is not installed.
        BackendError: the proxy did not start; the message quotes the end of its log.
    """
    chosen = [f"--set={key}={value}" for key, value in settings.items() if value is not None]
    # The environment may configure a proxy of the user's own; this one is configured here alone.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GUARD_")}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            _command(), "--port", "0", "--backend", backend_url, *chosen, stdout=output, stderr=output, env=environment
        )
        try:
            yield await _address(process, log)
        finally:
            await _stopped(process)


def _command() -> str:
    beside = Path(sys.executable).parent / "guard-serve"
    found = str(beside) if beside.exists() else shutil.which("guard-serve")
    if found is None:
        raise DataError("guard-serve is not installed beside this Python: name a running proxy with --guard-url")
    return found


async def _address(process: asyncio.subprocess.Process, log: Path) -> str:
    for _ in range(int(START_S * 10)):
        said = await asyncio.to_thread(log.read_text, "utf-8", "replace")
        if match := _ADDRESS.search(said):
            return match.group(1)
        if process.returncode is not None:
            break
        await asyncio.sleep(0.1)
    raise BackendError(f"guard-serve did not start: {said.strip()[-300:]}")


async def _stopped(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
