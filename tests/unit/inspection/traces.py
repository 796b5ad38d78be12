"""A trace made by hand: small, of any tokens, with maps that sum to 1."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from dragoman.alignment.tokens import Tokens
from dragoman.inspection.trace import ModelIdentity, Trace

Traced = Callable[..., Trace]


def side(pieces: Sequence[str]) -> Tokens:
    """As SentencePiece has it: a piece with the mark begins a word; the last piece is EOS."""
    text = "".join(pieces[:-1]).replace("▁", " ").strip()
    begins = np.array([i == 0 or piece.startswith("▁") for i, piece in enumerate(pieces[:-1])], np.int64)
    numbers = (begins.cumsum() - 1).tolist()
    ends = np.cumsum([len(piece) for piece in pieces[:-1]], dtype=np.int64).tolist()
    spans = [*zip([0, *ends], ends, strict=False), (len(text), len(text))]
    return Tokens(text, tuple(range(5, 5 + len(pieces))), tuple(pieces), tuple(spans), (*numbers, -1))


@pytest.fixture
def traced() -> Traced:
    def make(
        source: Sequence[str] = ("▁Wie", "▁geht", "s", "▁dir", "?", "</s>"),
        target: Sequence[str] = ("▁How", "▁are", "▁you", "</s>"),
        num_layers: int = 2,
        num_heads: int = 3,
        free: bool = True,
        norms: bool = True,
    ) -> Trace:
        random = np.random.default_rng(7)

        def maps(rows: int, keys: int) -> np.ndarray:
            drawn = random.exponential(size=(num_heads, rows, keys))
            return (drawn / drawn.sum(-1, keepdims=True)).astype(np.float32)

        attention: dict[str, np.ndarray] = {}
        for i in range(num_layers):
            attention[f"encoder.layers.{i}.self_attention"] = maps(len(source), len(source))
            attention[f"decoder.layers.{i}.self_attention"] = maps(len(target), len(target))
            attention[f"decoder.layers.{i}.cross_attention"] = maps(len(target), len(source))
        return Trace(
            source=side(source),
            target=side(target),
            free=free,
            log_probabilities=np.zeros(len(target), np.float32),
            alternative_ids=np.zeros((len(target), 0), np.int64),
            alternative_log_probabilities=np.zeros((len(target), 0), np.float32),
            attention=attention,
            norms={name: 2 * weights for name, weights in attention.items()} if norms else {},
            model=ModelIdentity(sha256="0123456789abcdef" * 4, vocabulary="", family="transformer"),
        )

    return make
