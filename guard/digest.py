"""Prefix digests: a conversation needs no id, and an edited history is another conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from guard.conversation import Conversation, Message

DIGEST_BYTES = 16


def text_digest(text: str) -> str:
    """Hex digest that stands for a text in logs."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def turn_digests(conversation: Conversation, salt: str) -> Iterator[bytes]:
    """Yield, for each exchange, the digest of all messages up to and including its user message.

    Only what decisions depend on is hashed: instructions are left out (many clients put the time of day there), and so
    is formatting (some clients move cache markers from message to message). ``salt`` names the gate and the policy.
    """
    chain = hashlib.blake2b(salt.encode(), digest_size=DIGEST_BYTES)
    for position in conversation.preamble:
        _add(chain, conversation.messages[position])
    for exchange in conversation.exchanges:
        _add(chain, conversation.messages[exchange.user])
        yield chain.digest()
        for position in exchange.members[1:]:
            _add(chain, conversation.messages[position])


def _add(chain: hashlib.blake2b, message: Message) -> None:
    # Lengths in front of the fields keep ("a", "bc") and ("ab", "c") apart.
    for field in (message.role, message.text, *message.calls, message.answers or ""):
        data = field.encode("utf-8", "surrogatepass")
        chain.update(len(data).to_bytes(8, "big"))
        chain.update(data)
    chain.update(b"|")
