"""What surrounds every sub-layer, and the sub-layer that is not attention (sections 3.1, 3.3, 5.4)."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.layers.dropout import Dropout

Norm = Literal["post", "pre"]
Hidden = Float[Tensor, "batch n d_model"]


class Residual(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))), or with norm="pre" x + Dropout(Sublayer(LayerNorm(x)))."""

    def __init__(self, d_model: int, dropout: float, norm: Norm, epsilon: float) -> None:
        super().__init__()
        self.place = norm
        self.norm = nn.LayerNorm(d_model, eps=epsilon)
        self.dropout = Dropout(dropout)

    def enter(self, x: Hidden) -> Hidden:
        """What the sub-layer reads. Where autocast would round it for each matrix that it meets, it is rounded once."""
        read: Tensor = x if self.place == "post" else self.norm(x)
        kind = x.device.type
        return read.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else read

    def join(self, x: Hidden, output: Hidden) -> Hidden:
        """The stream `x` after the sub-layer's output has been added to it."""
        total: Tensor = x + self.dropout(output)
        if self.place == "pre":
            return total
        normed: Tensor = self.norm(total)
        return normed


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2 at each position. The paper mentions no dropout after the ReLU; it is an option."""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Hidden) -> Hidden:
        contracted: Tensor = self.contract(self.dropout(F.relu(self.expand(x), inplace=True)))
        return contracted
