"""Reorder attention heads: CTranslate2 returns the attention of a layer's first heads."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle.alignment_head import Heads
from dragoman.models.config import TransformerConfig


def move_heads_first(
    config: TransformerConfig, weights: Mapping[str, NDArray[np.float32]], heads: Heads
) -> dict[str, NDArray[np.float32]]:
    """Return the weights with `heads` moved to the front of their layer, whose output does not change."""
    chosen = [head.head for head in heads if head.head is not None]
    if not chosen or len(chosen) < len(heads):  # all heads are to be shown
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
