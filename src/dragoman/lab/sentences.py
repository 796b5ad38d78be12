"""Generated English sentences for experiments with the built-in model: the same for a seed, of 4 to about 25 words."""

from random import Random
from typing import Final

from dragoman.bundle import Bundle, demo_folder, open_bundle

_PEOPLE: Final = ("The woman", "My brother", "The teacher", "Our neighbour", "The old man", "Her friend", "The child")
_VERBS: Final = ("reads", "buys", "has found", "wants to see", "is looking for", "forgot", "sold")
_THINGS: Final = ("a book", "the red car", "an apple", "a small house", "the letter", "two tickets", "a good doctor")
_PLACES: Final = ("in the garden", "at the station", "in front of the school", "near the river", "in the city")
_TIMES: Final = ("today", "every morning", "on Sunday", "after work", "last year")
_REASONS: Final = (
    "because it was raining", "although she was very tired", "when the train arrived", "before the shop closed",
    "if the weather is good", "while the dog was sleeping on the sofa",
)  # fmt: skip


def generate_sentences(num: int, seed: int) -> list[str]:
    """Return `num` different sentences; each has a place, a time and up to two clauses by chance."""
    draw = Random(seed)
    sentences: dict[str, None] = {}
    while len(sentences) < num:
        parts = [_choose(draw, _PEOPLE), _choose(draw, _VERBS), _choose(draw, _THINGS)]
        parts += [_choose(draw, options) for options in (_PLACES, _TIMES, _REASONS) if draw.random() < 0.5]
        if draw.random() < 0.4:
            parts += ["and", _choose(draw, _PEOPLE).lower(), _choose(draw, _VERBS), _choose(draw, _THINGS)]
        sentences[" ".join(parts) + "."] = None
    return list(sentences)


def open_demo() -> Bundle:
    """Open the built-in English-German model."""
    return open_bundle(demo_folder())


def _choose(draw: Random, options: tuple[str, ...]) -> str:
    return options[int(draw.random() * len(options))]
