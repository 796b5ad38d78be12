"""Where a token stands: sinusoids or learned vectors, added to the embedding (section 3.5)."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.layers.sinusoids import sinusoids, sinusoids_in_halves

Layout = Literal["sinusoidal", "sinusoidal-halves", "learned"]


class Positions(nn.Module):
    """A table with one vector for each position from 0 up to `max_positions`, beyond which it refuses.

    `sinusoidal` is the paper's: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same.
    `sinusoidal-halves` is the layout of tensor2tensor and fairseq: all sines, then all cosines, exponent i/(d/2-1).
    `learned` is Table 3's row E.
    """

    table: Tensor

    def __init__(self, layout: Layout, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.max_positions = max_positions
        if layout == "learned":
            self.table = nn.Parameter(torch.empty(max_positions, d_model))
            nn.init.normal_(self.table, std=d_model**-0.5)
        else:
            build = sinusoids if layout == "sinusoidal" else sinusoids_in_halves
            table = torch.from_numpy(build(max_positions, d_model)).to(torch.get_default_dtype())
            self.register_buffer("table", table, persistent=False)  # computed, so no part of what a model saves

    def forward(self, start: int, length: int) -> Float[Tensor, "length d_model"]:
        """The vectors of `length` positions from `start` on."""
        if start + length > self.max_positions:
            raise ValueError(
                f"a sequence of {start + length} tokens is longer than this model's {self.max_positions} positions; "
                "split the text, or train with a larger max_positions"
            )
        return self.table[start : start + length]
