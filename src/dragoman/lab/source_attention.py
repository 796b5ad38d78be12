"""The words of a source sentence and the encoder's self-attention on it, for experiments that count over sentences."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.alignment.tokens import Tokens
from dragoman.attention.kinds import kind_of
from dragoman.attention.tap import Tap, seams
from dragoman.bundle import Bundle
from dragoman.models.seq2seq import Seq2Seq


@torch.no_grad()
def source_attention(
    bundle: Bundle, model: Seq2Seq[Any, Any], text: str
) -> tuple[Tokens, Float[Tensor, "heads source source"]]:
    """Return the tokens of a source, and the weights of all heads of all encoder layers, lowest layer first."""
    tokens = Tokens.from_text(bundle.vocab.source, text)
    with Tap(model) as maps:
        model.encode(torch.tensor([tokens.ids]))
    names = [name for name, _ in seams(model) if kind_of(name) == "encoder"]
    return tokens, torch.cat([maps[name][0] for name in names])


def word_places(tokens: Tokens) -> Int[Tensor, " source"]:
    """Return the index of the word that each token belongs to; -1 for EOS and for a full stop after a word."""
    pairs = zip(tokens.pieces, tokens.words, strict=True)
    return torch.tensor([-1 if piece == "." else word for piece, word in pairs])
