"""Position encodings that are added to the embeddings: sinusoids, learned vectors or nothing (section 3.5)."""

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from dragoman.layers.sinusoids import sinusoids, sinusoids_in_halves

Layout = Literal["sinusoidal", "sinusoidal-halves", "learned", "rotary", "none"]


class Positions(nn.Module):
    """A table with one vector per position below `max_positions`; longer sequences raise ValueError.

    `sinusoidal` is the paper's formula: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same angle.
    `sinusoidal-halves` is the layout of tensor2tensor and fairseq: all sines, then all cosines, exponent i/(d/2-1).
    `learned` is row E of the paper's Table 3. `rotary` adds nothing, as attention knows the positions, and neither does
    `none`.
    """

    table: Tensor

    def __init__(self, layout: Layout, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.layout = layout
        self.max_positions = max_positions
        if layout == "learned":
            self.table = nn.Parameter(torch.empty(max_positions, d_model))
            nn.init.normal_(self.table, std=d_model**-0.5)
        else:
            build = {"sinusoidal": sinusoids, "sinusoidal-halves": sinusoids_in_halves}.get(layout, _zeros)
            # Not from_numpy, which ignores the device that torch.device sets as a context.
            table = torch.tensor(build(max_positions, d_model), dtype=torch.get_default_dtype())
            self.register_buffer("table", table, persistent=False)  # computed, so no part of what a model saves

    def forward(self, start: int, length: int) -> Float[Tensor, "length d_model"]:
        """Return the position vectors of `length` positions, beginning at `start`."""
        if start + length > self.max_positions:
            wrong = f"a sequence of {start + length} tokens is longer than this model's {self.max_positions} positions"
            raise ValueError(f"{wrong}: split the text, or train with a larger max_positions")
        return self.table[start : start + length]


def _zeros(max_positions: int, d_model: int) -> NDArray[np.float64]:
    return np.zeros((max_positions, d_model))
