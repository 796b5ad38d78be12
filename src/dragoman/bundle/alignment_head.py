"""The alignment heads of a bundle: attention heads whose weights are used as word alignment."""

from typing import Literal

from pydantic import Field

from dragoman.config import Config

Rows = Literal["written", "read"]
"""The decoding step whose attention row aligns a target token: where the token is output, or where it is input."""

Measure = Literal["attention", "norm"]
"""The attention weights, or the norms of the weighted, transformed values (Kobayashi et al., 2020)."""


class AlignmentHead(Config):
    """An attention head that is used for word alignment."""

    layer: str = Field(description="qualified name of the attention layer, such as decoder.layers.2.cross_attention")
    head: int | None = Field(ge=0, description="index of the head, from 0; null: the mean of all heads of the layer")
    rows: Rows = Field("written", description="decoding step that aligns a token: the token is its output or input")
    measure: Measure = Field("attention", description="attention weights, or norms of the weighted values")

    @property
    def layer_number(self) -> int:
        """The layer index of a Transformer's head, such as 2 for decoder.layers.2.cross_attention."""
        return int(self.layer.split(".")[2])


Heads = tuple[AlignmentHead, ...]
