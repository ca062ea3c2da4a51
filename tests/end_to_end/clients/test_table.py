"""The table of clients keeps what did not run again."""

from __future__ import annotations

from tests.end_to_end.clients.table import Results, as_markdown, merged

EARLIER: Results = {
    "curl": {"completion": True, "errors": False},
    "openai-python 3.1.0": {"pivot": True},
    "openai-python 3.1.0 with vLLM 0.9": {"pivot": True},
}


def test_a_page_is_read_as_it_was_written() -> None:
    """No cell is lost or invented by a run that adds nothing."""
    assert merged(as_markdown(EARLIER), {}) == EARLIER


def test_a_client_that_ran_again_has_one_row() -> None:
    """A new version takes the row of an old one, and the rows of other backends stay."""
    new: Results = {"openai-python 3.2.0": {"pivot": False}}
    assert merged(as_markdown(EARLIER), new) == {
        "curl": EARLIER["curl"],
        "openai-python 3.1.0 with vLLM 0.9": {"pivot": True},
        "openai-python 3.2.0": {"pivot": False},
    }


def test_the_first_page_has_what_ran() -> None:
    """Without an earlier page there is nothing to keep."""
    assert merged("", EARLIER) == EARLIER
