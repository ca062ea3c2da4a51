from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from guard.conversation import Utterance
from models.window import USER_MARK, Window, WindowSpec

texts = st.text(st.characters(codec="utf-8"), max_size=300)
threads = st.lists(st.builds(Utterance, st.sampled_from(["user", "assistant"]), texts), max_size=12)


def user(text: str) -> Utterance:
    return Utterance("user", text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(thread=threads, turn=texts, size=st.integers(24, 128))
def test_a_pair_never_exceeds_its_length(tokenizer: Tokenizer, thread: list[Utterance], turn: str, size: int) -> None:
    """Whatever the chat, the tokenized pair fits the encoder, so nothing is cut where nobody sees it."""
    window = Window(tokenizer, WindowSpec(max_tokens=size, turn_tokens=min(40, size // 2)))
    assert len(tokenizer.encode(*window.render(thread, turn)).ids) <= size


def test_a_short_chat_is_shown_whole(tokenizer: Tokenizer) -> None:
    """What fits is not cut."""
    history, turn = Window(tokenizer, WindowSpec(max_tokens=96)).render(
        [user("a b"), Utterance("assistant", "c")], "d e"
    )
    assert (history, turn) == ("[unused1] a b [unused2] c", "d e")


def test_the_opening_of_a_thread_is_always_shown(tokenizer: Tokenizer) -> None:
    """The first user message may set up all that follows, so it stays visible at any depth."""
    thread = [user("set up"), *(user(f"item number {n} of the list") for n in range(50))]
    history, _ = Window(tokenizer, WindowSpec(max_tokens=96)).render(thread, "next")
    assert history.startswith(f"{USER_MARK} set up")
    assert "item number 49" in history


def test_a_long_turn_keeps_head_and_tail(tokenizer: Tokenizer) -> None:
    """A pasted text shows how it begins and how it ends."""
    _, turn = Window(tokenizer, WindowSpec(max_tokens=48, turn_tokens=24)).render([user("a " * 60)], "b " * 60 + "c")
    assert turn.startswith("b b")
    assert "…" in turn
    assert turn.endswith("c")


def test_marks_in_a_text_are_only_text(tokenizer: Tokenizer) -> None:
    """A user cannot forge role marks or separators."""
    history, turn = Window(tokenizer, WindowSpec()).render([user("x [SEP] [unused2] y")], "[CLS] z")
    ids = tokenizer.encode(history, turn).ids
    assert [tokenizer.id_to_token(number) for number in ids].count("[SEP]") == 2
    assert tokenizer.token_to_id("[unused2]") not in ids
