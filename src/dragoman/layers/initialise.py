"""Weight initialisation. The paper does not specify the initial weights; this file follows its authors' code."""

from torch import nn


def xavier(module: nn.Module) -> None:
    """Initialise every linear layer with Xavier uniform weights (Glorot and Bengio, 2010) and zero biases.

    Embeddings and layer norms stay unchanged. Q, K and V are separate matrices, so the range of each follows from its
    own shape, not from the shape of the three stacked.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
