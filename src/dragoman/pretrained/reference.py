"""The formulas of Marian's Transformer in NumPy, on the original's weights, ids and order of dimensions.

Slow, without batches and without a cache: an import is compared with it before it is written.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.pretrained.marian_model import Array, MarianModel
from dragoman.pretrained.position_tables import position_table

_erf = np.frompyfunc(math.erf, 1, 1)


class ReferenceModel:
    """A Marian model that computes log-probabilities by the original formulas, in the data type of its weights."""

    def __init__(self, model: MarianModel) -> None:
        self._model = model
        table = position_table(model.positions, model.shape.max_positions, model.shape.d_model)
        tables: Sequence[NDArray[Any]] = model.trained_positions or (table, table)
        self._source_positions, self._target_positions = tables
        self._attention: dict[str, NDArray[Any]] = {}

    def log_probabilities(self, source: list[int], target: list[int], never: Sequence[int] = ()) -> NDArray[Any]:
        """Return the log-probabilities [steps, vocabulary] before each target token; ids in `never` have none."""
        model = self._model
        logits = self._hidden(source, target) @ model.output.T + model.output_bias
        logits[:, list(never)] = -np.inf
        shifted = logits - logits.max(axis=1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))

    def cross_attention(self, source: list[int], target: list[int]) -> NDArray[Any]:
        """Return the decoder's attention to the source, [layers, heads, steps, source]."""
        self._hidden(source, target)
        layers = range(self._model.shape.num_decoder_layers)
        return np.stack([self._attention[f"decoder.layers.{number}.cross_attention"] for number in layers])

    def _hidden(self, source: list[int], target: list[int]) -> Array:
        """Return the decoder's output before each target token, and keep all attention weights."""
        model = self._model
        memory = self._stack("encoder", _embed(model.source_embedding[source], self._source_positions), None)
        embedded = np.concatenate([model.start[None], model.target_embedding[target[:-1]]])
        return self._stack("decoder", _embed(embedded, self._target_positions), memory)

    def _stack(self, side: str, x: Array, memory: Array | None) -> Array:
        shape = self._model.shape
        for number in range(shape.num_encoder_layers if side == "encoder" else shape.num_decoder_layers):
            layer = f"{side}.layers.{number}"
            inside, around = f"{layer}.self_attention", "around_attention" if memory is None else "around_self"
            x = self._residual(
                f"{layer}.{around}", x, lambda y, name=inside: self._attend(name, y, y, side == "decoder")
            )
            if memory is not None:
                inside = f"{layer}.cross_attention"
                x = self._residual(
                    f"{layer}.around_cross", x, lambda y, name=inside, seen=memory: self._attend(name, y, seen, False)
                )
            inside = f"{layer}.feed_forward"
            x = self._residual(f"{layer}.around_feed_forward", x, lambda y, name=inside: self._feed_forward(name, y))
        return self._norm(side, x) if shape.norm == "pre" else x

    def _residual(self, name: str, x: Array, sublayer: Any) -> Array:
        if self._model.shape.norm == "pre":
            return np.asarray(x + sublayer(self._norm(name, x)))
        return self._norm(name, x + sublayer(x))

    def _norm(self, name: str, x: Array) -> Array:
        centred = x - x.mean(axis=1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + self._model.shape.norm_epsilon)
        layers = self._model.layers
        return np.asarray(centred / deviation * layers[f"{name}.norm.weight"] + layers[f"{name}.norm.bias"])

    def _attend(self, name: str, x: Array, memory: Array, is_causal: bool) -> Array:
        num_heads = self._model.shape.num_heads
        query, key, value = (
            self._linear(f"{name}.{part}", read).reshape(len(read), num_heads, -1).transpose(1, 0, 2)
            for part, read in (("query", x), ("key", memory), ("value", memory))
        )
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[2])
        if is_causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights = weights / weights.sum(axis=2, keepdims=True)
        self._attention[name] = weights
        heads = (weights @ value).transpose(1, 0, 2).reshape(len(x), -1)
        return self._linear(f"{name}.output", heads)

    def _feed_forward(self, name: str, x: Array) -> Array:
        return self._linear(f"{name}.contract", self._activate(self._linear(f"{name}.expand", x)))

    def _activate(self, x: Array) -> Array:
        match self._model.shape.activation:
            case "relu":
                return np.maximum(x, 0)
            case "swish":
                return np.asarray(x / (1 + np.exp(-x)))
            case "gelu":
                return np.asarray(x * (1 + _erf(x / math.sqrt(2)).astype(x.dtype)) / 2)
            case "gelu-sigmoid":
                return np.asarray(x / (1 + np.exp(-1.702 * x)))

    def _linear(self, name: str, x: Array) -> Array:
        layers = self._model.layers
        return np.asarray(x @ layers[f"{name}.weight"].T + layers[f"{name}.bias"])


def _embed(rows: Array, positions: NDArray[Any]) -> Array:
    scaled = rows * rows.dtype.type(math.sqrt(rows.shape[1]))
    return np.asarray(scaled + positions[: len(rows)].astype(rows.dtype))
