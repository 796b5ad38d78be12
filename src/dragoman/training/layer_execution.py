"""Other ways to run the layers of a model that compute the same: with less memory, or compiled."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def recompute_layers(layers: Sequence[nn.Module]) -> None:
    """Make each layer keep only its input for the backward pass, which then computes the layer again.

    Dropout draws the same numbers again. With N layers, the activations take about 1/N of the memory, and an update
    takes about a third longer.
    """
    for layer in layers:
        layer.forward = partial(_recomputed, layer.forward)


def _recomputed(forward: Callable[..., Any], *inputs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*inputs)
    return checkpoint(forward, *inputs, use_reentrant=False)


def compile_layers(layers: Sequence[nn.Module]) -> None:
    """Compile each layer when it is first called, for batches of any shape; layers of one kind share the result."""
    for layer in layers:
        layer.compile(dynamic=True)
