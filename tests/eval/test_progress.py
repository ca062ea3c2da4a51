from __future__ import annotations

import io
import re
import time

from rich.console import Console

from eval.progress import Progress


def _shown(*, terminal: bool) -> str:
    stream = io.StringIO()
    with Progress("chat models", 4, Console(file=stream, force_terminal=terminal, width=80)) as progress:
        for _ in range(3):
            time.sleep(0.4)
            progress.advance()
    return stream.getvalue()


def test_the_bar_tells_what_is_done_and_the_time_left() -> None:
    """On a terminal the bar names the steps done, the time gone, and the time left once it can be judged."""
    last = _shown(terminal=True).split("chat models")[-1]
    assert re.search(r"3/4.*0:00:01.*left.*0:00:0[01]", last)


def test_nothing_is_drawn_where_nobody_watches() -> None:
    """In a log or a pipe the bar is silent."""
    assert _shown(terminal=False).strip() == ""
