"""Positions against the formulas they come from, in plain numbers."""

import math

import numpy as np
import pytest
import torch

from dragoman.layers.positions import Layout, Positions
from dragoman.layers.sinusoids import sinusoids, sinusoids_in_halves

LENGTH = 40


@pytest.mark.parametrize("d_model", [1, 2, 6, 7, 32])
def test_sinusoids_are_the_papers(d_model: int) -> None:
    table = sinusoids(LENGTH, d_model)
    assert table.shape == (LENGTH, d_model)
    assert table.dtype == np.float64
    for position in range(LENGTH):
        for column in range(d_model):
            i = column // 2
            angle = position / 10_000 ** (2 * i / d_model)
            truth = math.sin(angle) if column % 2 == 0 else math.cos(angle)
            assert abs(table[position, column].item() - truth) < 1e-12


@pytest.mark.parametrize("d_model", [4, 6, 7, 32])
def test_halves_are_tensor2tensors(d_model: int) -> None:
    """get_timing_signal_1d of tensor2tensor, layers/common_attention.py."""
    table = sinusoids_in_halves(LENGTH, d_model)
    assert table.shape == (LENGTH, d_model)
    timescales = d_model // 2
    increment = math.log(10_000) / (timescales - 1)
    for position in range(LENGTH):
        scaled = [position * math.exp(-increment * i) for i in range(timescales)]
        signal = [math.sin(x) for x in scaled] + [math.cos(x) for x in scaled] + [0.0] * (d_model % 2)
        assert max(abs(a - b) for a, b in zip(table[position].tolist(), signal, strict=True)) < 1e-12


def test_the_two_layouts_are_not_the_same_columns_in_another_order() -> None:
    paper, halves = sinusoids(LENGTH, 8), sinusoids_in_halves(LENGTH, 8)
    assert np.abs(paper[:, 0::2] - halves[:, :4]).max() > 0.1


def test_any_offset_is_a_rotation_of_each_pair() -> None:
    """The reason the paper gives for sinusoids: PE(pos + k) is a linear function of PE(pos)."""
    table, offset, d_model = sinusoids(LENGTH, 6), 9, 6
    for i in range(d_model // 2):
        turn = offset / 10_000 ** (2 * i / d_model)
        sine, cosine = table[: LENGTH - offset, 2 * i], table[: LENGTH - offset, 2 * i + 1]
        turned = sine * math.cos(turn) + cosine * math.sin(turn)
        np.testing.assert_allclose(table[offset:, 2 * i], turned, rtol=0, atol=1e-12)


LAYOUTS: list[Layout] = ["sinusoidal", "sinusoidal-halves", "learned"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_positions_are_counted_from_zero_and_from_where_one_starts(layout: Layout) -> None:
    positions = Positions(layout, 11, 6)
    assert torch.equal(positions(0, 11), positions.table)
    assert torch.equal(positions(4, 3), positions.table[4:7])
    if layout == "sinusoidal":
        assert positions(0, 1).tolist() == [[0.0, 1.0] * 3]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("start", "length"), [(0, 12), (11, 1), (9, 3)])
def test_a_sequence_that_is_too_long_is_refused_with_the_mend(layout: Layout, start: int, length: int) -> None:
    positions = Positions(layout, 11, 6)
    said = f"sequence of {start + length} tokens is longer than .* 11 positions.*split the text.*max_positions"
    with pytest.raises(ValueError, match=said):
        positions(start, length)


def test_rotary_positions_and_none_add_nothing() -> None:
    for layout in ("rotary", "none"):
        assert not Positions(layout, 11, 6)(3, 4).any()
        assert Positions(layout, 11, 6).state_dict() == {}


def test_only_learned_positions_are_saved_and_trained() -> None:
    for layout in LAYOUTS[:2]:
        assert Positions(layout, 11, 6).state_dict() == {}
        assert list(Positions(layout, 11, 6).parameters()) == []
    learned = Positions("learned", 11, 6)
    assert list(learned.state_dict()) == ["table"]
    learned(2, 3).sum().backward()
    assert learned.table.grad is not None
    assert learned.table.grad.sum(dim=1).tolist() == [0, 0, 6, 6, 6, 0, 0, 0, 0, 0, 0]


def test_learned_positions_begin_with_the_variance_of_token_vectors() -> None:
    table = Positions("learned", 300, 64).table
    # The sample variance of n normal draws has a relative standard deviation of sqrt(2 / n); 5 of them.
    assert abs(table.var().item() * 64 - 1) < 5 * math.sqrt(2 / table.numel())


def test_the_table_is_as_precise_as_the_model_is_built() -> None:
    assert Positions("sinusoidal", 11, 6).table.dtype == torch.float32
    assert np.array_equal(Positions("sinusoidal", 11, 6).table.numpy(), sinusoids(11, 6).astype(np.float32))


@pytest.mark.usefixtures("float64")
def test_a_model_built_in_double_precision_has_positions_in_double_precision() -> None:
    assert np.array_equal(Positions("sinusoidal", 11, 6).table.numpy(), sinusoids(11, 6))
