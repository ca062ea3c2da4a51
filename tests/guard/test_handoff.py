from guard.authorship import Author
from guard.controller import Kind, Turn
from guard.handoff import (
    ModelHandoff,
    Reason,
    cleared_now,
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
    assert prefix.foreign("b") == 1


def turns(*threads: int) -> tuple[Turn, ...]:
    """Decisions by the threads they lead to; a thread that opens or comes back is a pivot."""
    kinds = [Kind.FIRST]
    for number in range(1, len(threads)):
        same = threads[number] == threads[number - 1]
        kinds.append(Kind.REFINE if same else Kind.RESUME if threads[number] in threads[:number] else Kind.PIVOT)
    return tuple(Turn(i, kind, None, thread) for i, (kind, thread) in enumerate(zip(kinds, threads, strict=True)))


def test_a_pivot_lets_go_of_the_foreign_prefix_once() -> None:
    """The turn that leaves what another model wrote is an event; the next turns of the new topic are not."""
    conversation = chat("1", "1a", "2", "2a", "3")
    assert cleared_now(chat("1", "1a", "2"), {1: A}, turns(0, 1), "b")
    assert not cleared_now(conversation, {1: A, 3: B}, turns(0, 1, 1), "b")
    assert not cleared_now(conversation, {1: A, 3: B}, turns(0, 1, 2), "b")


def test_own_topics_are_nothing_to_let_go_of() -> None:
    """A pivot away from what the same model wrote is no handoff of models."""
    assert not cleared_now(chat("1", "1a", "2"), {1: B}, turns(0, 1), "b")
    assert not cleared_now(chat("1", "1a", "2"), {}, turns(0, 1), "b")


def test_reasons() -> None:
    """A fallback is a fallback; the same name that leads elsewhere is a route; another name is the client's wish."""
    prefix = prefix_of(chat("1", "1a", "2"), {1: A}, everything(3))
    assert reason_of(prefix, "chat", "b", fell_back=True) is Reason.FALLBACK
    assert reason_of(prefix, "chat", "b", fell_back=False) is Reason.ROUTE
    assert reason_of(prefix, "other", "b", fell_back=False) is Reason.CLIENT


def test_the_same_model_again_carries_what_others_wrote() -> None:
    """After a handoff, the next turn by the same model is told apart from a new change."""
    prefix = prefix_of(chat("1", "1a", "2", "2a", "3"), {1: A, 3: B}, everything(5))
    assert reason_of(prefix, "chat", "b", fell_back=False) is Reason.CARRIED


def test_main_author_is_the_one_with_most_foreign_turns() -> None:
    """Own and unknown turns do not name a handoff, however many there are."""
    assert main_author({"unknown": 9, "b": 5, "a": 2, "c": 2}, "b") == "a"
    assert main_author({"b": 5}, "b") is None


def test_cleared_event_names_no_prefix() -> None:
    """After a reset there is nothing to be handed over."""
    event = ModelHandoff(at=0.0, decision_id="d", model="b", foreign_dropped=1, cleared=True)
    assert event.prefix_model == "none"
    assert event.kind == "model"
