"""Interventions in words, as captions have them."""

import pytest

from dragoman.inspection.intervention import Given, Looking, Off, Permuted, Uniform, said

CROSS = "decoder.layers.2.cross_attention"


@pytest.mark.parametrize(
    ("intervention", "words"),
    [
        (Off(where=CROSS, heads=(1,)), f"head 1 of {CROSS} off"),
        (Off(where=CROSS, heads=(0, 2)), f"heads 0 and 2 of {CROSS} off"),
        (Off(where="decoder.layers.2"), "decoder.layers.2 off"),
        (Uniform(where="cross"), "every cross-attention uniform"),
        (Uniform(where="encoder", heads=(3,)), "head 3 of every self-attention of the encoder uniform"),
        (Permuted(where="decoder", seed=4), "every self-attention of the decoder permuted (seed 4)"),
        (Looking(where=CROSS, position=5), f"{CROSS} looking at key 5"),
        (Given(where=CROSS, matrix=((0.5, 0.5),)), f"{CROSS} given"),
    ],
)
def test_each_is_said_in_a_few_words(intervention: Off, words: str) -> None:
    assert said([intervention]) == words


def test_a_list_is_said_in_its_order() -> None:
    assert said([Off(where=CROSS), Uniform(where="cross")]) == f"{CROSS} off, every cross-attention uniform"
