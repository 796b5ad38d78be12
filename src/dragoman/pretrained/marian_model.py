"""A Marian model as its package describes it: its own ids, its own order of dimensions, our names of weights."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from dragoman.bundle.alignment_head import AlignmentHead, Heads, Rows
from dragoman.models.config import TransformerShape

Positions = Literal["hf", "marian"]
"""Sinusoids in halves, sines first. hf: exponent 2i/d, as in transformers and CTranslate2's converter; marian: exponent
i / (d/2 - 1), as in Marian, which trained most models."""

Array = NDArray[np.float32]
Weights = Mapping[str, Array]

EOS_TOKEN = "</s>"
UNK_TOKEN = "<unk>"
PAD_TOKEN = "<pad>"


def cross_head(layer: int, head: int = 0, rows: Rows = "written") -> AlignmentHead:
    """Return a head of a decoder layer, both counted from 0. Marian trains the first head of a layer to align."""
    return AlignmentHead(layer=f"decoder.layers.{layer}.cross_attention", head=head, rows=rows)


@dataclass(frozen=True)
class MarianVocabulary:
    """One side of the vocabulary: the tokens of the model by id, and the SentencePiece model that cuts the text."""

    tokens: tuple[str, ...]
    proto: bytes
    pad: int | None
    """The id of padding; None if the model has none."""
    bos: int | None = None
    """The id of the decoder's first input, if it has no other use; None: it has no separate token."""

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each token."""
        return {token: number for number, token in enumerate(self.tokens)}

    @property
    def eos(self) -> int:
        """The id of the end of a sentence."""
        return self.ids[EOS_TOKEN]

    @property
    def unk(self) -> int:
        """The id of unknown tokens."""
        return self.ids[UNK_TOKEN]

    @property
    def never(self) -> list[int]:
        """The ids that are never written: padding and the decoder's first input."""
        return [number for number in (self.pad, self.bos) if number is not None]

    @property
    def tags(self) -> list[str]:
        """The language tags, such as >>deu<<, of which one begins every source."""
        return [token for token in self.tokens if token.startswith(">>") and token.endswith("<<")]

    @cached_property
    def _processor(self) -> sentencepiece.SentencePieceProcessor:
        return sentencepiece.SentencePieceProcessor(model_proto=self.proto)

    def encode(self, text: str, tag: str | None = None) -> list[int]:
        """Return the ids of a text with EOS, as transformers and OPUS-MT's scripts do it: pieces, then their ids."""
        pieces: list[str] = self._processor.encode(text, out_type=str)
        tokens = [*([tag] if tag else []), *pieces]
        return [*(self.ids.get(token, self.unk) for token in tokens), self.eos]

    @cached_property
    def pieces(self) -> list[str]:
        """The pieces of the SentencePiece model that the model knows."""
        processor = self._processor
        kinds = (processor.is_control, processor.is_unknown, processor.is_unused, processor.is_byte)
        numbers = [n for n in range(processor.get_piece_size()) if not any(kind(n) for kind in kinds)]
        return [piece for piece in map(processor.id_to_piece, numbers) if piece in self.ids]

    def made_up_sentences(self, count: int, seed: int = 6) -> list[str]:
        """Return sentences of random pieces of this side."""
        draw, decode = random.Random(seed), self._processor.decode_pieces
        return [str(decode(draw.choices(self.pieces, k=draw.randint(2, 16)))) for _ in range(count)]


@dataclass(frozen=True)
class Origin:
    """Where a model comes from."""

    name: str
    kind: str
    """The format, such as `OPUS-MT package`."""
    file: str
    """The file of the weights."""
    sha256: str
    licence: str | None


@dataclass(frozen=True)
class MarianModel:
    """A Marian Transformer with its own ids and its own order of dimensions."""

    origin: Origin
    shape: TransformerShape
    """The hyperparameters; `positions` is not used, as `conversion.py` chooses the layout."""
    positions: Positions
    layers: dict[str, Array]
    """The weights of both stacks by our names."""
    source_embedding: Array
    target_embedding: Array
    output: Array
    output_bias: Array
    start: Array
    """The embedding of the decoder's first input."""
    source: MarianVocabulary
    target: MarianVocabulary
    search: dict[str, Any]
    languages: tuple[str | None, str | None]
    alignment_heads: Heads
    """The heads that the package names as trained to align words; none if it names none."""
    trained_positions: tuple[Array, Array] | None = None
    """The position tables of encoder and decoder, if they are not computed; then `positions` is not used."""

    @property
    def is_joint(self) -> bool:
        """True if both sides have the same tokens."""
        return self.source.tokens == self.target.tokens
