"""How weights begin. The paper does not say; this is what its authors' code does."""

from torch import nn


def xavier(module: nn.Module) -> None:
    """Every linear map uniform after Glorot and Bengio (2010), biases zero; embeddings and norms stay as made.

    Q, K and V are separate matrices here, so each is drawn for its own shape and not for the three stacked.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
