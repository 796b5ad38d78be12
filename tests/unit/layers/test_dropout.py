"""Dropout: the right share of exact zeros, the rest scaled to keep the expectation, all from torch's generator.

Bounds are five standard deviations of the count in question: a right implementation leaves them for about one seed in
two million, and the seed is fixed.
"""

import math

import pytest
import torch
from torch import Tensor

from dragoman.layers.dropout import LEVELS, Dropout

RATES = [0.1, 0.3, 0.5, 0.9]
NUMBERS = 200_000


def exact(rate: float) -> float:
    """The rate that is really drawn: a multiple of 1 / LEVELS."""
    return round(rate * LEVELS) / LEVELS


def dropped(rate: float, *shape: int) -> Tensor:
    zeros: Tensor = Dropout(rate)(torch.ones(*shape)) == 0
    return zeros


def within_five_deviations(count: int, draws: int, probability: float) -> bool:
    return abs(count - draws * probability) < 5 * math.sqrt(draws * probability * (1 - probability))


@pytest.mark.parametrize("rate", [*RATES, 0.001])
def test_the_share_of_zeros_is_the_rate(rate: float) -> None:
    assert abs(exact(rate) - rate) <= 0.5 / LEVELS
    assert within_five_deviations(int(dropped(rate, NUMBERS).sum()), NUMBERS, exact(rate))


@pytest.mark.parametrize("rate", RATES)
def test_each_of_the_numbers_that_share_a_draw_has_the_rate(rate: float) -> None:
    lanes = dropped(rate, NUMBERS // 4, 4)
    for lane in lanes.T:
        assert within_five_deviations(int(lane.sum()), len(lane), exact(rate))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("distance", [1, 2, 3, 4, 5, 8])
def test_neighbours_are_dropped_independently(rate: float, distance: int) -> None:
    zeros = dropped(rate, NUMBERS)
    both = zeros[distance:] & zeros[:-distance]
    # Pairs that have a number in common are not independent draws: this stride leaves none, and meets every lane.
    apart = both[:: 2 * distance + 1]
    assert within_five_deviations(int(apart.sum()), len(apart), exact(rate) ** 2)


@pytest.mark.parametrize("rate", RATES)
def test_two_calls_draw_independently(rate: float) -> None:
    first, second = dropped(rate, NUMBERS), dropped(rate, NUMBERS)
    assert within_five_deviations(int((first & second).sum()), NUMBERS, exact(rate) ** 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rate", RATES)
def test_a_number_is_either_zero_or_scaled_up(rate: float, dtype: torch.dtype) -> None:
    thinned = Dropout(rate)(torch.ones(1000, dtype=dtype))
    assert thinned.dtype == dtype
    scale = torch.tensor(1 / (1 - exact(rate)), dtype=dtype).item()
    assert sorted(set(thinned.tolist())) == [0.0, scale]


@pytest.mark.parametrize("rate", RATES)
def test_the_expectation_stays(rate: float) -> None:
    mean = Dropout(rate)(torch.ones(NUMBERS, dtype=torch.float64)).mean().item()
    deviation = math.sqrt(exact(rate) / (1 - exact(rate)) / NUMBERS)
    assert abs(mean - 1) < 5 * deviation


def test_kept_numbers_are_their_own() -> None:
    x = torch.randn(7, 11, 13)
    thinned = Dropout(0.25)(x)
    kept = thinned != 0
    torch.testing.assert_close(thinned[kept], x[kept] / 0.75)
    assert 0 < kept.sum() < kept.numel()


def test_the_same_seed_drops_the_same_and_another_seed_others() -> None:
    x = torch.ones(1001)
    draws: dict[int, Tensor] = {}
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        new = Dropout(0.5)(x)
        assert torch.equal(draws.setdefault(seed, new), new)
    assert not torch.equal(draws[1], draws[2])


def test_dropout_moves_the_generator_on_and_does_not_seed_it() -> None:
    torch.manual_seed(1)
    Dropout(0.5)(torch.ones(10))
    after = torch.rand(3)
    torch.manual_seed(1)
    assert not torch.equal(torch.rand(3), after)
    Dropout(0.5)(torch.ones(10))
    assert not torch.equal(torch.rand(3), after)


@pytest.mark.parametrize("shape", [(), (1,), (2,), (3,), (5,), (7, 1), (3, 5, 7), (0,), (4, 0)], ids=str)
def test_every_shape_comes_back(shape: tuple[int, ...]) -> None:
    thinned = Dropout(0.5)(torch.ones(shape))
    assert thinned.shape == shape
    assert set(thinned.flatten().tolist()) <= {0.0, 2.0}


def test_a_view_with_another_order_in_memory_is_thinned_like_any_other() -> None:
    x = torch.randn(6, 9).T
    thinned = Dropout(0.5)(x)
    kept = thinned != 0
    assert torch.equal(thinned[kept], 2 * x[kept])
    assert 0 < kept.sum() < kept.numel()


def test_the_gradient_passes_where_the_number_passed() -> None:
    x = torch.randn(9, 31, requires_grad=True)
    thinned = Dropout(0.3)(x)
    (gradient,) = torch.autograd.grad(thinned.sum(), x)
    kept = thinned.detach() != 0
    assert torch.equal(gradient != 0, kept)
    torch.testing.assert_close(gradient[kept], torch.full((int(kept.sum()),), 1 / (1 - exact(0.3))))


def test_a_model_that_is_not_training_drops_nothing_and_draws_nothing() -> None:
    x = torch.randn(4, 5)
    state = torch.get_rng_state()
    assert torch.equal(Dropout(0.9).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(torch.get_rng_state(), state)


def test_rates_too_small_or_too_large_for_the_levels_are_none_and_all() -> None:
    assert torch.equal(Dropout(0.1 / LEVELS)(torch.ones(1000)), torch.ones(1000))
    assert torch.equal(Dropout(1 - 0.1 / LEVELS)(torch.ones(1000)), torch.zeros(1000))


def test_the_rate_is_told() -> None:
    assert repr(Dropout(0.1)) == "Dropout(rate=0.1)"
