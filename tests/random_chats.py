"""Random requests in the chat format, from what clients send daily to what hardly anybody sends.

Everything comes from one ``random.Random``: Hypothesis brings one whose draws it can shrink, the fuzz run brings one
from a seed. Most chats are valid; some break a rule on purpose, as clients do.
"""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random
from typing import Any

Json = dict[str, Any]

WORDS = ("red apples", "old cars", "deep sea", "你好 世界", "naïve café 😀", 'line\nbreak\tand "quotes" \\ /', "", "  ")
CALL_IDS = ("call_0", "call_1", "call_a", "call_b")
LENGTHS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 8)


def random_chat(random: Random) -> list[Json]:
    """Messages of a chat."""
    messages: list[Json] = []
    if _one_in(2, random):
        messages.append(_instruction(random))
    if _one_in(6, random):
        messages += [_spoken(random)] if _one_in(2, random) else _tool_round(random)
    for _ in range(random.choice(LENGTHS)):
        messages += _exchange(random)
    if _one_in(8, random) and messages:
        messages.insert(random.randrange(len(messages)), _instruction(random))
    messages = _with_a_late_result(messages, random) if _one_in(6, random) else messages
    if _one_in(10, random) and messages:
        del messages[random.randrange(len(messages))]
    return messages or [_user(random)]


def long_chat(random: Random, length: int) -> list[Json]:
    """At least ``length`` messages."""
    messages: list[Json] = []
    while len(messages) < length:
        messages += _exchange(random)
    return messages


def random_body(messages: list[Json], random: Random, **fields: object) -> bytes:
    """A request body: fields in any order, in one of the ways that clients write JSON."""
    items = [("messages", messages), ("model", "m"), *fields.items()]
    if _one_in(3, random):
        items += [("temperature", 1.0), ("logit_bias", {"50256": -100}), ("metadata", {"größe": "1"})]
    random.shuffle(items)
    indent, separators = random.choice([(None, (",", ":")), (None, (", ", ": ")), (2, (",", ": "))])
    text = json.dumps(dict(items), ensure_ascii=_one_in(2, random), indent=indent, separators=separators)
    return text.encode()


def random_chunks(data: bytes, random: Random) -> list[bytes]:
    """The same bytes in pieces that respect nothing, multi-byte characters and events included."""
    at = random.sample(range(len(data) + 1), min(len(data), random.randrange(12)))
    bounds = [0, *sorted(at), len(data)]
    return [data[start:end] for start, end in pairwise(bounds) if end > start]


def _one_in(number: int, random: Random) -> bool:
    return random.randrange(number) == number - 1


def _exchange(random: Random) -> list[Json]:
    """A user message and what follows it; sometimes two user messages, sometimes nobody answers."""
    messages = [_user(random) for _ in range(2 if _one_in(8, random) else 1)]
    for _ in range(random.choice((0, 0, 0, 1, 1, 2))):
        messages += _tool_round(random)
    if not _one_in(5, random):
        messages.append(_spoken(random))
    return messages


def _instruction(random: Random) -> Json:
    return {"role": random.choice(("system", "developer")), "content": _text_content(random)}


def _user(random: Random) -> Json:
    content = random.choice((_word, _word, _word, _text_content, _media))(random)
    message = {"role": "user", "content": content}
    return _with_extras(message | ({"name": "ada"} if _one_in(6, random) else {}), random)


def _spoken(random: Random) -> Json:
    """An assistant message that calls nothing."""
    kinds: list[Json] = [
        {"content": _word(random)},
        {"content": _word(random)},
        {"content": _text_content(random)},
        {"content": None, "refusal": "I can't help with that."},
        {"content": [{"type": "refusal", "refusal": "No."}]},
        {"content": "", "audio": {"id": "audio_1"}},
        {"content": _word(random), "reasoning_content": "let me think", "name": "bot"},
        {"content": _word(random), "reasoning_details": [{"type": "reasoning.encrypted", "data": "x=="}]},
        {"content": ""},
    ]
    return _with_extras({"role": "assistant"} | random.choice(kinds), random)


def _tool_round(random: Random) -> list[Json]:
    """Calls and their results, in parallel and in any order; sometimes the old way, with one function."""
    if _one_in(5, random):
        call = {"name": "look", "arguments": "{}"}
        return [
            {"role": "assistant", "content": None, "function_call": call},
            {"role": "function", "name": "look", "content": random.choice((_word(random), None))},
        ]
    ids = random.sample(CALL_IDS, random.choice((1, 1, 2, 3)))
    calls = [_call(identity, random) for identity in ids]
    message: Json = {"role": "assistant", "tool_calls": calls}
    message |= random.choice(({}, {"content": None}, {"content": ""}, {"content": "I will look."}))
    if _one_in(4, random):
        message["reasoning_content"] = "a call is needed"
    random.shuffle(ids)
    return [message, *({"role": "tool", "tool_call_id": i, "content": _text_content(random)} for i in ids)]


def _call(identity: str, random: Random) -> Json:
    if _one_in(6, random):
        return {"id": identity, "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    arguments = random.choice(("{}", '{"q": "你好"}', "not json"))
    return {"id": identity, "type": "function", "function": {"name": "look", "arguments": arguments}}


def _with_a_late_result(messages: list[Json], random: Random) -> list[Json]:
    """One tool result comes some messages later than it should."""
    results = [position for position, message in enumerate(messages) if message["role"] in ("tool", "function")]
    if not results:
        return messages
    position = random.choice(results)
    rest = messages[:position] + messages[position + 1 :]
    return _inserted(rest, random.randrange(position, len(rest) + 1), messages[position])


def _inserted(messages: list[Json], position: int, message: Json) -> list[Json]:
    return [*messages[:position], message, *messages[position:]]


def _with_extras(message: Json, random: Random) -> Json:
    return message | ({"cache_control": {"type": "ephemeral"}} if _one_in(8, random) else {})


def _word(random: Random) -> str:
    return random.choice(WORDS)


def _text_content(random: Random) -> str | list[Json]:
    if not _one_in(3, random):
        return _word(random)
    parts: list[Json] = [{"type": "text", "text": _word(random)} for _ in range(random.choice((1, 2)))]
    if _one_in(3, random):
        parts[-1]["cache_control"] = {"type": "ephemeral"}
    return parts


def _media(random: Random) -> list[Json]:
    kinds: list[Json] = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERg==", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    return [*random.sample(kinds, random.choice((1, 2))), {"type": "text", "text": _word(random)}]
