"""Convert a Marian model to ours: its ids to ours, its dimensions to the order of our positions."""

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle.alignment_head import AlignmentHead, Heads
from dragoman.models.config import TransformerConfig
from dragoman.pretrained.marian_model import Array, MarianModel, MarianVocabulary
from dragoman.pretrained.position_tables import residual_order
from dragoman.pretrained.subword_models import rewrite
from dragoman.text.subwords import Subwords
from dragoman.text.vocab import BOS, PAD, Vocab

_NEVER: Final = -100.0
"""The output bias of ids that are never written, which removes them from the softmax."""

_READS_RESIDUAL: Final = ("query", "key", "value", "expand")
"""Linear maps whose inputs are the residual stream; the outputs of all others are."""


@dataclass(frozen=True)
class ConvertedModel:
    """A Marian model in our form, and the id of the original for each of our ids."""

    config: TransformerConfig
    weights: dict[str, Array]
    vocab: Vocab
    alignment_heads: Heads
    source_order: list[int | None]
    target_order: list[int | None]


def convert(model: MarianModel, tag: str | None) -> ConvertedModel:
    """Return the model with our ids, our order of dimensions, and SentencePiece models for both sides."""
    source_order, target_order = (_id_order(side) for side in (model.source, model.target))
    source_model = Subwords(rewrite(model.source, source_order, tag))
    target_model = Subwords(rewrite(model.target, target_order, None))
    is_tied = model.output is model.target_embedding
    tie = "none" if not is_tied else "all" if model.source_embedding is model.target_embedding else "target"
    config = TransformerConfig.model_validate(
        {
            **model.shape.model_dump(),
            "tie": tie,
            "positions": "sinusoidal-halves" if model.positions == "marian" else "sinusoidal",
            "source_vocabulary": len(source_order),
            "target_vocabulary": len(target_order),
        }
    )
    return ConvertedModel(
        config,
        _convert_weights(model, source_order, target_order, config.tie),
        Vocab(source_model, target_model),
        _alignment_heads(model),
        source_order,
        target_order,
    )


def _id_order(vocabulary: MarianVocabulary) -> list[int | None]:
    """Return the original's id of each of our ids: PAD, BOS, EOS, UNK, and all others in their order."""
    specials = (vocabulary.pad, vocabulary.eos, vocabulary.unk)
    others = [number for number in range(len(vocabulary.tokens)) if number not in specials]
    return [vocabulary.pad, None, vocabulary.eos, vocabulary.unk, *others]


def _convert_weights(
    model: MarianModel,
    source_order: list[int | None],
    target_order: list[int | None],
    tie: Literal["all", "target", "none"],
) -> dict[str, Array]:
    order = residual_order(model.positions, model.shape.d_model)
    weights: dict[str, Array] = {
        "encoder.embedding.tokens.weight": _rows(model.source_embedding, source_order, model.start)[:, order]
    }
    if tie != "all":
        weights["decoder.embedding.tokens.weight"] = _rows(model.target_embedding, target_order, model.start)[:, order]
    if tie == "none":
        weights["projection.tokens.weight"] = _rows(model.output, target_order, model.start)[:, order]
    bias = _rows(model.output_bias[:, None], target_order, np.zeros(1, np.float32))[:, 0]
    bias[[PAD, BOS]] = _NEVER
    weights["projection.bias"] = bias
    for name, array in model.layers.items():
        weights[name] = _permute(name, array, order)
    return {name: np.ascontiguousarray(array) for name, array in weights.items()}


def _rows(matrix: Array, order: list[int | None], start: Array) -> Array:
    """Return the rows of our ids; the row of BOS is `start`, that of a PAD which the model lacks is zero."""
    numbers = np.array([-1 if number is None else number for number in order])
    rows: Array = matrix[numbers]
    rows[numbers < 0] = 0.0
    rows[BOS] = start
    return rows


def _permute(name: str, array: Array, order: NDArray[np.int64]) -> Array:
    """Return a weight with its dimensions of the residual stream in our order."""
    *_, owner, part = name.split(".")
    if owner in _READS_RESIDUAL:
        return array[:, order] if part == "weight" else array
    return array[order]  # rows of output and contract, their biases, and norms


def _alignment_heads(model: MarianModel) -> Heads:
    if model.alignment_layer is None:
        return ()
    return (AlignmentHead(layer=f"decoder.layers.{model.alignment_layer}.cross_attention", head=0),)


def map_ids(ids: list[int], order: list[int | None]) -> list[int]:
    """Return the original's ids of our ids, none of which is BOS."""
    numbers: list[Any] = [order[number] for number in ids]
    assert None not in numbers
    return numbers
