"""Batches of few shapes: what is added must change nothing that is learned."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.models.build import build
from dragoman.models.config import TransformerConfig
from dragoman.models.presets import preset
from dragoman.text.vocab import EOS, PAD
from dragoman.training.config import LossConfig
from dragoman.training.loss import Objective
from dragoman.training.shapes import LENGTH, ROWS, pad_batch


def batch(rows: int, source: int, target: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    sides = [torch.randint(4, 30, (rows, length), generator=generator) for length in (source, target)]
    for side in sides:
        side[:, -1] = EOS
        side[0, -1] = PAD
        side[0, -2] = EOS
    return sides[0], sides[1]


@given(st.integers(1, 20), st.integers(2, 13), st.integers(2, 13))
def test_sizes_are_multiples_and_what_was_there_stays_in_its_place(rows: int, source: int, target: int) -> None:
    before = batch(rows, source, target)
    after = pad_batch(*before)
    for old, new in zip(before, after, strict=True):
        assert [size % step for size, step in zip(new.shape, (ROWS, LENGTH), strict=True)] == [0, 0]
        assert new.numel() < (rows + ROWS) * (old.shape[1] + LENGTH)
        assert torch.equal(new[:rows, : old.shape[1]], old)
        assert (new[:rows, old.shape[1] :] == PAD).all()
    assert (after[1][rows:] == PAD).all()


def test_a_length_that_no_model_could_read_is_not_made() -> None:
    source, target = pad_batch(*batch(3, 6, 9), longest=10)
    assert (source.shape[1], target.shape[1]) == (8, 9)


@pytest.mark.parametrize("name", ["tiny", "bahdanau", "luong-general"])
@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_loss_and_gradients_are_those_of_the_batch_as_it_was(name: str, r_drop: float) -> None:
    torch.manual_seed(2)
    config = preset(name, 30)
    changes = {"d_model": 16, "d_ff": 24} if isinstance(config, TransformerConfig) else {"d_model": 16}
    model = build(type(config).model_validate({**config.model_dump(), **changes, "dropout": 0.0}))
    before = batch(5, 7, 9)
    losses, gradients = [], []
    for sides in (before, pad_batch(*before)):
        model.zero_grad()
        loss = Objective(model, LossConfig(r_drop=r_drop))(*sides)
        loss.backward()
        losses.append(loss.detach())
        gradients.append([weight.grad.clone() for weight in model.parameters() if weight.grad is not None])
    torch.testing.assert_close(losses[1], losses[0])
    assert len(gradients[0]) > 5
    torch.testing.assert_close(gradients[1], gradients[0], atol=1e-5, rtol=1e-4)
