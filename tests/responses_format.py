"""A strict reader of the Responses API's ``input``: what its server refuses in a list of items.

Written from the published reference: an output needs the call that it answers, a call needs its output, and reasoning
needs the item that it led to. As in ``tests.chat_format`` problems are told by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.chat_format import Problem

Json = dict[str, Any]

CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
}
OUTPUTS = {output: call for call, output in CALLS.items()}
_LED_TO = {*CALLS, "message", "reasoning", "web_search_call", "image_generation_call", "mcp_call"}


def problems(items: Sequence[Json]) -> list[Problem]:
    """What a strict server would refuse."""
    return sorted([*_traffic(items), *_reasoning(items)])


def _traffic(items: Sequence[Json]) -> Iterable[Problem]:
    callers: dict[tuple[str, str], int] = {}
    due: set[int] = set()
    for position, item in enumerate(items):
        kind = item.get("type", "message")
        if kind in CALLS:
            callers[kind, item["call_id"]] = position
            due.add(position)
        elif kind in OUTPUTS:
            caller = callers.get((OUTPUTS[kind], item["call_id"]))
            if caller is None:
                yield Problem(position, "an output without its call")
            else:
                due.discard(caller)
    for position in due:
        yield Problem(position, "a call without its output")


def _reasoning(items: Sequence[Json]) -> Iterable[Problem]:
    for position, item in enumerate(items):
        after = items[position + 1] if position + 1 < len(items) else {}
        kind = after.get("type", "message" if after.get("role") == "assistant" else "")
        led_to = kind in _LED_TO and after.get("role", "assistant") == "assistant"
        if item.get("type") == "reasoning" and not led_to:
            yield Problem(position, "reasoning without the item that it led to")
