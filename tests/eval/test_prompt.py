from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.prompt import LABELS, JointAnswer, ViolationError, answer_messages, joint_messages, parse_joint
from tests.eval.builders import session

GOOD = {"answer": "yes", "predicted_label": "REFINE", "relevant_context": [1, 0, 1]}


def test_a_good_answer_is_read() -> None:
    """A well-formed answer is read; its shortlist is sorted, white space around it does not matter."""
    assert parse_joint(f" \n{json.dumps(GOOD)}\n", 2) == JointAnswer("yes", "REFINE", (0, 1))


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("", "not_json"),
        ("yes", "not_json"),
        (f"```json\n{json.dumps(GOOD)}\n```", "not_json"),
        (json.dumps(GOOD) + " done", "not_json"),
        ("[]", "not_object"),
        ('"PIVOT"', "not_object"),
        (json.dumps({"answer": "yes", "predicted_label": "PIVOT"}), "missing_key"),
        (json.dumps(GOOD | {"why": "x"}), "extra_key"),
        (json.dumps(GOOD)[:-1] + ', "answer": "no"}', "repeated_key"),
        (json.dumps(GOOD | {"answer": None}), "answer_type"),
        (json.dumps(GOOD | {"answer": ["yes"]}), "answer_type"),
        (json.dumps(GOOD | {"predicted_label": "pivot"}), "label_value"),
        (json.dumps(GOOD | {"predicted_label": None}), "label_value"),
        (json.dumps(GOOD | {"predicted_label": ["PIVOT"]}), "label_value"),
        (json.dumps(GOOD | {"relevant_context": "0"}), "context_type"),
        (json.dumps(GOOD | {"relevant_context": {"0": 1}}), "context_type"),
        (json.dumps(GOOD | {"relevant_context": ["0"]}), "context_type"),
        (json.dumps(GOOD | {"relevant_context": [0.0]}), "context_type"),
        (json.dumps(GOOD | {"relevant_context": [True]}), "context_type"),
        (json.dumps(GOOD | {"relevant_context": [2]}), "index_out_of_range"),
        (json.dumps(GOOD | {"relevant_context": [-1]}), "index_out_of_range"),
    ],
)
def test_any_other_shape_is_refused(text: str, slug: str) -> None:
    """Each way to break the shape has its name."""
    with pytest.raises(ViolationError) as raised:
        parse_joint(text, 2)
    assert raised.value.slug == slug


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    """Whatever a model says is an answer or a violation."""
    with contextlib.suppress(ViolationError):
        assert parse_joint(text, 2).label in LABELS


def test_the_joint_prompt_numbers_what_was_said() -> None:
    """Utterances are numbered from 0 up to the current message, and nothing after it is shown."""
    messages = joint_messages(session("s", "U: a", "A: b", "P: c", "A: d"), 2)
    assert [(m["role"], m["content"]) for m in messages[1:]] == [
        ("user", "[0] a"),
        ("assistant", "[1] b"),
        ("user", "[2] c"),
    ]


def test_a_rejection_names_the_fault_in_the_instruction() -> None:
    """A further attempt says what was wrong, without another message in the chat."""
    chat = session("s", "U: a", "A: b", "P: c")
    again = joint_messages(chat, 2, "not_json")
    assert "not_json" in again[0]["content"]
    assert again[1:] == joint_messages(chat, 2)[1:]


def test_the_plain_prompt_is_the_chat() -> None:
    """The answer task sends the chat as a user would."""
    messages = answer_messages(session("s", "U: a", "A: b", "P: c", "A: d"), 2)
    assert [m["content"] for m in messages[1:]] == ["a", "b", "c"]
