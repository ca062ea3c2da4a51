"""The table of clients and features, made from the tests that ran."""

from __future__ import annotations

Results = dict[str, dict[str, bool]]
"""Whether it worked, by client and feature."""

FEATURES = ("completion", "streaming", "tool loop", "structured output", "responses", "errors", "pivot")

_HEAD = """\
# Clients

Each cell is a test that ran: the client, unchanged but for its base URL, through the proxy to a backend. "yes" passed,
"no" failed, an empty cell was not run. "pivot" means that the old topic did not reach the backend. The backend is a
scripted one where the row names no other. `scripts/test_clients` runs them all and writes this file.

"""


def as_markdown(results: Results) -> str:
    """The page."""
    rows = [("client", *FEATURES), ("---",) * (1 + len(FEATURES))]
    for client, worked in sorted(results.items()):
        rows.append((client, *(_cell(worked.get(feature)) for feature in FEATURES)))
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cell(worked: bool | None) -> str:
    return {True: "yes", False: "no", None: ""}[worked]
