"""What a chat model is asked, and how strictly its answer is read.

Joint task (the zero-shot prompt of arXiv 2605.09268, in our words): label, shortlist and answer in one JSON object.
Answer task [ours]: a plain short answer, the chat as a user would send it.

Both paths get the same request; on the guarded one the proxy takes from it what does not belong to the turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from eval.errors import EvalError
from eval.records import json_digest
from eval.sessions import Session

JOINT = (
    "The utterances of this conversation are numbered [0], [1], and so on; the last one is the user's current message. "
    "Decide whether it changes to a new topic (PIVOT) or continues the current one (REFINE), which earlier utterances "
    "are needed to answer it, and answer it in a few words. Reply with one JSON object and nothing else:\n"
    '{"answer": "...", "predicted_label": "PIVOT" or "REFINE", "relevant_context": [numbers of earlier utterances]}'
)
REJECTED = "\nYour last reply was rejected ({reason}). Reply with that JSON object alone."
ANSWER = "Answer the user's last message in as few words as possible."
LABELS = ("PIVOT", "REFINE")
KEYS = frozenset({"answer", "predicted_label", "relevant_context"})
Messages = tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """A well-formed answer to the joint prompt."""

    answer: str
    label: str
    context: tuple[int, ...]


class ViolationError(EvalError):
    """An answer broke the shape; ``slug`` says how."""

    def __init__(self, slug: str) -> None:
        super().__init__(slug)
        self.slug = slug


def joint_messages(session: Session, position: int, rejected: str | None = None) -> Messages:
    """The joint prompt for the user turn at ``position``, utterances numbered; ``rejected`` is the last slug."""
    instruction = JOINT + (REJECTED.format(reason=rejected) if rejected else "")
    said = (
        {"role": turn.role, "content": f"[{number}] {turn.text}"}
        for number, turn in enumerate(session.turns[: position + 1])
    )
    return ({"role": "system", "content": instruction}, *said)


def answer_messages(session: Session, position: int) -> Messages:
    """The plain prompt for the user turn at ``position``."""
    said = ({"role": turn.role, "content": turn.text} for turn in session.turns[: position + 1])
    return ({"role": "system", "content": ANSWER}, *said)


def schema(position: int) -> dict[str, object]:
    """``response_format`` that constrains decoding to the joint answer of the turn at ``position``.

    The numbers of earlier utterances are spelt out and bound the list, or a small model counts on until it is cut off.
    The paper's prompt is free text, so this is off by default.
    """
    earlier = list(range(position))
    return {
        "type": "json_schema",
        "json_schema": {
            "name": "turn",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {
                    "answer": {"type": "string"},
                    "predicted_label": {"enum": list(LABELS)},
                    "relevant_context": {"type": "array", "items": {"enum": earlier}, "maxItems": len(earlier)},
                },
                "required": ["answer", "predicted_label", "relevant_context"],
                "additionalProperties": False,
            },
        },
    }


def prompt_digests() -> dict[str, str]:
    """Digest of each template, for the run card."""
    return {"joint": json_digest([JOINT, REJECTED, schema(1)]), "answer": json_digest([ANSWER])}


def parse_joint(text: str, position: int) -> JointAnswer:
    """Read an answer to the joint prompt for the turn at ``position``; white space around it is allowed, nothing else.

    Raises:
        ViolationError: it has any other shape, or names an utterance that is not an earlier one.
    """
    value = _json_object(text)
    if KEYS - value.keys():
        raise ViolationError("missing_key")
    if value.keys() - KEYS:
        raise ViolationError("extra_key")
    answer, label, context = value["answer"], value["predicted_label"], value["relevant_context"]
    if not isinstance(answer, str):
        raise ViolationError("answer_type")
    if label not in LABELS:
        raise ViolationError("label_value")
    return JointAnswer(answer, str(label), _context(context, position))


def _json_object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats)
    except ValueError:
        raise ViolationError("not_json") from None
    if not isinstance(value, dict):
        raise ViolationError("not_object")
    return value


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ViolationError("repeated_key")
    return value


def _context(value: object, position: int) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise ViolationError("context_type")
    for number in value:
        if not isinstance(number, int) or isinstance(number, bool):
            raise ViolationError("context_type")
        if not 0 <= number < position:
            raise ViolationError("index_out_of_range")
    return tuple(sorted(set(value)))
