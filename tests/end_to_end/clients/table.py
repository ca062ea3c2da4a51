"""The table of clients and features, made from the tests that ran."""

from __future__ import annotations

import re

Results = dict[str, dict[str, bool]]
"""Whether it worked, by client and feature."""

FEATURES = ("completion", "streaming", "tool loop", "structured output", "responses", "errors", "pivot")

_HEAD = """\
# Clients

Each cell is a test that ran: the client, unchanged but for its base URL, through the proxy to a backend. "yes" passed,
"no" failed, an empty cell was not run, or the backend itself does not offer it. "pivot" means that the old topic did
not reach the backend. The backend is a scripted one where the row names no other. `scripts/test_clients` writes this
file, `CLIENTS_TABLE=docs/clients.md scripts/test_backend` the row of another backend.

"""
_CELLS = {True: "yes", False: "no", None: ""}
_WORKED = {"yes": True, "no": False}
_VERSION = re.compile(r" \d[\w.+]*")


def as_markdown(results: Results) -> str:
    """The page."""
    rows = [("client", *FEATURES), ("---",) * (1 + len(FEATURES))]
    for client, worked in sorted(results.items()):
        rows.append((client, *(_CELLS[worked.get(feature)] for feature in FEATURES)))
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def merged(page: str, results: Results) -> Results:
    """``results``, and the rows of an earlier page whose client did not run again in any version."""
    ran = {_VERSION.sub("", client) for client in results}
    return {client: row for client, row in _rows(page).items() if _VERSION.sub("", client) not in ran} | results


def _rows(page: str) -> Results:
    lines = [line.strip("| ").split(" |") for line in page.splitlines() if line.startswith("| ")][2:]
    found: Results = {}
    for client, *cells in lines:
        words = dict(zip(FEATURES, (cell.strip() for cell in cells), strict=False))
        found[client] = {feature: _WORKED[word] for feature, word in words.items() if word in _WORKED}
    return found
