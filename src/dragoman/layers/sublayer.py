"""Residual connections around sub-layers, and the feed-forward sub-layer (section 3 of the paper)."""

from typing import Literal, assert_never

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.device import autocast_dtype
from dragoman.layers.dropout import Dropout

Norm = Literal["post", "pre"]
Activation = Literal["relu", "swish", "gelu", "gelu-sigmoid"]
Hidden = Float[Tensor, "batch n d_model"]


class Residual(nn.Module):
    """A residual connection: LayerNorm(x + Dropout(f(x))), or with norm="pre" x + Dropout(f(LayerNorm(x)))."""

    def __init__(self, d_model: int, dropout: float, norm: Norm, epsilon: float) -> None:
        super().__init__()
        self.place = norm
        self.norm = nn.LayerNorm(d_model, eps=epsilon)
        self.dropout = Dropout(dropout)

    def enter(self, x: Hidden) -> Hidden:
        """Return the input of the sub-layer: `x`, or LayerNorm(x) with norm="pre".

        Under autocast the input is cast once here instead of once per matrix product.
        """
        read: Tensor = x if self.place == "post" else self.norm(x)
        dtype = autocast_dtype(x.device)
        return read if dtype is None else read.to(dtype)

    def join(self, x: Hidden, output: Hidden) -> Hidden:
        """Return `x` plus the sub-layer output after dropout; with norm="post" the sum is normalised."""
        total: Tensor = x + self.dropout(output)
        if self.place == "pre":
            return total
        normed: Tensor = self.norm(total)
        return normed


class FeedForward(nn.Module):
    """The feed-forward network: max(0, x W1 + b1) W2 + b2 at each position, or another activation than max(0, x).

    `dropout` applies after the activation; the paper has no dropout there.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0, activation: Activation = "relu") -> None:
        super().__init__()
        self.activation = activation
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Hidden) -> Hidden:
        contracted: Tensor = self.contract(self.dropout(activate(self.expand(x), self.activation)))
        return contracted


def activate(x: Hidden, activation: Activation) -> Hidden:
    """Return the activation of `x`, which ReLU overwrites.

    `gelu` is x Phi(x) with the normal distribution function Phi; `gelu-sigmoid` is Marian's approximation of it.
    """
    match activation:
        case "relu":
            return F.relu(x, inplace=True)
        case "swish":
            return F.silu(x)
        case "gelu":
            return F.gelu(x)
        case "gelu-sigmoid":
            return x * (1.702 * x).sigmoid()
    assert_never(activation)
