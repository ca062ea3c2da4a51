import json

from hypothesis import given
from hypothesis import strategies as st

from guard.authorship import Author, author_of, fingerprint, in_context, keys_of

JSON_VALUES: st.SearchStrategy[object] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1, "b": [2]}'}}


def test_white_space_at_the_ends_does_not_matter() -> None:
    """A client that trims the answer still sends back the same message."""
    assert fingerprint({"content": "Paris.\n"}) == fingerprint({"content": "  Paris."})


def test_white_space_inside_matters() -> None:
    """Indentation is meaning: code that was re-indented is another message."""
    assert fingerprint({"content": "if a:\n  b"}) != fingerprint({"content": "if a:\n b"})


def test_text_parts_equal_the_string() -> None:
    """A parts array with the same text is the same message."""
    parts = {"role": "assistant", "content": [{"type": "text", "text": "Par"}, {"type": "output_text", "text": "is."}]}
    assert fingerprint(parts) == fingerprint({"content": "Paris."})


def test_null_equals_missing() -> None:
    """What an SDK fills in as null, or leaves out, does not change a message."""
    full = {"role": "assistant", "content": "a", "refusal": None, "tool_calls": None, "audio": None, "name": None}
    assert fingerprint(full) == fingerprint({"content": "a"})


def test_empty_content_beside_calls_equals_null() -> None:
    """Clients send back an answer that only calls a tool with null, with empty content, or without any."""
    spellings: list[dict[str, object]] = [{"content": None}, {"content": ""}, {"content": []}, {}]
    assert len({fingerprint({**spelling, "tool_calls": [CALL]}) for spelling in spellings}) == 1


@given(st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=4))
def test_formatting_of_arguments_does_not_matter(arguments: dict[str, object]) -> None:
    """Arguments are the same data whatever their spacing, escapes and key order."""

    def message(text: str) -> dict[str, object]:
        return {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": text}}]}

    reordered = dict(reversed(arguments.items()))
    assert fingerprint(message(json.dumps(arguments))) == fingerprint(
        message(json.dumps(reordered, indent=2, ensure_ascii=False))
    )


def test_arguments_matter() -> None:
    """Another argument is another message."""
    other = {**CALL, "function": {"name": "look", "arguments": '{"a": 2, "b": [2]}'}}
    assert fingerprint({"tool_calls": [CALL]}) != fingerprint({"tool_calls": [other]})


def test_arguments_that_are_not_json_still_identify() -> None:
    """A model may write broken arguments; they are compared as text."""
    broken = {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"a": '}}]}
    assert fingerprint(broken) not in (None, fingerprint({"tool_calls": [CALL]}))


def test_refusal_is_no_content() -> None:
    """A refusal and an answer with the same words differ; a refusal part equals the field."""
    field = fingerprint({"refusal": "no"})
    assert field == fingerprint({"content": [{"type": "refusal", "refusal": "no"}]})
    assert field != fingerprint({"content": "no"})


def test_reasoning_does_not_matter() -> None:
    """A client may drop the reasoning of an answer, in whatever field or part it came."""
    full = {
        "reasoning_content": "hm",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "a"}],
    }
    assert fingerprint(full) == fingerprint({"content": "a"})


def test_images_matter() -> None:
    """Parts other than text count, by their content."""
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x", "detail": None}}]
    same = [{"type": "text", "text": "a"}, {"image_url": {"url": "x"}, "type": "image_url"}]
    assert fingerprint({"content": parts}) == fingerprint({"content": same}) != fingerprint({"content": "a"})


@given(st.text(max_size=20))
def test_the_short_way_is_the_long_way(text: str) -> None:
    """A plain string, the usual case, has the fingerprint that the same text has as a part."""
    assert fingerprint({"content": text}) == fingerprint({"content": [{"type": "text", "text": text}]})


def test_nothing_said_has_no_fingerprint() -> None:
    """A message without text and calls cannot be recognised again."""
    assert fingerprint({"role": "assistant", "content": " \n"}) is None


@given(JSON_VALUES)
def test_any_content_is_survived(content: object) -> None:
    """Odd content, of any shape, never raises."""
    fingerprint({"content": content, "tool_calls": content, "function_call": content})


A_OLD = Author("a", "x", 1.0)
A_NEW = Author("a", "x", 2.0)
B = Author("b", "y", 3.0)


def test_the_last_to_say_it_in_this_place_is_the_author() -> None:
    """A regeneration with the same words belongs to the model that said them last."""
    assert author_of([A_OLD, B], [A_OLD, B]) == B


def test_words_that_the_reader_said_itself_are_its_own() -> None:
    """Two models gave the same answer in the same place: to either of them it is not foreign."""
    assert author_of([A_OLD, B], [A_OLD, B], reader="a") == A_OLD
    assert author_of([A_OLD, B], [A_OLD, B], reader="c") == B


def test_a_short_answer_is_told_apart_by_what_it_answers() -> None:
    """The same words by two models in two chats keep their authors, because they answer different questions."""
    said = fingerprint({"content": "Yes."})
    assert said is not None
    assert in_context(said, "Is it raining?") != in_context(said, "Is it late?")
    assert keys_of(said, " Is it late?\n") == keys_of(said, "Is it late?")


def test_words_found_elsewhere_have_an_author_if_one_model_alone_said_them() -> None:
    """An answer under an edited question is still recognised, unless several models gave it."""
    assert author_of([], [A_OLD, A_NEW]) == A_NEW
    assert author_of([], [A_OLD, B]) is None
    assert author_of([], []) is None
