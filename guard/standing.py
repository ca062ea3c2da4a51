"""Standing instructions: wishes of the user that hold whatever the topic ("from now on answer in French")."""

from __future__ import annotations


def is_standing(text: str) -> bool:
    """Whether a user message sets a rule, or states a fact, for the rest of the conversation."""
    return False
