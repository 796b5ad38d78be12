"""Heads in another order: the same model to the last digit that counts, seen by torch itself."""

import numpy as np
import pytest
import torch

from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.export.head_order import move_heads_first
from dragoman.export.variables import variables
from dragoman.models.config import TransformerConfig
from dragoman.models.transformer import Transformer
from dragoman.models.weights import load_weights, weights_of
from dragoman.text.vocab import EOS

CROSS = "decoder.layers.1.cross_attention"
SHAPE = TransformerConfig(
    source_vocabulary=13,
    target_vocabulary=11,
    d_model=12,
    d_ff=10,
    num_heads=3,
    num_encoder_layers=1,
    num_decoder_layers=2,
    attention_bias=True,
    tie="none",
)


def heads(*numbers: int | None) -> tuple[AlignmentHead, ...]:
    return tuple(AlignmentHead(layer=CROSS, head=number) for number in numbers)


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(2)
    made = Transformer(SHAPE)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_()
    return made.eval()


@pytest.mark.parametrize("chosen", [(2,), (1,), (2, 0), (1, 2, 0)])
def test_the_model_computes_the_same(model: Transformer, chosen: tuple[int, ...]) -> None:
    before = weights_of(model)
    changed = move_heads_first(SHAPE, before, heads(*chosen))
    assert {name for name in before if not np.array_equal(before[name], changed[name])} == {
        *(f"{CROSS}.{part}.{kind}" for part in ("query", "key", "value") for kind in ("weight", "bias")),
        f"{CROSS}.output.weight",
    }
    assert all(np.array_equal(array, weights_of(model)[name]) for name, array in before.items())
    again = Transformer(SHAPE).eval()
    load_weights(again, changed)
    source, target = torch.tensor([[4, 5, 12, EOS]]), torch.tensor([[1, 7, 9]])
    torch.testing.assert_close(again(source, target), model(source, target), rtol=0, atol=1e-4)


def test_the_chosen_head_comes_first_whole(model: Transformer) -> None:
    before = weights_of(model)
    changed = move_heads_first(SHAPE, before, heads(2, 0))
    width = SHAPE.d_model // SHAPE.num_heads
    for place, number in enumerate((2, 0, 1)):
        was, now = slice(number * width, (number + 1) * width), slice(place * width, (place + 1) * width)
        assert np.array_equal(changed[f"{CROSS}.key.weight"][now], before[f"{CROSS}.key.weight"][was])
        assert np.array_equal(changed[f"{CROSS}.output.weight"][:, now], before[f"{CROSS}.output.weight"][:, was])


@pytest.mark.parametrize("chosen", [(), (0,), (None,), (0, 1)])
def test_what_is_in_front_already_stays(model: Transformer, chosen: tuple[int | None, ...]) -> None:
    before = weights_of(model)
    changed = move_heads_first(SHAPE, before, heads(*chosen))
    assert all(np.array_equal(changed[name], before[name]) for name in before)


@pytest.mark.parametrize(
    ("chosen", "layer", "count"), [((), -1, 1), ((2,), 1, 1), ((2, 0), 1, 2), ((None,), 1, SHAPE.num_heads)]
)
def test_ctranslate2_is_told_where_to_look(
    model: Transformer, chosen: tuple[int | None, ...], layer: int, count: int
) -> None:
    named = variables(SHAPE, weights_of(model), heads(*chosen))
    assert (int(named["decoder/alignment_layer"]), int(named["decoder/alignment_heads"])) == (layer, count)


def test_a_layer_is_known_by_its_number() -> None:
    assert heads(0)[0].layer_number == 1
