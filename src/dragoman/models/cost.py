"""What a model costs before it is built: parameters, FLOPs and memory by part, from its config alone, without torch.

The conventions, which the tests hold against torch's own counter: a multiply-add is 2 FLOPs; only matrix products
count; the backward pass costs twice the forward pass. Attention grows with the square of the length, so FLOPs are those
of sentences of a stated length.
"""

from dataclasses import dataclass
from typing import Final

from dragoman.models.config import ModelConfig, RecurrentConfig, TransformerConfig
from dragoman.models.part import Part
from dragoman.models.recurrent_cost import recurrent_parts
from dragoman.models.transformer_cost import transformer_parts

SENTENCE: Final = 30
"""Tokens of a sentence where nothing else is said: about what newspaper sentences have in subwords."""

BATCH: Final = 25_000
"""Source tokens of a training step, and as many target tokens (section 5.1)."""

FLOAT32: Final = 4
"""Bytes of a number."""


@dataclass(frozen=True)
class Memory:
    """Bytes, all in float32."""

    weights: int
    gradients: int
    adam: int
    """Its two running means."""
    activations: int
    """An estimate: the large tensors kept for the backward pass, without the attention weights, which the fused kernels
    never hold, and without what the allocator adds.
    """
    cache_per_source_token: int
    """What a step-by-step decoder keeps of each source token in each row."""
    cache_per_target_token: int
    """And of each token it has written; zero for a recurrent decoder."""
    cache_per_sentence: int
    """And whatever the lengths: the state of a recurrent decoder."""

    @property
    def training(self) -> int:
        """All that a training step needs at once."""
        return self.weights + self.gradients + self.adam + self.activations


def parts(config: ModelConfig) -> tuple[Part, ...]:
    """The model's bill, part by part."""
    match config:
        case TransformerConfig():
            return transformer_parts(config)
        case RecurrentConfig():
            return recurrent_parts(config)


def parameters(config: ModelConfig) -> int:
    """How many numbers are learned; a matrix that is used twice counts once."""
    return sum(part.parameters for part in parts(config))


def forward_flops(config: ModelConfig, source: int = SENTENCE, target: int = SENTENCE) -> int:
    """FLOPs of one teacher-forced sentence pair of these lengths."""
    return 2 * sum(part.products.at(source, target) for part in parts(config))


def inference_flops(config: ModelConfig, source: int = SENTENCE, target: int = SENTENCE) -> dict[str, float]:
    """FLOPs by part for each target token when it is written greedily, step by step, the reading of the source shared
    out among the tokens. A beam multiplies the decoder's part of it.
    """
    return {part.name: 2 * part.products.stepwise(source, target) / target for part in parts(config)}


def training_flops(config: ModelConfig, tokens: int = BATCH, length: int = SENTENCE) -> float:
    """FLOPs of one training step on this many source tokens and as many target tokens."""
    return 3 * forward_flops(config, length, length) * tokens / length


def memory(config: ModelConfig, tokens: int = BATCH, length: int = SENTENCE) -> Memory:
    """Bytes to train on steps of this many source tokens and as many target tokens, and to decode."""
    bill = parts(config)
    weights = FLOAT32 * sum(part.parameters for part in bill)
    kept = sum(part.kept.at(length, length) for part in bill)
    return Memory(
        weights=weights,
        gradients=weights,
        adam=2 * weights,
        activations=round(FLOAT32 * kept * tokens / length),
        cache_per_source_token=FLOAT32 * sum(part.cached.source for part in bill),
        cache_per_target_token=FLOAT32 * sum(part.cached.target for part in bill),
        cache_per_sentence=FLOAT32 * sum(part.cached.sentence for part in bill),
    )
