"""The process log."""

from __future__ import annotations

import logging

import pytest

from guard.policy import Mode
from serving.decision import Decision
from serving.logs import RequestLog, TextFormatter
from serving.record import RequestRecord


def test_a_name_that_a_client_chose_cannot_begin_a_line_or_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Line breaks and control characters are escaped in text lines, and long names cut."""
    record = RequestRecord("POST", "/chat/completions", decision=Decision("d", Mode.OFF))
    record.model = "evil\nline\x1b[2J" + "x" * 10_000
    with caplog.at_level(logging.INFO):
        RequestLog().finish(record)
    line = TextFormatter().format(caplog.records[-1])
    assert r"model=evil\nline\x1b[2Jxx" in line
    assert "\n" not in line
    assert "x" * 300 not in line
