"""How much of which recipe: the training set, as far as it is a matter of choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from models.training.dialogue import Genre
from models.training.errors import TrainingError
from models.training.material import TALK, Material
from models.training.phrases import PHRASES
from models.training.recipes import (
    GREETED,
    RETURNING,
    Recipe,
    command,
    greeted,
    labelled_turn,
    middle,
    natural,
    parts,
    pasted,
    same_script,
    set_up,
    splice,
    varied,
)
from models.training.samples import Sample


@dataclass(frozen=True, slots=True)
class Ingredient:
    """A recipe, its share, and whether the material has what it needs."""

    share: float
    recipe: Recipe
    possible: Callable[[Material], bool]


def _labelled(share: float, genre: Genre) -> Ingredient:
    return Ingredient(share, labelled_turn(genre), lambda material: bool(material.labelled[genre]))


def _natural(share: float, genre: Genre) -> Ingredient:
    return Ingredient(share, natural(genre), lambda material: bool(material.long[genre]))


def _splice(share: float, firsts: Sequence[Genre], seconds: Sequence[Genre], cues: Sequence[str] = ()) -> Ingredient:
    def possible(material: Material) -> bool:
        return any(material.segments[g] for g in firsts) and any(len(material.openings[g]) > 1 for g in seconds)

    return Ingredient(share, splice(firsts, seconds, cues), possible)


def _spoken(material: Material) -> bool:
    return any(material.segments.values())


def _openings(material: Material) -> bool:
    return any(material.openings[genre] for genre in GREETED)


def _threads(material: Material) -> bool:
    return any(material.long[genre] for genre in RETURNING)


MIXTURE: tuple[Ingredient, ...] = (
    # turns that were labelled
    _labelled(10, "real"),
    _labelled(16, "authored"),
    _labelled(26, "alternatives"),
    # refinements
    _natural(8, "qa"),
    _natural(9, "chat"),
    _natural(2, "service"),
    _natural(4, "task"),
    Ingredient(4, parts, lambda material: bool(material.requests)),
    Ingredient(4, set_up, _spoken),
    Ingredient(3, pasted, lambda material: bool(material.code or material.passages)),
    Ingredient(4, command, _spoken),
    Ingredient(2, greeted, _openings),
    # pivots
    _splice(10, ["qa"], ["qa"]),
    _splice(12, ["chat"], ["chat"]),
    _splice(1, ["service"], ["service"]),
    _splice(8, ["real", "authored"], ["real", "authored", "task"]),
    _splice(7, ["task"], ["task", "real", "authored"]),
    _splice(3, TALK, TALK),
    _splice(2, ["qa"], ["qa"], PHRASES.cues),
    _splice(2, ["chat"], ["chat"], PHRASES.cues),
    _splice(1, TALK, TALK, PHRASES.cues),
    Ingredient(2, middle, _threads),
    Ingredient(1, same_script, lambda material: bool(material.foreign)),
)


class Mixture:
    """Draws samples; a recipe that the material has nothing for is left out.

    Raises:
        TrainingError: no recipe, or nothing but refinements or pivots, could be made of the material.
    """

    def __init__(self, material: Material, ingredients: Sequence[Ingredient] = MIXTURE) -> None:
        self.material = material
        self._ingredients = [ingredient for ingredient in ingredients if ingredient.possible(material)]
        if not any(len(openings) > 1 for openings in material.openings.values()):
            raise TrainingError("the data folder holds too few dialogues to make pivots of")

    def draw(self, rng: Random, count: int) -> list[Sample]:
        """``count`` samples: a pure function of the material and the generator's state."""
        shares = [ingredient.share for ingredient in self._ingredients]
        chosen = rng.choices(self._ingredients, shares, k=count)
        return [ingredient.recipe(self.material, rng) for ingredient in chosen]

    def vary(self, rng: Random, samples: Sequence[Sample]) -> list[Sample]:
        """The same turns as other clients would bring them."""
        return [varied(sample, self.material, rng) for sample in samples]
