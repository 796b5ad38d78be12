"""What a model of each family is made of. No torch here: a plan or a bundle is read without it."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from dragoman.config import Config

Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=1)]


class TransformerShape(Config):
    """The paper's model (section 3) but for its vocabulary. The defaults are its base model; a departure is a field."""

    family: Literal["transformer"] = Field("transformer", description="the paper's family")
    d_model: Count = Field(512, description="width of every layer's input and output")
    d_ff: Count = Field(2048, description="inner width of the feed-forward sub-layers")
    num_heads: Count = Field(8, description="attention heads, h in the paper")
    num_encoder_layers: Count = Field(6, description="encoder layers, N in the paper")
    num_decoder_layers: Count = Field(6, description="decoder layers, N in the paper")
    d_k: Count | None = Field(
        None, description="width of a query and a key in one head; d_model / num_heads if not given"
    )
    d_v: Count | None = Field(None, description="width of a value in one head; d_model / num_heads if not given")
    attention_bias: bool = Field(
        False, description="biases in the Q, K, V and output projections; the paper draws none"
    )
    norm: Literal["post", "pre"] = Field(
        "post",
        description="post: after each residual sum, as the paper; pre: before each sub-layer and after each stack",
    )
    norm_epsilon: float = Field(1e-6, gt=0.0, description="added to the variance in LayerNorm; the paper gives none")
    dropout: Rate = Field(0.1, description="on each sub-layer's output and on embedding + position (section 5.4)")
    attention_dropout: Rate = Field(0.0, description="on the attention weights; not in the paper")
    activation_dropout: Rate = Field(0.0, description="after the ReLU; not in the paper")
    tie: Literal["all", "target", "none"] = Field(
        "all",
        description="which matrices are one: all = source embedding, target embedding and output projection, as the "
        "paper; target = the last two; none",
    )
    positions: Literal["sinusoidal", "sinusoidal-halves", "learned"] = Field(
        "sinusoidal",
        description="the paper's sinusoids; tensor2tensor's layout of them; or learned vectors (Table 3, row E)",
    )
    max_positions: Count = Field(1024, description="the longest sequence the model takes, in tokens")

    @model_validator(mode="after")
    def _fits(self) -> "TransformerShape":
        if self.d_model % self.num_heads and (self.d_k is None or self.d_v is None):
            raise ValueError(
                f"d_model {self.d_model} is not a multiple of num_heads {self.num_heads}: give d_k and d_v"
            )
        return self

    @property
    def key_width(self) -> int:
        """d_k, given or derived."""
        return self.d_k or self.d_model // self.num_heads

    @property
    def value_width(self) -> int:
        """d_v, given or derived."""
        return self.d_v or self.d_model // self.num_heads


class TransformerConfig(TransformerShape):
    """The paper's model for a vocabulary."""

    source_vocabulary: Count = Field(description="number of source token ids")
    target_vocabulary: Count = Field(description="number of target token ids")

    @model_validator(mode="after")
    def _ties(self) -> "TransformerConfig":
        check_tie(self.tie, self.source_vocabulary, self.target_vocabulary)
        return self


class RecurrentShape(Config):
    """The encoder-decoders on the road to attention: Sutskever, Cho, Bahdanau, Luong; but for their vocabulary."""

    family: Literal["recurrent"] = Field("recurrent", description="the family before it")
    cell: Literal["gru", "lstm"] = Field("gru", description="the recurrent cell")
    d_model: Count = Field(
        512, description="width of a state; a bidirectional encoder gives half of it to each direction"
    )
    d_embedding: Count = Field(512, description="width of a token vector")
    num_layers: Count = Field(1, description="layers of the encoder and of the decoder")
    bidirectional: bool = Field(True, description="the encoder reads the source in both directions")
    context: Literal["first", "every", "bahdanau", "luong"] = Field(
        "bahdanau",
        description="how the decoder sees the source. first: as its first state only (Sutskever 2014); every: one "
        "fixed vector at every step (Cho 2014); bahdanau: attention by the previous state, before the step; luong: "
        "attention by the current state, after it",
    )
    score: Literal["additive", "dot", "general", "concat"] = Field(
        "additive", description="how a state is compared with the source: additive is Bahdanau's, the others Luong's"
    )
    d_score: Count | None = Field(
        None, description="inner width of the additive and concat scores; d_model if not given"
    )
    locality: Literal["global", "local-m", "local-p"] = Field(
        "global",
        description="Luong: see the whole source; a window around the current position; or around a predicted one, "
        "re-weighted by a Gaussian",
    )
    window: Count = Field(10, description="Luong's D: how far the window of local attention reaches to either side")
    input_feeding: bool = Field(True, description="Luong: the attentional vector is part of the next step's input")
    dropout: Rate = Field(0.2, description="on embeddings, between recurrent layers, and before the output")
    tie: Literal["all", "target", "none"] = Field(
        "none", description="which of source embedding, target embedding and output projection are one matrix"
    )

    @model_validator(mode="after")
    def _fits(self) -> "RecurrentShape":
        if self.bidirectional and self.d_model % 2:
            raise ValueError(f"a bidirectional encoder needs an even d_model, not {self.d_model}")
        if self.context != "luong" and self.locality != "global":
            raise ValueError(f"locality: {self.locality} is Luong's: it needs context: luong, not {self.context}")
        if self.context == "bahdanau" and self.score != "additive":
            raise ValueError(f"context: bahdanau scores additively; for score: {self.score} use context: luong")
        if self.context == "luong" and self.score == "additive":
            raise ValueError("context: luong needs score: dot, general or concat")
        return self


class RecurrentConfig(RecurrentShape):
    """A recurrent encoder-decoder for a vocabulary."""

    source_vocabulary: Count = Field(description="number of source token ids")
    target_vocabulary: Count = Field(description="number of target token ids")

    @model_validator(mode="after")
    def _ties(self) -> "RecurrentConfig":
        check_tie(self.tie, self.source_vocabulary, self.target_vocabulary)
        return self


def check_tie(tie: str, source_vocabulary: int, target_vocabulary: int) -> None:
    """One matrix for both sides needs one vocabulary for both."""
    if tie == "all" and source_vocabulary != target_vocabulary:
        raise ValueError(
            f"tie: all needs one vocabulary for both sides, not {source_vocabulary} "
            f"and {target_vocabulary} tokens; use tie: target"
        )


ModelShape = Annotated[TransformerShape | RecurrentShape, Field(discriminator="family")]
"""A model before its vocabulary is known: what a recipe describes."""

ModelConfig = Annotated[TransformerConfig | RecurrentConfig, Field(discriminator="family")]
"""Any model: `family` says which."""


def sized(shape: TransformerShape | RecurrentShape, source: int, target: int) -> TransformerConfig | RecurrentConfig:
    """The model of this shape for vocabularies of so many ids."""
    kind = TransformerConfig if isinstance(shape, TransformerShape) else RecurrentConfig
    return kind.model_validate({**shape.model_dump(), "source_vocabulary": source, "target_vocabulary": target})
