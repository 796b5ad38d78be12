"""Convert weights to CTranslate2's variables; projections with the same input are concatenated."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.export.head_order import move_heads_first
from dragoman.layers.sinusoids import sinusoids, sinusoids_in_halves
from dragoman.models.config import TransformerConfig

Weights = Mapping[str, NDArray[np.float32]]
Named = Iterator[tuple[str, NDArray[Any]]]

_ACTIVATIONS: Final = {"relu": 0, "swish": 2, "gelu": 3, "gelu-sigmoid": 4}
"""The numbers of activations in CTranslate2."""


def variables(
    config: TransformerConfig, weights: Weights, heads: tuple[AlignmentHead, ...] = ()
) -> dict[str, NDArray[Any]]:
    """Return CTranslate2's variables by name, with the alignment heads first in their layer."""
    weights = move_heads_first(config, weights, heads)
    return {
        name: array
        for part in (
            _settings(config, heads),
            _embeddings(config, weights),
            _stack("encoder", config.num_encoder_layers, config, weights),
            _stack("decoder", config.num_decoder_layers, config, weights),
        )
        for name, array in part
    }


def _settings(config: TransformerConfig, heads: tuple[AlignmentHead, ...]) -> Named:
    """Yield CTranslate2's scalar settings for the encoder and the decoder."""
    for side in ("encoder", "decoder"):
        yield f"{side}/num_heads", np.array(config.num_heads, np.int16)
        yield f"{side}/pre_norm", _flag(config.norm == "pre")
        yield f"{side}/activation", np.array(_ACTIVATIONS[config.activation], np.int8)
        yield f"{side}/scale_embeddings", _flag(True)
    yield "encoder/embeddings_merge", np.array(0, np.int8)
    yield "encoder/multi_query_attention", _flag(False)
    for name in ("alibi", "alibi_use_positive_positions", "scale_alibi", "start_from_zero_embedding"):
        yield f"decoder/{name}", _flag(False)
    layer = heads[0].layer_number if heads else -1
    count = config.num_heads if any(head.head is None for head in heads) else max(1, len(heads))
    yield "decoder/alignment_layer", np.array(layer, np.int16)
    yield "decoder/alignment_heads", np.array(count, np.int16)


def _embeddings(config: TransformerConfig, weights: Weights) -> Named:
    source = weights["encoder.embedding.tokens.weight"]
    target = source if config.tie == "all" else weights["decoder.embedding.tokens.weight"]
    output = weights["projection.tokens.weight"] if config.tie == "none" else target
    yield "encoder/embeddings_0/weight", source
    yield "decoder/embeddings/weight", target
    yield "decoder/projection/weight", output
    if config.output_bias:
        yield "decoder/projection/bias", weights["projection.bias"]
    for side in ("encoder", "decoder"):
        yield f"{side}/position_encodings/encodings", _positions(side, config, weights)


def _positions(side: str, config: TransformerConfig, weights: Weights) -> NDArray[np.float32]:
    match config.positions:
        case "learned":
            return weights[f"{side}.embedding.positions.table"]
        case "sinusoidal":
            return sinusoids(config.max_positions, config.d_model).astype(np.float32)
        case "sinusoidal-halves":
            return sinusoids_in_halves(config.max_positions, config.d_model).astype(np.float32)
        case "rotary" | "none":
            raise AssertionError("an obstacle of obstacles.py")


def _stack(side: str, num_layers: int, config: TransformerConfig, weights: Weights) -> Named:
    for number in range(num_layers):
        ours, theirs = f"{side}.layers.{number}", f"{side}/layer_{number}"
        around = "around_attention" if side == "encoder" else "around_self"
        yield from _linear(weights, f"{theirs}/self_attention/linear_0", _projections(ours, "self", "qkv"))
        yield from _linear(weights, f"{theirs}/self_attention/linear_1", [f"{ours}.self_attention.output"])
        yield from _norm(weights, f"{theirs}/self_attention", f"{ours}.{around}.norm")
        if side == "decoder":
            yield from _linear(weights, f"{theirs}/attention/linear_0", _projections(ours, "cross", "q"))
            yield from _linear(weights, f"{theirs}/attention/linear_1", _projections(ours, "cross", "kv"))
            yield from _linear(weights, f"{theirs}/attention/linear_2", [f"{ours}.cross_attention.output"])
            yield from _norm(weights, f"{theirs}/attention", f"{ours}.around_cross.norm")
        yield from _linear(weights, f"{theirs}/ffn/linear_0", [f"{ours}.feed_forward.expand"])
        yield from _linear(weights, f"{theirs}/ffn/linear_1", [f"{ours}.feed_forward.contract"])
        yield from _norm(weights, f"{theirs}/ffn", f"{ours}.around_feed_forward.norm")
    if config.norm == "pre":
        yield from _norm(weights, side, f"{side}.norm")


def _projections(layer: str, kind: str, which: str) -> list[str]:
    names = {"q": "query", "k": "key", "v": "value"}
    return [f"{layer}.{kind}_attention.{names[letter]}" for letter in which]


def _linear(weights: Weights, theirs: str, ours: Sequence[str]) -> Named:
    yield f"{theirs}/weight", np.concatenate([weights[f"{name}.weight"] for name in ours])
    if f"{ours[0]}.bias" in weights:
        yield f"{theirs}/bias", np.concatenate([weights[f"{name}.bias"] for name in ours])


def _norm(weights: Weights, theirs: str, ours: str) -> Named:
    yield f"{theirs}/layer_norm/gamma", weights[f"{ours}.weight"]
    yield f"{theirs}/layer_norm/beta", weights[f"{ours}.bias"]


def _flag(value: bool) -> NDArray[np.int8]:
    return np.array(value, np.int8)
