"""Who wrote an assistant message: a fingerprint that survives the trip through the client.

Clients send the history back with every request, so a message that was relayed once can be recognised later without a
conversation id and without the client's help. What clients change on the way does not matter: white space at the ends,
null against missing, a string against a text part, the formatting and key order of tool arguments. What they mean does.

    >>> said = fingerprint({"role": "assistant", "content": "Paris."})
    >>> said == fingerprint({"content": [{"type": "text", "text": " Paris."}], "tool_calls": None})
    True

A short answer ("Yes.") is said by many models in many chats. Each message is therefore remembered under two keys, alone
and together with the text it answers; a message known only alone, and from several models, has no author.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from guard.digest import DIGEST_BYTES

UNKNOWN = "unknown"
"""Stands for the author of a message that the proxy never relayed, or no longer knows."""

TEXT_PARTS = frozenset({"text", "output_text", "input_text"})
_BESIDE_TEXT = frozenset({"refusal", "tool_calls", "function_call", "call_id"})
REASONING_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})


@dataclass(frozen=True, slots=True)
class Author:
    """Where an assistant message came from.

    Attributes:
        model: name of the model that wrote it, as configured.
        backend: name of the backend that served it.
        at: when, in seconds since the epoch.
        requested: the model name the client had asked for; differs from ``model`` after an alias or a fallback.
    """

    model: str
    backend: str
    at: float
    requested: str = ""


def fingerprint(message: Mapping[str, object]) -> bytes | None:
    """Digest of what an assistant message says and calls; None when it does neither.

    Reasoning is left out: clients drop it, and so may a policy.
    """
    content = message.get("content")
    if isinstance(content, str) and _BESIDE_TEXT.isdisjoint(message):
        text = content.strip()  # what nearly every message is
        return _digest("message", "0", text, "") if text else None
    texts: list[str] = []
    refusals: list[str] = []
    others: list[str] = []
    _read_content(content, texts, refusals, others)
    if isinstance(refusal := message.get("refusal"), str):
        refusals.append(refusal)
    calls = [_canonical(call) for call in _calls(message)]
    fields = ["".join(texts).strip(), "".join(refusals).strip(), *others, *calls]
    if not any(fields):
        return None
    return _digest("message", f"{len(others)}", *fields)


def in_context(said: bytes, before: str) -> bytes:
    """The key of a fingerprint together with the text of the message that it follows."""
    return _digest("context", said.hex(), before.strip())


def keys_of(said: bytes, before: str) -> tuple[bytes, bytes]:
    """Both keys of a message, the one with context first."""
    return in_context(said, before), said


def author_of(in_place: Sequence[Author], anywhere: Sequence[Author], reader: str = "") -> Author | None:
    """The author of a message, from what is remembered under its two keys.

    The same words in the same place are by whoever said them there last (a regeneration), but by ``reader``, the model
    that goes on with them, if it ever did: what a model would say itself is not foreign to it. The same words elsewhere
    are by the one model that ever said them; by nobody if several did.
    """
    if in_place:
        return max(in_place, key=lambda author: (author.model == reader, author.at))
    models = {author.model for author in anywhere}
    return max(anywhere, key=lambda author: author.at) if len(models) == 1 else None


def _digest(*fields: str) -> bytes:
    encoded = [field.encode("utf-8", "surrogatepass") for field in fields]
    # Lengths in front of the fields keep ("a", "bc") and ("ab", "c") apart.
    framed = b"".join(len(data).to_bytes(8, "big") + data for data in encoded)
    return hashlib.blake2b(framed, digest_size=DIGEST_BYTES).digest()


def _read_content(content: object, texts: list[str], refusals: list[str], others: list[str]) -> None:
    """Sort a content into text, refusals and other parts (images, audio); reasoning is left out."""
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping):
            kind = part.get("type")
            if kind in TEXT_PARTS:
                texts.append(str(part.get("text") or ""))
            elif kind == "refusal":
                refusals.append(str(part.get("refusal") or ""))
            elif kind not in REASONING_PARTS:
                others.append(_canonical(_without_nulls(part)))


def _calls(message: Mapping[str, object]) -> Iterator[object]:
    """Each tool call as id, name and arguments, whatever its spelling."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, Mapping):
            body = call.get("function") or call.get("custom") or call
            yield [str(call.get("id") or ""), *_named_arguments(body)]
    if message.get("call_id"):  # an item of the Responses API is a call itself
        yield [str(message["call_id"]), *_named_arguments(message)]
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping):
        yield ["", *_named_arguments(legacy)]


def _named_arguments(body: object) -> Iterable[object]:
    if not isinstance(body, Mapping):
        return ("", "")
    arguments = body["arguments"] if body.get("arguments") is not None else body.get("input")
    return (str(body.get("name") or ""), _parsed(arguments))


def _parsed(arguments: object) -> object:
    """Arguments as data where they are JSON, else their text; no arguments and empty ones are the same."""
    if not isinstance(arguments, str):
        return arguments or {}
    if not arguments.strip():
        return {}
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments.strip()


def _without_nulls(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value


def _canonical(value: object) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
