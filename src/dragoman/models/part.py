"""A part of a model on paper: what it holds, computes and keeps, in closed form for any length of source and target."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Amount:
    """So much for a sentence pair, for each of its tokens, and for each pair of tokens where one looks at the other."""

    sentence: int = 0
    source: int = 0
    target: int = 0
    source_source: int = 0
    target_source: int = 0
    target_target: int = 0

    def at(self, source: int, target: int) -> int:
        """The amount for one pair of these lengths, the target known. Attention among its positions counts as the whole
        square, of which a mask then hides half.
        """
        return self._at(source, target, target * target)

    def stepwise(self, source: int, target: int) -> int:
        """The amount when the target is written token by token: each looks at itself and what came before it."""
        return self._at(source, target, target * (target + 1) // 2)

    def _at(self, source: int, target: int, looks_back: int) -> int:
        return (
            self.sentence
            + self.source * source
            + self.target * target
            + self.source_source * source * source
            + self.target_source * target * source
            + self.target_target * looks_back
        )


@dataclass(frozen=True)
class Part:
    """One line of a model's bill."""

    name: str
    parameters: int
    products: Amount = Amount()
    """Multiply-adds of its matrix products, forward. Sums, softmax, norms and dropout are not counted: they are few."""
    kept: Amount = Amount()
    """Numbers kept from the forward pass for the backward pass."""
    cached: Amount = Amount()
    """Numbers a decoder that writes step by step keeps between steps."""
