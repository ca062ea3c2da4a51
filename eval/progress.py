"""Progress on standard error, with the time left; silent where nobody watches."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

SPEED_OVER_S = 600.0
"""The time left is judged by the steps of these last seconds: a slow model takes minutes for one."""


class Progress:
    """A bar over ``total`` steps, with elapsed time and an estimate of the time left."""

    def __init__(self, title: str, total: int, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            speed_estimate_period=SPEED_OVER_S,
        )
        self._task = self._bar.add_task(title, total=total)

    def advance(self) -> None:
        """Count one step as done."""
        self._bar.advance(self._task)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
