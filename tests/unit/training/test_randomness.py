import torch

from dragoman.training.randomness import seed_batch, seed_weights


def draw(seed: int, index: int) -> list[float]:
    seed_batch(seed, index)
    return torch.rand(3).tolist()


def test_what_a_batch_draws_depends_on_the_seed_and_its_number_alone() -> None:
    first = draw(1, 7)
    torch.rand(100)
    assert draw(1, 7) == first


def test_neighbours_draw_other_numbers() -> None:
    assert len({tuple(draw(seed, index)) for seed in range(5) for index in range(20)}) == 100


def test_weights_and_the_first_batch_draw_other_numbers() -> None:
    first = draw(1, 0)
    seed_weights(1)
    assert torch.rand(3).tolist() != first
