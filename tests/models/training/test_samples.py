from __future__ import annotations

from random import Random

import pytest

from guard.conversation import Utterance
from models.training.authored import parse
from models.training.dialogue import Dialogue, Turn, segments
from models.training.errors import TrainingError
from models.training.material import Material
from models.training.mining import hard
from models.training.mixture import Mixture
from models.training.recipes import greeted, same_script, set_up, splice
from models.training.samples import Sample, labelled

CHAT = """\
=== a
U: how old is the moon
A: very
R: and the sun
P: write a poem about rice
A: rice!
S: which rice is best
B[0,1]: back to the moon, is it cold
R: how cold
"""


def pool() -> list[Dialogue]:
    """A few dialogues of most genres."""
    words = ("river", "piano", "garden", "rocket", "soup", "winter", "castle", "engine")
    found = parse(CHAT, "x")
    for number, word in enumerate(words):
        turns = (Turn("user", f"tell me about the {word} please"), Turn("assistant", f"the {word} is old"))
        follow = (Turn("user", f"is it a good {word}?"), Turn("assistant", "yes"))
        for source, genre in (("cast22", "qa"), ("byu_chitchat", "chat"), ("ifeval", "task")):
            found.append(Dialogue(f"{source}-{number}", source, genre, turns + follow))  # type: ignore[arg-type]
    return found


@pytest.fixture
def material() -> Material:
    return Material(pool())


def test_labelled_turns_are_asked_against_the_labels_threads() -> None:
    """A pivot opens a thread; a return refines its own thread, and is a pivot from the one in between."""
    (chat,) = parse(CHAT, "x")
    asked = [(s.turn, s.thread[0].text, s.target) for s in labelled(chat)]
    assert asked == [
        ("and the sun", "how old is the moon", 0.0),
        ("write a poem about rice", "how old is the moon", 1.0),
        ("which rice is best", "write a poem about rice", 0.10),
        ("back to the moon, is it cold", "write a poem about rice", 1.0),
        ("back to the moon, is it cold", "how old is the moon", 0.0),
        ("how cold", "how old is the moon", 0.0),
    ]


def test_a_dialogue_is_cut_at_its_pivots() -> None:
    """Segments begin with the turn that opens the topic and end before the first return."""
    (chat,) = parse(CHAT, "x")
    assert [segment.opening for segment in segments(chat)] == ["how old is the moon", "write a poem about rice"]


def test_the_same_seed_draws_the_same_samples(material: Material) -> None:
    """Samples are a function of material and generator, and of nothing before them."""
    mixture = Mixture(material)
    first = mixture.draw(Random("7"), 200)
    mixture.draw(Random("8"), 50)
    assert mixture.draw(Random("7"), 200) == first
    assert Mixture(Material(pool())).draw(Random("7"), 200) == first
    assert mixture.draw(Random("8"), 200) != first


def test_samples_are_questions_that_a_gate_is_asked(material: Material) -> None:
    """Every sample has a thread and a turn, and a target between refinement and pivot."""
    for sample in Mixture(material).draw(Random(1), 500):
        assert sample.thread
        assert sample.turn.strip()
        assert 0 <= sample.target <= 1


def test_recipes_without_material_are_left_out() -> None:
    """A small data folder gives fewer kinds of samples; what gives no pivots is refused."""
    dialogues = [dialogue for dialogue in pool() if dialogue.genre == "qa"]
    drawn = {sample.recipe for sample in Mixture(Material(dialogues)).draw(Random(1), 300)}
    assert "splice_qa_qa" in drawn
    assert not {recipe for recipe in drawn if "chat" in recipe or "labelled" in recipe}
    with pytest.raises(TrainingError, match="too few"):
        Mixture(Material(dialogues[:1]))


def test_pivots_stand_at_many_depths(material: Material) -> None:
    """Depth says nothing about the label."""
    make = splice(["qa"], ["qa"])
    depths = {sum(u.role == "user" for u in make(material, Random(seed)).thread) for seed in range(60)}
    assert {1, 2} <= depths


def test_bare_input_after_a_set_up_is_a_refinement(material: Material) -> None:
    """So is the first request after a greeting."""
    for recipe in (set_up, greeted):
        assert {recipe(material, Random(seed)).target for seed in range(20)} == {0.0}


def test_chats_in_other_scripts_are_spliced_within_their_script() -> None:
    """A change of language must not be what tells a pivot."""
    texts = (
        "где находится музей города",
        "как приготовить рис дома",
        "сколько стоит билет туда",
        "почему небо голубое",
    )
    chats = [Dialogue(text, "real", "real", (Turn("user", text), Turn("user", "ещё раз"))) for text in texts]
    material = Material([*pool(), *chats])
    sample = same_script(material, Random(0))
    assert sample.turn in texts
    assert sample.thread[-1].text != sample.turn


def test_mining_keeps_what_the_gate_gets_wrong() -> None:
    """Refinements near or above the threshold and pivots near or below it; of noisy recipes only the near ones."""
    thread = (Utterance("user", "x"),)
    samples = [
        Sample(thread, "wrong refinement", 0.0, "natural_qa"),
        Sample(thread, "right refinement", 0.0, "natural_qa"),
        Sample(thread, "missed pivot", 1.0, "splice_qa_qa"),
        Sample(thread, "found pivot", 1.0, "splice_qa_qa"),
        Sample(thread, "far off and noisy", 0.0, "natural_chat"),
        Sample(thread, "near and noisy", 0.0, "natural_chat"),
        Sample(thread, "soft", 0.1, "labelled_S"),
    ]
    assert hard(samples, [5.0, -3.0, -4.0, 4.0, 6.0, 1.0, 6.0], threshold=1.0) == [0, 2, 5]
