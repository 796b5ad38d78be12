import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.text.vocab import PAD
from dragoman.training.config import LossConfig
from dragoman.training.loss import label_smoothed, projected_label_smoothed

BATCH, LENGTH, D_MODEL, VOCABULARY = 3, 5, 7, 11
pytestmark = pytest.mark.usefixtures("float64")


def example() -> tuple[Tensor, Tensor, Tensor]:
    hidden = torch.randn(BATCH, LENGTH, D_MODEL, requires_grad=True)
    weight = torch.randn(VOCABULARY, D_MODEL, requires_grad=True)
    target = torch.randint(1, VOCABULARY, (BATCH, LENGTH))
    target[1, 3:] = PAD
    target[2, 1:] = PAD
    return hidden, weight, target


def by_definition(logits: Tensor, target: Tensor, epsilon: float, spread: str) -> float:
    """-sum_k q_k log p_k, one token and one word of the vocabulary at a time."""
    total = 0.0
    for row, truth in zip(logits.flatten(0, 1).tolist(), target.flatten().tolist(), strict=True):
        if truth == PAD:
            continue
        log_p = torch.tensor(row).log_softmax(0).tolist()
        for k, value in enumerate(log_p):
            if spread == "all":
                q = epsilon / VOCABULARY + (1.0 - epsilon if k == truth else 0.0)
            else:
                q = 1.0 - epsilon if k == truth else epsilon / (VOCABULARY - 1)
            total -= q * value
    return total


@pytest.mark.parametrize("spread", ["all", "others"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.3])
def test_the_loss_is_what_its_definition_says(spread: str, epsilon: float) -> None:
    hidden, weight, target = example()
    config = LossConfig.model_validate({"label_smoothing": epsilon, "spread": spread})
    loss = label_smoothed(F.linear(hidden, weight), target, config)
    assert loss.total.item() == pytest.approx(
        by_definition(F.linear(hidden, weight), target, epsilon, spread), rel=1e-12
    )
    assert loss.num_tokens == 5 + 3 + 1
    assert loss.mean.item() == pytest.approx(loss.total.item() / 9, rel=1e-12)


def test_spread_over_all_is_torchs_label_smoothing() -> None:
    hidden, weight, target = example()
    logits = F.linear(hidden, weight)
    torchs = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=0.1)
    assert label_smoothed(logits, target).mean.item() == pytest.approx(torchs.item(), rel=1e-12)


@pytest.mark.parametrize("spread", ["all", "others"])
@pytest.mark.parametrize("rows_at_a_time", [1, 2, 4, 100])
def test_the_projected_loss_and_its_gradients_are_the_plain_ones(
    spread: str, rows_at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.training.loss.CHUNK", rows_at_a_time * VOCABULARY)
    hidden, weight, target = example()
    config = LossConfig.model_validate({"label_smoothing": 0.2, "spread": spread})
    plain = label_smoothed(F.linear(hidden, weight), target, config)
    wanted = torch.autograd.grad(3.0 * plain.mean, (hidden, weight))
    projected = projected_label_smoothed(hidden, weight, target, config)
    got = torch.autograd.grad(3.0 * projected.mean, (hidden, weight))
    assert projected.num_tokens == plain.num_tokens
    torch.testing.assert_close(projected.total, plain.total, rtol=1e-12, atol=0.0)
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=1e-12)


def test_the_projected_loss_has_the_bias_of_the_projection() -> None:
    hidden, weight, target = example()
    bias = torch.randn(VOCABULARY, requires_grad=True)
    plain = label_smoothed(F.linear(hidden, weight, bias), target)
    wanted = torch.autograd.grad(3.0 * plain.mean, (hidden, weight, bias))
    projected = projected_label_smoothed(hidden, weight, target, bias=bias)
    torch.testing.assert_close(projected.total, plain.total, rtol=1e-12, atol=0.0)
    got = torch.autograd.grad(3.0 * projected.mean, (hidden, weight, bias))
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=1e-12)


def test_extreme_logits_stay_finite() -> None:
    hidden = torch.tensor([[[1e4]]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0], [0.5]], requires_grad=True)
    loss = projected_label_smoothed(hidden, weight, torch.tensor([[1]]), LossConfig(label_smoothing=0.0))
    loss.total.backward()
    assert loss.total.item() == pytest.approx(2e4)
    assert hidden.grad is not None
    assert hidden.grad.item() == pytest.approx(2.0)


def test_under_autocast_the_projected_loss_is_within_bfloat16_of_the_true_one() -> None:
    torch.set_default_dtype(torch.float32)
    hidden, weight, target = example()
    with torch.autocast("cpu", torch.bfloat16):
        loss = projected_label_smoothed(hidden, weight, target)
    loss.mean.backward()
    exact = label_smoothed(F.linear(hidden.double(), weight.double()), target)
    assert loss.total.dtype == torch.float32
    assert loss.mean.item() == pytest.approx(exact.mean.item(), rel=2**-7)
    assert hidden.grad is not None
    assert hidden.grad.dtype == torch.float32


def test_gradients_are_given_once() -> None:
    hidden, weight, target = example()
    total = projected_label_smoothed(hidden, weight, target).total
    torch.autograd.grad(total, (hidden, weight), retain_graph=True)
    with pytest.raises(RuntimeError, match="compute the loss again"):
        torch.autograd.grad(total, (hidden, weight))


def test_a_batch_of_nothing_but_padding_costs_nothing() -> None:
    hidden, weight, _ = example()
    loss = projected_label_smoothed(hidden, weight, torch.full((BATCH, LENGTH), PAD))
    assert (loss.total.item(), loss.num_tokens) == (0.0, 0)
