from guard.authorship import Author
from guard.handoff import (
    ModelHandoff,
    Reason,
    is_model_handoff,
    main_author,
    prefix_of,
    reason_of,
)
from guard.selector import Selection
from tests.fakes import chat

A = Author("a", "x", 1.0, requested="chat")
B = Author("b", "y", 2.0, requested="chat")


def everything(count: int) -> Selection:
    return Selection(tuple(range(count)), ())


def test_authors_are_counted_over_what_is_kept() -> None:
    """Two turns by a and one by nobody known are forwarded, one by b is not."""
    conversation = chat("1", "1a", "2", "2a", "3", "3a", "4", "4a", "5")
    selection = Selection((2, 3, 4, 5, 6, 7, 8), (0, 1))
    prefix = prefix_of(conversation, {1: B, 3: A, 5: A}, selection)
    assert prefix.kept == {"a": 2, "unknown": 1}
    assert prefix.dropped == {"b": 1}
    assert prefix.last is None


def test_own_and_unknown_turns_are_not_foreign() -> None:
    """Only turns that another model is known to have written make a handoff."""
    prefix = prefix_of(chat("1", "1a", "2", "2a", "3"), {1: A}, everything(5))
    assert prefix.foreign("a") == 0
    assert not is_model_handoff(prefix, "a")
    assert is_model_handoff(prefix, "b")


def test_a_pivot_that_drops_the_foreign_prefix_is_still_an_event() -> None:
    """Nothing foreign is carried any more, and that is worth a row."""
    prefix = prefix_of(chat("1", "1a", "2"), {1: A}, Selection((2,), (0, 1)))
    assert prefix.foreign("b") == 0
    assert prefix.foreign_dropped("b") == 1
    assert is_model_handoff(prefix, "b")


def test_reasons() -> None:
    """A fallback is a fallback; the same name that leads elsewhere is a route; another name is the client's wish."""
    prefix = prefix_of(chat("1", "1a", "2"), {1: A}, everything(3))
    assert reason_of(prefix, "chat", fell_back=True) is Reason.FALLBACK
    assert reason_of(prefix, "chat", fell_back=False) is Reason.ROUTE
    assert reason_of(prefix, "other", fell_back=False) is Reason.CLIENT


def test_main_author_is_the_one_with_most_foreign_turns() -> None:
    """Own and unknown turns do not name a handoff, however many there are."""
    assert main_author({"unknown": 9, "b": 5, "a": 2, "c": 2}, "b") == "a"
    assert main_author({"b": 5}, "b") is None


def test_cleared_event_names_no_prefix() -> None:
    """After a reset there is nothing to be handed over."""
    event = ModelHandoff(at=0.0, decision_id="d", model="b", foreign_dropped=1, cleared=True)
    assert event.prefix_model == "none"
    assert event.kind == "model"
