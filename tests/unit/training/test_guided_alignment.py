"""A head trained towards word links: the loss by hand, its gradients, and that training follows the links."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.attention.tap import Tap, cross_attentions
from dragoman.data.batches import Batch
from dragoman.models.build import build
from dragoman.models.config import TransformerConfig
from dragoman.models.presets import preset
from dragoman.models.seq2seq import Seq2Seq, shifted
from dragoman.text.vocab import PAD
from dragoman.training.config import GuidedAlignmentConfig, LossConfig, TrainingConfig
from dragoman.training.gradients import Gradients
from dragoman.training.loss import Objective, alignment_loss
from dragoman.training.parallel import Group
from dragoman.training.shapes import pad_batch, pad_guide

VOCABULARY = 30


def small_model(name: str = "tiny") -> Seq2Seq[Any, Any]:
    torch.manual_seed(5)
    config = preset(name, VOCABULARY)
    changes = {"d_model": 16, "d_ff": 24} if isinstance(config, TransformerConfig) else {"d_model": 16}
    return build(type(config).model_validate({**config.model_dump(), **changes, "dropout": 0.0}))


def pairs(rows: int = 5, source: int = 6, target: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    sides = [torch.randint(4, VOCABULARY, (rows, length), generator=generator) for length in (source, target)]
    for side in sides:
        side[:, -1], side[0, -1], side[0, -2] = 2, PAD, 2
    return sides[0], sides[1]


def diagonal_guide(source: Tensor, target: Tensor) -> Tensor:
    """Token i of the target on token i of the source, for the first four tokens."""
    guide = torch.zeros(len(source), target.shape[1], source.shape[1])
    guide[:, range(4), range(4)] = 1.0
    return guide


@pytest.mark.parametrize("name", ["tiny", "bahdanau", "luong-general"])
@pytest.mark.parametrize(("rows", "first"), [("written", 0), ("read", 1)])
def test_the_loss_is_the_cross_entropy_of_the_step_that_writes_or_reads(name: str, rows: str, first: int) -> None:
    model, (source, target) = small_model(name).eval(), pairs()
    guided = GuidedAlignmentConfig.model_validate({"weight": 0.5, "rows": rows, "layer": -1})
    plain = Objective(model, LossConfig())(source, target)
    found = Objective(model, LossConfig(), guided)(source, target, diagonal_guide(source, target))
    with Tap(model) as tap:
        model.hidden(model.encode(source), shifted(target))
    weights = tap[cross_attentions(model)[-1]][:, 0]
    expected = -sum(weights[:, i + first, i].clamp_min(1e-6).log().sum() for i in range(4))
    torch.testing.assert_close(found, plain + 0.5 * expected, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("name", ["tiny", "luong-general"])
def test_r_drop_counts_both_passes_half(name: str) -> None:
    model, (source, target) = small_model(name).eval(), pairs()
    guide, guided = diagonal_guide(source, target), GuidedAlignmentConfig(weight=0.5)
    totals = [Objective(model, LossConfig(r_drop=r_drop), guided)(source, target, guide) for r_drop in (0.0, 2.0)]
    torch.testing.assert_close(totals[0], totals[1], rtol=1e-5, atol=0.0)


def test_nothing_changes_without_a_weight_or_a_guide() -> None:
    model, (source, target) = small_model().eval(), pairs()
    plain = Objective(model, LossConfig())(source, target)
    guide = diagonal_guide(source, target)
    assert torch.equal(Objective(model, LossConfig(), GuidedAlignmentConfig())(source, target, guide), plain)
    assert torch.equal(Objective(model, LossConfig(), GuidedAlignmentConfig(weight=1.0))(source, target), plain)


def test_only_the_guided_head_and_what_is_below_it_is_pulled() -> None:
    model, (source, target) = small_model(), pairs()
    model.eval()
    guide, guided = diagonal_guide(source, target), GuidedAlignmentConfig(weight=1.0, head=1)
    Objective(model, LossConfig(), guided)(source, target, guide).backward()
    with_guide = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    model.zero_grad()
    Objective(model, LossConfig())(source, target).backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    changed = {name for name in gradients if not torch.allclose(gradients[name], with_guide[name], atol=1e-5)}
    names = cross_attentions(model)
    assert f"{names[-2]}.query.weight" in changed
    assert not any(name.startswith(names[-1]) for name in changed)
    rows = (model.get_submodule(names[-2]).query.weight.grad - with_guide[f"{names[-2]}.query.weight"]).abs().sum(1)
    width = 16 // model.get_submodule(names[-2]).num_heads
    assert torch.nonzero(rows > 1e-4).min() >= width
    assert torch.nonzero(rows > 1e-4).max() < 2 * width


def test_padding_and_microbatches_do_not_change_the_gradients() -> None:
    source, target = pairs()
    guide = diagonal_guide(source, target)
    sides = [side.numpy().astype(np.int32) for side in (source, target)]
    batch = Batch(0, sides[0], sides[1], "little", np.arange(5), guide.numpy())
    gradients, losses = [], []
    for pieces in (1, 2):
        model = small_model()
        training = TrainingConfig(
            guided_alignment=GuidedAlignmentConfig(weight=0.3), pieces=pieces, precision="float32"
        )
        losses.append(Gradients(model, training, Group(), seed=1).of_update([batch]))
        gradients.append([weight.grad for weight in model.parameters()])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-3, atol=1e-5)
    padded = pad_batch(source, target)
    longer = pad_guide(guide, *padded)
    model = small_model().eval()
    objective = Objective(model, LossConfig(), GuidedAlignmentConfig(weight=0.3))
    torch.testing.assert_close(objective(*padded, longer), objective(source, target, guide), rtol=1e-5, atol=0.0)


def test_weights_of_zero_have_a_finite_loss() -> None:
    weights, guide = torch.zeros(1, 3, 3), torch.eye(3)[None]
    assert alignment_loss(weights, guide, GuidedAlignmentConfig(rows="written")) < 50


@pytest.mark.slow
def test_a_head_follows_the_links_after_some_updates() -> None:
    model, (source, target) = small_model(), pairs()
    guide, guided = diagonal_guide(source, target), GuidedAlignmentConfig(weight=1.0)
    objective = Objective(model, LossConfig(), guided)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(150):
        optimizer.zero_grad()
        objective(source, target, guide).backward()
        optimizer.step()
    with Tap(model) as tap:
        model.hidden(model.encode(source), shifted(target))
    weights = tap[cross_attentions(model)[-2]][:, 0, 1:]
    assert (weights.argmax(-1)[:, :4] == torch.arange(4)).float().mean() > 0.9


def test_the_default_layer_is_the_second_last_if_there_are_two() -> None:
    assert [GuidedAlignmentConfig().layer_of(number) for number in (1, 2, 6)] == [0, 0, 4]
    assert [GuidedAlignmentConfig(layer=layer).layer_of(6) for layer in (-1, 2)] == [5, 2]
