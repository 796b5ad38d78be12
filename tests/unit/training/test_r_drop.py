"""R-Drop, against its definition by torch's own functions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from dragoman.text.vocab import PAD
from dragoman.training.config import LossConfig
from dragoman.training.loss import label_smoothed, projected_r_drop, r_drop

BATCH, LENGTH, D_MODEL, VOCABULARY = 3, 5, 7, 11
ALPHA = 5.0


def settings_of(alpha: float = ALPHA, epsilon: float = 0.1, spread: str = "all") -> LossConfig:
    return LossConfig.model_validate({"r_drop": alpha, "label_smoothing": epsilon, "spread": spread})


def example(
    batch: int = BATCH, length: int = LENGTH, d_model: int = D_MODEL, vocabulary: int = VOCABULARY
) -> tuple[Tensor, Tensor, Tensor]:
    hidden = torch.randn(2, batch, length, d_model, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(vocabulary, d_model, dtype=torch.float64, requires_grad=True)
    target = torch.randint(1, vocabulary, (batch, length))
    target[:, length // 2 :][torch.rand(batch, length - length // 2) < 0.4] = PAD
    target[0, 0] = 1
    return hidden, weight, target


def by_definition(logits: Tensor, target: Tensor, alpha: float, epsilon: float) -> Tensor:
    """Section 2.2 of Liang et al. (2021), with the mean of the two cross entropies in place of their sum."""
    real = target != PAD
    p, q = logits[0][real], logits[1][real]
    entropy = sum(F.cross_entropy(x, target[real], label_smoothing=epsilon, reduction="sum") for x in (p, q))
    p, q = p.log_softmax(-1), q.log_softmax(-1)
    # torch's kl_div(input, target) is KL(target || input)
    both = F.kl_div(q, p, reduction="sum", log_target=True) + F.kl_div(p, q, reduction="sum", log_target=True)
    return entropy / 2 + alpha * both / 2


@pytest.mark.parametrize("alpha", [0.5, 5.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_the_loss_and_its_gradients_are_what_the_definition_says(alpha: float, epsilon: float) -> None:
    hidden, weight, target = example()
    logits = F.linear(hidden, weight)
    expected = by_definition(logits, target, alpha, epsilon)
    found = r_drop(logits[0], logits[1], target, settings_of(alpha, epsilon))
    torch.testing.assert_close(found.total, expected, rtol=1e-12, atol=0.0)
    assert found.num_tokens == int((target != PAD).sum())
    ours, theirs = (torch.autograd.grad(loss, (hidden, weight), retain_graph=True) for loss in (found.total, expected))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(2, 6), st.integers(1, 9), st.integers(2, 13)),
    alpha=st.floats(0.0, 10.0),
    epsilon=st.sampled_from([0.0, 0.1, 0.3]),
    spread=st.sampled_from(["all", "others"]),
    seed=st.integers(0, 2**16),
)
def test_the_projected_loss_is_the_plain_one_for_any_shape(
    shape: tuple[int, int, int, int], alpha: float, epsilon: float, spread: str, seed: int
) -> None:
    torch.manual_seed(seed)
    _compare(*example(*shape), alpha, epsilon, spread)


def test_the_projected_loss_has_the_bias_of_the_projection() -> None:
    hidden, weight, target = example()
    bias = torch.randn(VOCABULARY, dtype=torch.float64, requires_grad=True)
    plain = r_drop(*F.linear(hidden, weight, bias), target, settings_of())
    projected = projected_r_drop(hidden, weight, target, settings_of(), bias)
    torch.testing.assert_close(projected.total, plain.total, rtol=1e-10, atol=0.0)
    wanted, found = (torch.autograd.grad(loss.mean, (hidden, weight, bias)) for loss in (plain, projected))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tokens_at_a_time", [0, 1, 2, 3, 100])
def test_where_chunks_end_does_not_matter(tokens_at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.training.loss.CHUNK", 2 * tokens_at_a_time * VOCABULARY + 1)
    _compare(*example(), ALPHA, 0.1, "all")


def _compare(hidden: Tensor, weight: Tensor, target: Tensor, alpha: float, epsilon: float, spread: str) -> None:
    logits = F.linear(hidden, weight)
    config = settings_of(alpha, epsilon, spread)
    plain = r_drop(logits[0], logits[1], target, config)
    projected = projected_r_drop(hidden, weight, target, config)
    assert projected.num_tokens == plain.num_tokens
    torch.testing.assert_close(projected.total, plain.total, rtol=1e-10, atol=1e-10)
    wanted = torch.autograd.grad(plain.mean, (hidden, weight))
    found = torch.autograd.grad(projected.mean, (hidden, weight))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("spread", ["all", "others"])
def test_with_a_weight_of_nothing_it_is_the_mean_of_two_losses(spread: str) -> None:
    hidden, weight, target = example()
    logits = F.linear(hidden, weight)
    expected = sum(label_smoothed(one, target, settings_of(0.0, 0.1, spread)).total for one in logits) / 2
    found = projected_r_drop(hidden, weight, target, settings_of(0.0, 0.1, spread)).total
    torch.testing.assert_close(found, torch.as_tensor(expected), rtol=1e-12, atol=0.0)


def test_two_passes_that_agree_cost_what_one_does() -> None:
    hidden, weight, target = example()
    same = hidden[:1].expand(2, -1, -1, -1)
    found = projected_r_drop(same, weight, target, settings_of()).total
    torch.testing.assert_close(found, label_smoothed(F.linear(hidden[0], weight), target).total, rtol=1e-12, atol=0.0)


def test_under_autocast_it_is_within_bfloat16_of_the_true_one() -> None:
    hidden, weight, target = (x.detach() for x in example())
    rough = [x.float().requires_grad_() for x in (hidden, weight)]
    with torch.autocast("cpu", torch.bfloat16):
        found = projected_r_drop(*rough, target, settings_of())
    found.mean.backward()
    exact = [x.requires_grad_() for x in (hidden, weight)]
    expected = r_drop(*F.linear(*exact), target, settings_of())
    expected.mean.backward()
    assert found.total.dtype == torch.float32
    assert found.mean.item() == pytest.approx(expected.mean.item(), rel=2**-6)
    for one, other in zip(rough, exact, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert (one.grad - other.grad).norm() < 2**-5 * other.grad.norm()
