from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval import splices
from eval.datasets.source import Conversation, Utterance, conversation
from eval.errors import DataError
from guard.controller import Label


def _source(conversations: int = 12, turns: int = 10) -> list[Conversation]:
    made = []
    for number in range(conversations):
        said = [
            Utterance(role, f"{role} {number}.{turn}", (f"answer {number}.{turn}",) if role == "assistant" else ())
            for turn in range(turns)
            for role in ("user", "assistant")
        ]
        one = conversation(f"c{number}", said)
        assert one is not None
        made.append(one)
    return made


SOURCE = _source()


def _origins(texts: list[str]) -> list[int]:
    return [int(text.split(" ")[-1].split(".")[0]) for text in texts]


@given(st.integers(0, 10**6))
def test_v1_is_two_heads(seed: int) -> None:
    """V1 is 2 to 4 first exchanges of one conversation, then 1 to 6 of another, labelled at the seam."""
    for session in splices.v1(SOURCE, "digest", seed, 5):
        users = [session.turns[p] for p in session.user_positions]
        pivot = session.pivot_turn
        assert pivot is not None
        head, tail = users[: pivot - 1], users[pivot - 1 :]
        assert len(head) in (2, 3, 4)
        assert 1 <= len(tail) <= 6
        assert len(session.turns) == 2 * len(users) <= 20
        assert [user.label for user in users] == [None, *[Label.REFINE] * (len(head) - 1), Label.PIVOT] + [
            Label.REFINE
        ] * (len(tail) - 1)
        sources = (set(_origins([u.text for u in head])), set(_origins([u.text for u in tail])))
        assert len(sources[0]) == len(sources[1]) == 1
        assert sources[0] != sources[1]
        assert head[0].text.endswith(".0")
        assert tail[0].text.endswith(".0")


def test_the_same_seed_and_digest_give_the_same_sessions() -> None:
    """Sampling is a pure function of seed, variant and digest."""
    assert splices.v1(SOURCE, "d", 3, 20) == splices.v1(SOURCE, "d", 3, 20)
    assert splices.v1(SOURCE, "d", 3, 20) != splices.v1(SOURCE, "e", 3, 20)
    assert splices.v1(SOURCE, "d", 3, 20) != splices.v1(SOURCE, "d", 4, 20)
    assert splices.v1(SOURCE, "d", 3, 20)[:5] == splices.v1(SOURCE, "d", 3, 5)


def test_draws_are_known() -> None:
    """The draws are hashes: these numbers hold on every machine and with every library version."""
    draws = splices.Draws(0, "v1", "digest")
    assert [draws.below(100) for _ in range(5)] == [24, 79, 8, 82, 4]


def test_no_pair_is_used_twice() -> None:
    """A pair of conversations occurs once in a split."""
    sessions = splices.v1(SOURCE, "d", 0, 100)
    pairs = [tuple(dict.fromkeys(_origins([t.text for t in session.turns]))) for session in sessions]
    assert len(set(pairs)) == len(pairs)


def test_v2_is_v1_with_a_cue() -> None:
    """V2 differs from V1 in the pivot's beginning alone: a cue in lower case, a comma, a space."""
    hard = splices.v1(SOURCE, "d", 0, 40)
    cues = set()
    for plain, cued in zip(hard, splices.v2(hard, "d", 0), strict=True):
        assert cued.id.split("-")[1] == plain.id.split("-")[1]
        for one, other in zip(plain.turns, cued.turns, strict=True):
            if one.label is Label.PIVOT:
                cue, text = other.text.split(", ", 1)
                cues.add(cue)
                assert (text, other.label) == (one.text, one.label)
            else:
                assert one == other
    assert cues == set(splices.CUES)


@given(st.integers(0, 10**6), st.integers(2, 11))
def test_v3_pivots_at_p(seed: int, pivot: int) -> None:
    """V3 has exactly one pivot, at user turn P."""
    for session in splices.v3(SOURCE, "d", seed, 3, [pivot]):
        assert session.pivot_turn == pivot
        assert [turn.label for turn in session.turns].count(Label.PIVOT) == 1


def test_a_source_that_is_too_short_is_an_error() -> None:
    """A pivot that no conversation is long enough for is refused, not left out."""
    with pytest.raises(DataError, match="19 and"):
        splices.v3(SOURCE, "d", 0, 3, [20])


def test_pairs_run_out() -> None:
    """More sessions than there are pairs cannot be had."""
    with pytest.raises(DataError, match="too few pairs"):
        splices.v1(SOURCE[:3], "d", 0, 7)


def test_answers_are_references_of_their_question() -> None:
    """Each user turn carries the reference answers of its own answer."""
    for session in splices.v1(SOURCE, "d", 0, 5):
        for position in session.user_positions:
            assert session.turns[position].answers == (session.turns[position + 1].text.replace("assistant", "answer"),)


def test_statistics_count_user_turns() -> None:
    """The statistics are those of the paper's table: sessions, user turns, mean, least and most."""
    sessions = splices.v3(SOURCE, "d", 0, 4, [2])
    counts = [len(session.user_positions) for session in sessions]
    found = splices.statistics(sessions)
    assert (found.sessions, found.user_turns, found.mean) == (4, sum(counts), sum(counts) / 4)
    assert (found.least, found.most, found.pivots, found.refines) == (min(counts), max(counts), 4, sum(counts) - 8)
