"""Moving averages, against a loop that keeps every weight."""

import pytest
import torch
from torch import nn

from dragoman.training.averages import MovingAverage, copy_weights, set_weights


def layer() -> nn.Linear:
    torch.manual_seed(4)
    return nn.Linear(5, 3).double()


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_the_moving_average_is_the_sum_of_all_weights_with_fading_shares(decay: float) -> None:
    model = layer()
    average = MovingAverage(model, decay)
    weights, decays = [model.weight.detach().clone()], [1.0]
    for n in range(1, 41):
        with torch.no_grad():
            model.weight.add_(torch.randn(3, 5, dtype=torch.float64))
        average.update(model)
        weights.append(model.weight.detach().clone())
        decays.append(min(decay, (1 + n) / (10 + n)))
    expected = torch.zeros(3, 5, dtype=torch.float64)
    for number, weight in enumerate(weights):
        share = 1.0 - decays[number] if number else 1.0
        for later in decays[number + 1 :]:
            share *= later
        expected += share * weight
    torch.testing.assert_close(average.weights["weight"], expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(average.weights["bias"], layer().bias)


def test_it_does_not_follow_the_model_by_itself() -> None:
    model = layer()
    average = MovingAverage(model, 0.9)
    with torch.no_grad():
        model.weight.fill_(7.0)
    assert torch.equal(average.weights["weight"], layer().weight)


def test_weights_that_were_copied_can_be_put_back_bitwise() -> None:
    model = layer()
    kept = copy_weights(model)
    with torch.no_grad():
        model.weight.mul_(3.0)
        model.bias.fill_(torch.nan)
    set_weights(model, kept)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), layer().parameters(), strict=True))


def test_a_matrix_that_serves_twice_is_copied_once() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    assert list(copy_weights(model)) == ["0.weight"]
