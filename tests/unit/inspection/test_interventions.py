"""Interventions in words, as captions have them."""

import pytest

from dragoman.inspection.interventions import (
    HeadsOff,
    HeadsPermuted,
    HeadsUniform,
    Intervention,
    describe_interventions,
    parse_heads,
    parse_interventions,
)

CROSS = "decoder.layers.2.cross_attention"


@pytest.mark.parametrize(
    ("intervention", "words"),
    [
        (HeadsOff(where=CROSS, heads=(1,)), f"head 1 of {CROSS} off"),
        (HeadsOff(where=CROSS, heads=(0, 2)), f"heads 0 and 2 of {CROSS} off"),
        (HeadsOff(where="decoder.layers.2"), "decoder.layers.2 off"),
        (HeadsUniform(where="cross"), "every cross-attention uniform"),
        (HeadsUniform(where="encoder", heads=(3,)), "head 3 of every self-attention of the encoder uniform"),
        (HeadsPermuted(where="decoder", seed=4), "every self-attention of the decoder permuted (seed 4)"),
    ],
)
def test_each_is_described_in_a_few_words(intervention: Intervention, words: str) -> None:
    assert describe_interventions([intervention]) == words


def test_a_list_is_described_in_its_order() -> None:
    assert (
        describe_interventions([HeadsOff(where=CROSS), HeadsUniform(where="cross")])
        == f"{CROSS} off, every cross-attention uniform"
    )


SELF, ENCODER = "decoder.layers.2.self_attention", "encoder.layers.0.self_attention"
NAMES = [ENCODER, SELF, CROSS]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (CROSS, {CROSS: None}),
        (f"{CROSS}.2", {CROSS: (2,)}),
        (f"{CROSS}.2, {CROSS}.0,{SELF}.1", {CROSS: (2, 0), SELF: (1,)}),
        (f"{CROSS}.2,{CROSS}", {CROSS: None}),
        (f"{CROSS},{CROSS}.2", {CROSS: None}),
        ("decoder.layers.2", {"decoder.layers.2": None}),
        ("cross.3,encoder", {"cross": (3,), "encoder": None}),
    ],
)
def test_places_are_typed_as_names_with_a_head_behind(typed: str, meant: dict[str, tuple[int, ...] | None]) -> None:
    assert parse_heads(typed, NAMES) == meant


@pytest.mark.parametrize(
    "typed",
    ["", "cross,", "decoder.layers.1", "decoder.layers.2.0", "encoder.layers.0.cross_attention.1", "cross.x", "2"],
)
def test_a_place_that_is_not_there_is_named_with_those_that_are(typed: str) -> None:
    with pytest.raises(ValueError, match=rf"there is no attention at '.*': choose from {ENCODER}, "):
        parse_heads(typed, NAMES)


def test_changes_are_parsed_for_heads_off_and_uniform() -> None:
    assert parse_interventions(NAMES) == []
    assert parse_interventions(NAMES, without=f"{CROSS}.1", uniform="encoder") == [
        HeadsOff(where=CROSS, heads=(1,)),
        HeadsUniform(where="encoder"),
    ]
