"""The parameters of a model as plain arrays by name, and back: each once, however often the model uses it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn


def weights_of(model: nn.Module) -> dict[str, NDArray[np.float32]]:
    """A copy of every parameter, in float32. A matrix with several names (`tie`) comes once, under its first."""
    kept = set(model.state_dict())
    named = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    assert kept == named, f"saved but no parameters: {kept - named}"
    return {
        name: parameter.detach().to("cpu", torch.float32, copy=True).numpy()
        for name, parameter in model.named_parameters()
    }


def load_weights(model: nn.Module, weights: Mapping[str, NDArray[Any]]) -> None:
    """Give every parameter its value; refuses weights that are too many, too few or of another shape."""
    parameters = dict(model.named_parameters())
    wrong = dict.fromkeys(parameters.keys() - weights.keys(), "has no value")
    wrong |= dict.fromkeys(weights.keys() - parameters.keys(), "is not a parameter of the model")
    for name in parameters.keys() & weights.keys():
        expected, given = tuple(parameters[name].shape), weights[name].shape
        if expected != given:
            wrong[name] = f"has shape {given} instead of {expected}"
    if wrong:
        name = min(wrong)
        raise ValueError(f"these weights are of another model: {name} {wrong[name]}; {len(wrong)} such in all")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(torch.tensor(weights[name]))
