"""Provider-signed reasoning: parts of a history that only the provider that made them accepts.

Providers sign or encrypt the reasoning they return so that clients can send it back. Another provider refuses such a
part, so a conversation that changes hands can become unusable. Recognised, by family of the signer:

    anthropic   content parts ``thinking`` with ``signature`` and ``redacted_thinking``, ``thinking_blocks``
    openai      ``encrypted_content`` of Responses reasoning items, and signatures that are Fernet tokens ("gAAAA...")
    google      ``thoughtSignature`` or ``thought_signature`` on parts, tool calls and their extras
    xai         ``reasoning_details`` that name it

Reasoning in plain text is not signed and stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

FAMILIES = ("anthropic", "openai", "google", "xai")
THOUGHT_SIGNATURES = frozenset({"thoughtSignature", "thought_signature", "thought_signatures"})

_MODEL_FAMILIES = (
    ("anthropic", re.compile(r"claude|anthropic", re.IGNORECASE)),
    ("google", re.compile(r"gemini|^google/", re.IGNORECASE)),
    ("xai", re.compile(r"grok|^x-?ai/", re.IGNORECASE)),
    # gpt-oss is open weights: it runs anywhere and its servers sign nothing.
    ("openai", re.compile(r"(^|[/:.])(gpt-(?!oss)|chatgpt|o[1-9](-|$)|codex|computer-use)", re.IGNORECASE)),
)
_FERNET = "gAAAA"
_EXTRAS = ("extra_content", "provider_specific_fields", "google", "function")
_LISTS = ("content", "parts", "thinking_blocks", "reasoning_details", "tool_calls")
_GONE = object()


def family_of(model: str) -> str | None:
    """The provider family whose signatures a model of this name accepts; None when the name tells nothing."""
    return next((family for family, pattern in _MODEL_FAMILIES if pattern.search(model)), None)


def signers(message: Mapping[str, object]) -> frozenset[str]:
    """Families that signed some part of a message or of a Responses item."""
    stripper = _Stripper(None)
    stripper.strip(message)
    return frozenset(stripper.found)


def without_foreign(message: Mapping[str, object], family: str | None) -> Mapping[str, object]:
    """The message without what another family than ``family`` signed; the same object when there is nothing.

    A signed thinking part goes whole, since its reader would refuse it without its signature too; a signature on a tool
    call or a text goes alone. A content of which nothing is left becomes null if tool calls remain, else empty.
    A Responses reasoning item that is foreign itself comes back empty: the caller leaves it out.
    """
    stripper = _Stripper(family)
    stripped = stripper.strip(message)
    return stripped if stripper.found - {family} else message


class _Stripper:
    """Copies a message without foreign parts and notes every signer it meets."""

    def __init__(self, keep: str | None) -> None:
        self._keep = keep
        self.found: set[str] = set()

    def strip(self, message: Mapping[str, object]) -> dict[str, object]:
        if self._foreign(_signer_of_part(message)):
            return {}
        result = {key: kept for key, value in message.items() if (kept := self._field(key, value)) is not _GONE}
        if result.get("content") == [] and message.get("content"):
            result["content"] = None if result.get("tool_calls") else ""
        return result

    def _field(self, key: str, value: object) -> object:
        if not value:
            return value
        if key in THOUGHT_SIGNATURES:
            return _GONE if self._foreign("google") else value
        if key in _EXTRAS and isinstance(value, Mapping):
            return self.strip(value) or _GONE
        if key in _LISTS and isinstance(value, list):
            return self._parts(value) or ([] if key == "content" else _GONE)
        return value

    def _parts(self, parts: list[object]) -> list[object]:
        stripped = [(part, self.strip(part) if isinstance(part, Mapping) else part) for part in parts]
        return [kept for part, kept in stripped if kept or not part]

    def _foreign(self, signer: str | None) -> bool:
        if signer is None:
            return False
        self.found.add(signer)
        return signer != self._keep


def _signer_of_part(part: Mapping[str, object]) -> str | None:
    """The signer of a part that consists of reasoning; None for every other part."""
    kind = part.get("type")
    if kind == "redacted_thinking":
        return "anthropic"
    if kind == "thinking" and part.get("signature"):
        return _signer_of_signature(part["signature"])
    if kind == "reasoning" and part.get("encrypted_content"):
        return "openai"
    if isinstance(kind, str) and kind.startswith("reasoning."):
        return _signer_of_detail(part)
    return None


def _signer_of_detail(part: Mapping[str, object]) -> str | None:
    """The signer of one of the ``reasoning_details`` that some gateways return; its format names the provider."""
    signature = part.get("signature") or part.get("data")
    if not signature:
        return None
    form = str(part.get("format") or "")
    named = next((family for family in FAMILIES if form.startswith(family)), None)
    return named or _signer_of_signature(signature)


def _signer_of_signature(signature: object) -> str:
    # The first bytes of a Fernet token are its version and the high bytes of the time: always the same characters.
    return "openai" if str(signature).startswith(_FERNET) else "anthropic"
