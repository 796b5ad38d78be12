"""Convert the parameters of a model to numpy arrays by name, and back; a shared parameter is stored once."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dragoman.device import copy_to_host
from dragoman.models.config import ModelPart


def weights_of(model: nn.Module) -> dict[str, NDArray[np.float32]]:
    """Return a float32 copy of every parameter by name; a tied matrix appears once, under its first name."""
    kept = set(model.state_dict())
    named = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    assert kept == named, f"saved but no parameters: {kept - named}"
    return {name: copy_to_host(parameter).to(torch.float32).numpy() for name, parameter in model.named_parameters()}


def load_weights(model: nn.Module, weights: Mapping[str, NDArray[Any]]) -> None:
    """Set every parameter; raise ValueError if weights are missing, unknown or of another shape."""
    parameters = dict(model.named_parameters())
    wrong = dict.fromkeys(parameters.keys() - weights.keys(), "has no value")
    wrong |= dict.fromkeys(weights.keys() - parameters.keys(), "is not a parameter of the model")
    for name in parameters.keys() & weights.keys():
        expected, actual = tuple(parameters[name].shape), weights[name].shape
        if expected != actual:
            wrong[name] = f"has shape {actual} instead of {expected}"
    if wrong:
        (name, problem), count = min(wrong.items()), len(wrong)
        raise ValueError(f"the weights do not fit the model: {name} {problem} ({count} differ): load matching weights")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(torch.tensor(weights[name]))


def freeze_parts(model: nn.Module, parts: Sequence[ModelPart]) -> None:
    """Freeze the parameters of some parts of a model, so that training does not change them.

    A matrix that embeds tokens belongs to the embeddings, even if it is the output projection too; a separate output
    projection belongs to the decoder.
    """
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Embedding)]
    tables = {f"{name}.weight" for name in names if not name.startswith("projection.")}
    for name, parameter in model.named_parameters():
        part = "embeddings" if name in tables else "encoder" if name.startswith("encoder.") else "decoder"
        if part in parts:
            parameter.requires_grad_(False)
