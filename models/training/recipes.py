"""Recipes: each makes samples that teach one thing, from the material and a generator that is passed.

Pivots are splices at any turn from the second on, behind prefixes of every length, so depth says nothing about the
label (the late-pivot curriculum of arXiv 2605.09268); cues stand before pivots and, as soft cues, before refinements.
The refinements are those that a reset hurts: bare input after a set-up, pasted data after an ask, parts of one request,
commands, acknowledgements, returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from guard.conversation import Utterance
from models.training.dialogue import Genre
from models.training.material import REQUESTING, Material, shared, words
from models.training.phrases import PHRASES
from models.training.samples import Sample

Recipe = Callable[[Material, Random], Sample]

GREETED: tuple[Genre, ...] = ("real", "real", "authored", "task", "qa")
"""Whose openings follow greetings."""

RETURNING: tuple[Genre, ...] = ("qa", "real", "authored", "task")
"""Whose threads are gone back to."""

ALIKE = 0.34
"""Share of an opening's words in the thread before it from which the two may be about the same thing."""


def natural(genre: Genre) -> Recipe:
    """A later turn of a dialogue, against what came before it: a refinement."""

    def make(material: Material, rng: Random) -> Sample:
        segment = rng.choice(material.long[genre])
        position = rng.choice(segment.starts[1:])
        turn = segment.utterances[position].text
        if rng.random() < 0.06:
            turn = _cued(rng, turn, PHRASES.soft_cues)
        return varied(Sample(segment.utterances[:position], turn, 0.0, f"natural_{genre}"), material, rng)

    return make


def labelled_turn(genre: Genre) -> Recipe:
    """A turn that was labelled: refinement, pivot, soft or return."""
    return lambda material, rng: varied(rng.choice(material.labelled[genre]), material, rng)


def parts(material: Material, rng: Random) -> Sample:
    """A long request sent in two or three turns: an ask and its data, or an exercise piece by piece."""
    genres = [genre for genre in ("real", *REQUESTING) if genre in material.requests]
    found = rng.choice(material.requests[rng.choice(genres)])
    cut = rng.randrange(1, len(found))
    thread = [Utterance("user", " ".join(found[:cut]))]
    if rng.random() < 0.5:
        thread.append(Utterance("assistant", rng.choice(PHRASES.ask_ready + PHRASES.ready)))
    end = rng.randrange(cut + 1, len(found) + 1)
    return Sample(tuple(thread), " ".join(found[cut:end]), 0.0, "parts", 0.7)


def set_up(material: Material, rng: Random) -> Sample:
    """A standing task, then bare inputs that have nothing to do with each other: refinements all the same."""
    thread = [Utterance("user", _filled(rng, PHRASES.setups if rng.random() < 0.65 else PHRASES.personas))]
    answers = rng.random() < 0.6
    if answers:
        thread.append(Utterance("assistant", rng.choice(PHRASES.ready)))
    inputs = [material.piece(rng) for _ in range(rng.choice((1, 1, 2, 2, 3, 4, 6)))]
    for text in inputs[:-1]:
        thread.append(Utterance("user", text))
        if answers:
            thread.append(Utterance("assistant", material.piece(rng)))
    return Sample(tuple(thread), inputs[-1], 0.0, "set_up", 0.8)


def pasted(material: Material, rng: Random) -> Sample:
    """An ask, then the code or text that it is about, with no word of the ask in it."""
    code = bool(material.code) and (rng.random() < 0.5 or not material.passages)
    ask = _filled(rng, PHRASES.asks_for_code if code else PHRASES.asks_for_text)
    thread: tuple[Utterance, ...] = (Utterance("user", ask),)
    if rng.random() < 0.6:
        thread += (Utterance("assistant", rng.choice(PHRASES.ask_ready)),)
    if rng.random() < 0.3:
        thread = material.head(rng, material.genre(rng), 2) + thread
    return Sample(thread, rng.choice(material.code if code else material.passages), 0.0, "pasted", 0.8)


def command(material: Material, rng: Random) -> Sample:
    """A short command on the output before, or an acknowledgement."""
    thread = material.head(rng, material.genre(rng), 6)
    turn = _filled(rng, PHRASES.commands) if rng.random() < 0.7 else rng.choice(PHRASES.acks)
    return varied(Sample(thread, turn, 0.0, "command", 0.7), material, rng)


def greeted(material: Material, rng: Random) -> Sample:
    """The first request after mere greetings: nothing to drop, and a refinement by convention."""
    thread = [Utterance("user", rng.choice(PHRASES.greetings))]
    if rng.random() < 0.75:
        thread.append(Utterance("assistant", rng.choice(PHRASES.greeting_answers)))
    if rng.random() < 0.15:
        thread.append(Utterance("user", rng.choice(PHRASES.greetings)))
        thread.append(Utterance("assistant", rng.choice(PHRASES.greeting_answers)))
    genres = [genre for genre in GREETED if material.openings[genre]]
    return Sample(tuple(thread), rng.choice(material.openings[rng.choice(genres)]).opening, 0.0, "greeted", 0.8)


def splice(firsts: Sequence[Genre], seconds: Sequence[Genre], cues: Sequence[str] = ()) -> Recipe:
    """The opening of another dialogue behind a head of this one: a pivot.

    Of several openings the one most like the thread is often taken, but none that may be about the same thing.
    """

    def make(material: Material, rng: Random) -> Sample:
        first = rng.choice([genre for genre in firsts if material.segments[genre]])
        second = rng.choice([genre for genre in seconds if material.openings[genre]])
        for _ in range(20):
            thread = material.head(rng, first, 14)
            known = words(" ".join(utterance.text for utterance in thread))
            candidates = [rng.choice(material.openings[second]).opening for _ in range(rng.choice((1, 1, 4, 12)))]
            likeness, turn = max((shared(words(text), known), text) for text in candidates)
            if likeness < ALIKE:
                break
        recipe = f"splice_{first}_{second}" + ("_cue" if cues else "")
        return varied(Sample(thread, _cued(rng, turn, cues) if cues else turn, 1.0, recipe), material, rng)

    return make


def same_script(material: Material, rng: Random) -> Sample:
    """A splice of two chats in one script other than Latin: the language gives nothing away."""
    scripts = sorted(material.foreign)
    script = rng.choices(scripts, [len(material.foreign[name]) for name in scripts])[0]
    first, second = rng.sample(material.foreign[script], 2)
    head = first.head(rng.randint(1, len(first.starts)))
    return varied(Sample(head, second.opening, 1.0, "same_script"), material, rng)


def middle(material: Material, rng: Random) -> Sample:
    """A turn that goes back to thread A, against thread B: a pivot there, where its words say so."""
    genres = [genre for genre in RETURNING if material.long[genre]]
    for _ in range(50):
        genre = rng.choice(genres)
        segment = rng.choice(material.long[genre])
        position = rng.choice(segment.starts[1:])
        turn, thread = segment.utterances[position].text, material.head(rng, genre, 4)
        told = words(turn)
        own = shared(told, words(" ".join(utterance.text for utterance in segment.utterances[:position])))
        other = shared(told, words(" ".join(utterance.text for utterance in thread)))
        if len(told) >= 3 and own > 0.3 and other < 0.1:
            break
    return Sample(thread, turn, 0.85, "middle", 0.6)


def varied(sample: Sample, material: Material, rng: Random) -> Sample:
    """The same turn as other clients, and earlier mistakes of the gate, would bring it.

    That is: without answers, with the rest of a topic before it, or with the start of its thread lost.
    """
    thread = sample.thread
    chance = rng.random()
    starts = [index for index, utterance in enumerate(thread) if utterance.role == "user"]
    if chance < 0.08 and (sample.target < 0.5 or sample.target == 1.0):
        thread = material.head(rng, material.genre(rng), 3) + thread
    elif 0.08 <= chance < 0.14 and len(starts) > 2 and sample.recipe.startswith("natural"):
        thread = thread[rng.choice(starts[1:-1]) :]
    if rng.random() < 0.25:
        thread = tuple(utterance for utterance in thread if utterance.role == "user") or thread
    return replace(sample, thread=thread)


def _cued(rng: Random, turn: str, cues: Sequence[str]) -> str:
    cue = rng.choice(cues)
    cue = cue.capitalize() if rng.random() < 0.3 else cue
    return f"{cue}{rng.choice((', ', ', ', ': ', '. ', ' - ', ' '))}{turn}"


def _filled(rng: Random, templates: Sequence[str]) -> str:
    language, persona = rng.choice(PHRASES.languages), rng.choice(PHRASES.characters)
    text = rng.choice(templates).format(language=language, persona=persona)
    return text.lower() if rng.random() < 0.3 else text
