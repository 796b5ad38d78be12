"""Heads in another order. CTranslate2 shows the attention of a layer's first heads, so those to be seen go first."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dragoman.data.alignment import AlignmentHead
from dragoman.models.config import TransformerConfig


def layer_number(head: AlignmentHead) -> int:
    """Of decoder.layers.2.cross_attention, the 2."""
    return int(head.layer.split(".")[2])


def in_front(
    config: TransformerConfig, weights: Mapping[str, NDArray[np.float32]], heads: tuple[AlignmentHead, ...]
) -> dict[str, NDArray[np.float32]]:
    """The same model, whose layer has these heads first: their order is nothing that a layer's output depends on."""
    chosen = [head.head for head in heads if head.head is not None]
    if not chosen or len(chosen) < len(heads):  # all of them are to be seen
        return dict(weights)
    order = [*chosen, *(number for number in range(config.num_heads) if number not in chosen)]
    width = config.d_model // config.num_heads
    rows = np.concatenate([np.arange(number * width, (number + 1) * width) for number in order])
    layer, changed = heads[0].layer, dict(weights)
    for name in ("query", "key", "value"):
        for part in ("weight", "bias"):
            if f"{layer}.{name}.{part}" in weights:
                changed[f"{layer}.{name}.{part}"] = weights[f"{layer}.{name}.{part}"][rows]
    changed[f"{layer}.output.weight"] = weights[f"{layer}.output.weight"][:, rows]
    return changed
