"""Convert a Marian model to ours, and back: its ids to ours, its dimensions to the order of our positions.

Back, a model keeps our ids: the decoder begins with BOS, which Marian's models begin with padding.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle import Bundle
from dragoman.bundle.alignment_head import Heads
from dragoman.bundle.file_names import WEIGHTS
from dragoman.models.config import ModelConfig, TransformerConfig, TransformerShape
from dragoman.pretrained.layer_names import layer_names
from dragoman.pretrained.marian_model import (
    EOS_TOKEN,
    UNK_TOKEN,
    Array,
    MarianModel,
    MarianVocabulary,
    Origin,
    Positions,
)
from dragoman.pretrained.position_tables import residual_order
from dragoman.pretrained.subword_models import rewrite
from dragoman.text.subwords import Subwords
from dragoman.text.vocab import BOS, EOS, PAD, UNK, Vocab

_NEVER: Final = -100.0
"""The output bias of ids that are never written, which removes them from the softmax. Training moves it a little."""

_POSITIONS: Final[dict[Positions, str]] = {"hf": "sinusoidal", "marian": "sinusoidal-halves"}
"""Our layout of each kind of sinusoids; `residual_order` turns one into the other."""

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


def convert(model: MarianModel, tags: Collection[str]) -> ConvertedModel:
    """Return the model with our ids, our order of dimensions, and SentencePiece models for both sides.

    The source side has the language tags `tags`, of which one begins every source.
    """
    source_order, target_order = (_id_order(side) for side in (model.source, model.target))
    source_model = _subwords(model.source, source_order, tags)
    target_model = _subwords(model.target, target_order, ())
    is_tied = model.output is model.target_embedding
    tie = "none" if not is_tied else "all" if model.source_embedding is model.target_embedding else "target"
    config = TransformerConfig.model_validate(
        {
            **model.shape.model_dump(),
            "tie": tie,
            "positions": "learned" if model.trained_positions else _POSITIONS[model.positions],
            "source_vocabulary": len(source_order),
            "target_vocabulary": len(target_order),
        }
    )
    return ConvertedModel(
        config,
        _convert_weights(model, source_order, target_order, config.tie),
        Vocab(source_model, target_model),
        model.alignment_heads,
        source_order,
        target_order,
    )


def _id_order(vocabulary: MarianVocabulary) -> list[int | None]:
    """Return the original's id of each of our ids: PAD, BOS, EOS, UNK, and all others in their order."""
    specials = [vocabulary.pad, vocabulary.bos, vocabulary.eos, vocabulary.unk]
    return [*specials, *(number for number in range(len(vocabulary.tokens)) if number not in specials)]


def _subwords(vocabulary: MarianVocabulary, order: list[int | None], tags: Collection[str]) -> Subwords:
    """Return the SentencePiece model of our ids: the model's own, if it has them, as in an export of ours."""
    own = Subwords(vocabulary.proto)
    names = [None if number is None else vocabulary.tokens[number] for number in order]
    if (
        own.specials == (PAD, BOS, EOS, UNK)
        and names == [own.piece(number) for number in range(own.size)]
        and {own.piece(number) for number in own.tags.values()} == set(tags)
    ):
        return own
    return Subwords(rewrite(vocabulary, order, tags))


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
    bias[:EOS] = np.where(bias[:EOS] < _NEVER / 2, bias[:EOS], _NEVER)
    weights["projection.bias"] = bias
    for side, table in zip(("encoder", "decoder"), model.trained_positions or (), strict=False):
        weights[f"{side}.embedding.positions.table"] = table[:, order]
    for name, array in model.layers.items():
        weights[name] = _permute(name, array, order)
    return {name: np.ascontiguousarray(array) for name, array in weights.items()}


def _rows(matrix: Array, order: list[int | None], start: Array) -> Array:
    """Return the rows of our ids; of those which the model lacks, the row of BOS is `start`, that of PAD is zero."""
    numbers = np.array([-1 if number is None else number for number in order])
    rows: Array = matrix[numbers]
    rows[numbers < 0] = 0.0
    if order[BOS] is None:
        rows[BOS] = start
    return rows


def _permute(name: str, array: Array, order: NDArray[np.int64]) -> Array:
    """Return a weight with its dimensions of the residual stream in our order."""
    *_, owner, part = name.split(".")
    if owner in _READS_RESIDUAL:
        return array[:, order] if part == "weight" else array
    return array[order]  # rows of output and contract, their biases, and norms


def find_obstacle(model: ModelConfig) -> str | None:
    """Return the reason why a model cannot be written for transformers, as a Marian or a Pegasus model, or None."""
    if model.family != "transformer":
        return f"transformers has no {model.family} models like this one"
    if model.norm == "pre" and model.tie != "all":
        return f"norms before each sub-layer (norm: pre) need tie: all in transformers, not tie: {model.tie}"
    if model.positions in ("rotary", "none"):
        return f"Marian's models in transformers add positions to embeddings, not positions: {model.positions}"
    width = model.d_model // model.num_heads
    if model.d_model % model.num_heads or (model.key_width, model.value_width) != (width, width):
        widths = f"d_k {model.key_width} and d_v {model.value_width}"
        return f"transformers has d_k = d_v = d_model / num_heads, not {widths}"
    if model.d_model % 2:
        return f"d_model {model.d_model} is odd, and the positions of transformers need an even one"
    return None


def convert_back(bundle: Bundle, search: dict[str, Any]) -> MarianModel:
    """Return a bundle's model as a Marian model with our ids, transformers' order of dimensions, and all biases.

    `search` has the beam size and the exponent of the length penalty. The model has no obstacle of `find_obstacle`.
    """
    config = bundle.info.model
    assert isinstance(config, TransformerConfig)
    assert find_obstacle(config) is None
    weights = bundle.weights()
    kinds: dict[str, Positions] = {layout: kind for kind, layout in _POSITIONS.items()}
    positions = kinds.get(config.positions, "marian")  # trained positions have any order of dimensions
    order = np.argsort(residual_order(positions, config.d_model))
    source = np.ascontiguousarray(weights["encoder.embedding.tokens.weight"][:, order])
    target, output = source, source
    if config.tie != "all":
        target = output = np.ascontiguousarray(weights["decoder.embedding.tokens.weight"][:, order])
    if config.tie == "none":
        output = np.ascontiguousarray(weights["projection.tokens.weight"][:, order])
    tables = [weights.get(f"{side}.embedding.positions.table") for side in ("encoder", "decoder")]
    return MarianModel(
        origin=Origin(bundle.folder.name, "Dragoman", WEIGHTS, bundle.model_sha256, bundle.card.licence),
        shape=TransformerShape.model_validate(config.model_dump(include=set(TransformerShape.model_fields))),
        positions=positions,
        layers=_convert_layers_back(config, weights, order),
        source_embedding=source,
        target_embedding=target,
        output=output,
        output_bias=weights.get("projection.bias", np.zeros(len(output), np.float32)),
        start=target[BOS],
        source=_vocabulary(bundle.vocab.source),
        target=_vocabulary(bundle.vocab.target),
        search=search,
        languages=(bundle.info.source_language, bundle.info.target_language),
        alignment_heads=_alignment_heads(bundle),
        trained_positions=None if tables[0] is None or tables[1] is None else (tables[0], tables[1]),
    )


def _convert_layers_back(
    config: TransformerConfig, weights: dict[str, Array], order: NDArray[np.int64]
) -> dict[str, Array]:
    """Return the weights of both stacks in the order of transformers; a bias that the model lacks is zero."""
    layers = {}
    for name in layer_names(config):
        weight = weights[f"{name.ours}.weight"]
        bias = weights.get(f"{name.ours}.bias", np.zeros(len(weight), np.float32))
        for part, array in (("weight", weight), ("bias", bias)):
            key = f"{name.ours}.{part}"
            layers[key] = np.ascontiguousarray(_permute(key, array, order))
    return layers


def _vocabulary(subwords: Subwords) -> MarianVocabulary:
    tokens = subwords.pieces
    if len(set(tokens)) < len(tokens) or (tokens[EOS], tokens[UNK]) != (EOS_TOKEN, UNK_TOKEN):
        fix = "train the vocabulary with Dragoman"
        raise ValueError(f"the vocabulary has a token twice, or other names for {EOS_TOKEN} and {UNK_TOKEN}: {fix}")
    return MarianVocabulary(tokens, subwords.proto, PAD, BOS)


def _alignment_heads(bundle: Bundle) -> Heads:
    """Return the alignment heads if a configuration can name them: single heads, one row rule, attention weights."""
    heads = bundle.info.alignment_heads
    is_named = all(head.head is not None and head.measure == "attention" for head in heads)
    return heads if is_named and len({head.rows for head in heads}) == 1 else ()


def map_ids(ids: list[int], order: list[int | None]) -> list[int]:
    """Return the original's ids of our ids, none of which is BOS."""
    numbers: list[Any] = [order[number] for number in ids]
    assert None not in numbers
    return numbers
