"""Adam with the paper's numbers."""

import torch
from torch import nn

from dragoman.training.config import OptimizerConfig
from dragoman.training.optimizer import Adam

RATES = (0.1, 0.02, 0.3)


def layer() -> nn.Linear:
    torch.manual_seed(4)
    return nn.Linear(5, 3)


def trained(model: nn.Module, optimizer: torch.optim.Optimizer, rates: tuple[float, ...] = RATES) -> list[torch.Tensor]:
    torch.manual_seed(6)
    for rate in rates:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        model(torch.randn(7, 5)).pow(3).sum().backward()
        optimizer.step()
    return [weight.detach() for weight in model.parameters()]


def test_it_is_torchs_adam_with_the_papers_numbers() -> None:
    ours, theirs = layer(), layer()
    found = trained(ours, Adam(ours, OptimizerConfig()))
    expected = trained(theirs, torch.optim.Adam(theirs.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


def test_the_first_update_is_worked_out_by_hand() -> None:
    model = layer()
    before = [weight.detach().clone() for weight in model.parameters()]
    config = OptimizerConfig(beta1=0.5, beta2=0.75, epsilon=0.125)
    after = trained(model, Adam(model, config), (0.1,))
    for old, new, weight in zip(before, after, model.parameters(), strict=True):
        gradient = weight.grad
        assert gradient is not None
        # after one update both means, corrected, are the gradient and its square
        torch.testing.assert_close(new, old - 0.1 * gradient / (gradient.abs() + 0.125), rtol=1e-5, atol=1e-7)


def test_only_matrices_decay_and_apart_from_the_gradient() -> None:
    plain, decayed = layer(), layer()
    without = trained(plain, Adam(plain, OptimizerConfig()), (0.1,))
    with_decay = trained(decayed, Adam(decayed, OptimizerConfig(weight_decay=0.5)), (0.1,))
    torch.testing.assert_close(with_decay[0], without[0] - 0.1 * 0.5 * layer().weight, rtol=1e-5, atol=1e-6)
    assert torch.equal(with_decay[1], without[1])


def test_a_rate_of_nothing_changes_nothing() -> None:
    model = layer()
    trained(model, Adam(model, OptimizerConfig(weight_decay=0.5)), (0.0,))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), layer().parameters(), strict=True))


def test_the_learning_rate_is_that_of_all_groups_and_the_state_can_be_loaded() -> None:
    model, other = layer(), layer()
    optimizer, fresh = Adam(model, OptimizerConfig()), Adam(other, OptimizerConfig())
    optimizer.set_rate(0.25)
    assert {group["lr"] for group in optimizer.param_groups} == {0.25}
    trained(model, optimizer)
    fresh.load_state_dict(optimizer.state_dict())
    for name, tensors in optimizer.state_dict().items():
        assert all(torch.equal(tensor, fresh.state_dict()[name][key]) for key, tensor in tensors.items())
