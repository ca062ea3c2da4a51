"""A short run of what ``scripts/fuzz`` does at length."""

from __future__ import annotations

from random import Random

from tests.fuzz import check_edit, invariants, random_policy
from tests.random_chats import random_body, random_chat


def test_random_conversations_keep_every_promise() -> None:
    """Whatever the chat, the policy and the labels, an edit is a valid subsequence that keeps what is protected."""
    for seed in range(1000):
        random = Random(seed)
        messages = random_chat(random)
        check_edit(messages, random_body(messages, random), random_policy(random), seed)


def test_random_conversations_cross_the_proxy_as_decided() -> None:
    """Packed or not, in any pieces, a backend gets what was decided and a client gets what the backend sent."""
    with invariants(seed=1) as everything:
        for seed in range(200):
            everything.check(Random(seed))
