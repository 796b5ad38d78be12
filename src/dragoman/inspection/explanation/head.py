"""One head of a Transformer at one position: its arithmetic done again, from the matrices and what they were given."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from torch import nn

from dragoman.attention.multihead import MultiHead
from dragoman.inspection.explanation.look import Call, Look, array
from dragoman.inspection.explanation.place import Place
from dragoman.inspection.explanation.weights import Recomputed, exact_weights
from dragoman.inspection.trace import Kind
from dragoman.layers.embedding import Embedding
from dragoman.layers.sublayer import Residual
from dragoman.models.transformer import Transformer

Hidden = Float[ndarray, " d_model"]

AROUND: dict[Kind, str] = {"encoder": "around_attention", "decoder": "around_self", "cross": "around_cross"}


@dataclass(frozen=True, eq=False)
class Head:
    """What happened to one row of one head in one pass."""

    model: Transformer
    place: Place
    row: int
    number: int
    seen: Look

    @staticmethod
    def watch(place: Place) -> list[str]:
        """The modules whose work must be seen in the pass."""
        parts = (f"{place.name}.{part}" for part in ("query", "key", "output"))
        return [_embedding(place), *parts, f"{_around(place)}.norm"]

    @cached_property
    def recomputed(self) -> Recomputed:
        """From the position's vector, those it looks at, and the head's own columns of W_Q, W_K and W_V."""
        looked_at = array(self._call(f"{self.place.name}.key").given[0][0])
        query, keys, values = (
            self._projected(*one) for one in (("query", self.entering), ("key", looked_at), ("value", looked_at))
        )
        scores = keys @ query / math.sqrt(len(query))
        visible = self.seen.visible
        weights = exact_weights(scores, visible)
        return Recomputed(query, keys, values, scores, visible, weights, weights @ values)

    @cached_property
    def added(self) -> Float[ndarray, "heads d_model"]:
        """What each head adds to the position: its mix of values through its own rows of W_O, without the bias."""
        mixed = np.einsum("hk,hkv->hv", self.seen.weights, self.seen.value)
        mixed[self.number] = self.recomputed.output
        return np.asarray(np.einsum("hv,mhv->hm", mixed, self.rows_of_output))

    @cached_property
    def rows_of_output(self) -> Float[ndarray, "d_model heads d_v"]:
        """W_O by head; a row of the paper's matrix is a column of torch's."""
        weight = array(self.attention.output.weight)
        return weight.reshape(len(weight), self.attention.num_heads, -1)

    @property
    def embedded(self) -> Hidden:
        """What entered the first layer at this position."""
        return array(self._call(_embedding(self.place)).made[0, self.row])

    @property
    def entering(self) -> Hidden:
        """What the attention reads at this position."""
        return array(self._call(f"{self.place.name}.query").given[0][0, self.row])

    @property
    def stream(self) -> Hidden:
        """What the position holds before the sub-layer, and what goes around it."""
        return array(self._norm.given[0][0, self.row]) if self.residual.place == "pre" else self.entering

    @property
    def found(self) -> Float[ndarray, " d_v"]:
        """What this head has found, before W_O: the model's own."""
        joined = array(self._call(f"{self.place.name}.output").given[0][0, self.row])
        return np.asarray(joined.reshape(self.attention.num_heads, -1)[self.number])

    @property
    def output(self) -> Hidden:
        """What all heads add together, with the bias if there is one: the model's own."""
        return array(self._call(f"{self.place.name}.output").made[0, self.row])

    @property
    def leaving(self) -> Hidden:
        """What the position holds after the sub-layer. A pre-norm model leaves the sum as it is."""
        if self.residual.place == "pre":
            return np.asarray(self.stream + self.output)
        return array(self._norm.made[0, self.row])

    @property
    def attention(self) -> MultiHead:
        """Its matrices."""
        attention = self.model.get_submodule(self.place.name)
        assert isinstance(attention, MultiHead)
        return attention

    @property
    def embedding(self) -> Embedding:
        """The tables where it all begins."""
        embedding = self.model.get_submodule(_embedding(self.place))
        assert isinstance(embedding, Embedding)
        return embedding

    @property
    def residual(self) -> Residual:
        """What stands around the attention."""
        residual = self.model.get_submodule(_around(self.place))
        assert isinstance(residual, Residual)
        return residual

    @property
    def biased(self) -> bool:
        """Whether the projections have biases, which the paper does not draw."""
        return self.model.config.attention_bias

    def columns(self, projection: str) -> tuple[Float[ndarray, "d d_model"], Float[ndarray, " d"]]:
        """Its columns of W_Q, W_K or W_V, which are rows in torch, and their biases."""
        linear = getattr(self.attention, projection)
        assert isinstance(linear, nn.Linear)
        width = linear.out_features // self.attention.num_heads
        mine = slice(self.number * width, (self.number + 1) * width)
        bias = np.zeros(width) if linear.bias is None else array(linear.bias)[mine]
        return array(linear.weight)[mine], bias

    def _projected(self, projection: str, x: Float[ndarray, "*n d_model"]) -> Float[ndarray, "*n d"]:
        weight, bias = self.columns(projection)
        return np.asarray(x @ weight.T + bias)

    @property
    def _norm(self) -> Call:
        return self._call(f"{_around(self.place)}.norm")

    def _call(self, module: str) -> Call:
        """In a pass over whole texts every module is called once."""
        (call,) = self.seen.calls[module]
        return call


def _around(place: Place) -> str:
    return f"{place.name.rpartition('.')[0]}.{AROUND[place.kind]}"


def _embedding(place: Place) -> str:
    return "encoder.embedding" if place.kind == "encoder" else "decoder.embedding"
