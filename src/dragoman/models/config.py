"""The config of each model family. Does not import torch, so that recipes and bundles are read without torch.

Code outside `models` never checks the family: it uses the properties of the config classes and of Seq2Seq.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter, model_validator

from dragoman.config import Config

Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=1)]

ModelPart = Literal["embeddings", "encoder", "decoder"]
"""A part of a model that can be frozen. Embeddings are those of tokens, with an output projection that shares them."""


class Vocabularies(Config):
    """The sizes of a model's vocabularies."""

    source_vocabulary: Count = Field(description="number of source token ids")
    target_vocabulary: Count = Field(description="number of target token ids")

    @model_validator(mode="after")
    def _fit_tie(self) -> "Vocabularies":
        source, target = self.source_vocabulary, self.target_vocabulary
        if getattr(self, "tie", None) == "all" and source != target:
            raise ValueError(f"`tie: all` needs equal vocabulary sizes, not {source} and {target}: use `tie: target`")
        return self


class TransformerShape(Config):
    """The hyperparameters of a Transformer, except vocabulary sizes; the defaults are the paper's base model."""

    family: Literal["transformer"] = Field("transformer", description="model family: Transformer")
    d_model: Count = Field(512, description="dimension of every layer's input and output")
    d_ff: Count = Field(2048, description="inner dimension of the feed-forward sub-layers")
    num_heads: Count = Field(8, description="attention heads per layer, h in the paper")
    num_encoder_layers: Count = Field(6, description="encoder layers, N in the paper")
    num_decoder_layers: Count = Field(6, description="decoder layers, N in the paper")
    d_k: Count | None = Field(None, description="dimension of a query or key per head; default: d_model / num_heads")
    d_v: Count | None = Field(None, description="dimension of a value per head; default: d_model / num_heads")
    attention_bias: bool = Field(False, description="use biases in Q, K, V and output projections; not in the paper")
    output_bias: bool = Field(False, description="use a bias in the output projection to logits; not in the paper")
    activation: Literal["relu", "swish", "gelu", "gelu-sigmoid"] = Field(
        "relu",
        description="activation of the feed-forward sub-layers. relu: the paper's; swish: x sigmoid(x); gelu: x "
        "Phi(x); gelu-sigmoid: x sigmoid(1.702 x), Marian's gelu",
    )
    norm: Literal["post", "pre"] = Field(
        "post",
        description="position of LayerNorm. post: after each residual sum, as in the paper; pre: before each sub-layer "
        "and after each stack",
    )
    norm_epsilon: float = Field(1e-6, gt=0.0, description="epsilon of LayerNorm; not given in the paper")
    dropout: Rate = Field(0.1, description="dropout rate on sub-layer outputs and embedding + position (section 5.4)")
    attention_dropout: Rate = Field(0.0, description="dropout rate on attention weights; not in the paper")
    activation_dropout: Rate = Field(0.0, description="dropout rate after the activation; not in the paper")
    tie: Literal["all", "target", "none"] = Field(
        "all",
        description="weight tying. all: both embeddings and the output projection share one matrix, as in the paper; "
        "target: the target embedding and the output projection share one; none: separate matrices",
    )
    positions: Literal["sinusoidal", "sinusoidal-halves", "learned", "rotary", "none"] = Field(
        "sinusoidal",
        description="position encoding. sinusoidal: the paper's; sinusoidal-halves: tensor2tensor's layout; learned: "
        "Table 3, row E; rotary: queries and keys of self-attention turn with their positions (Su et al., 2021); none: "
        "no positions",
    )
    max_positions: Count = Field(1024, description="maximum sequence length in tokens")

    @model_validator(mode="after")
    def _fits(self) -> "TransformerShape":
        if self.d_model % self.num_heads and (self.d_k is None or self.d_v is None):
            raise ValueError(
                f"d_model {self.d_model} is not a multiple of num_heads {self.num_heads}: give d_k and d_v"
            )
        if self.positions == "rotary" and self.key_width % 2:
            raise ValueError(f"positions: rotary turns pairs of numbers, and d_k is {self.key_width}: give an even d_k")
        return self

    @property
    def key_width(self) -> int:
        """The dimension of a query or key per head: d_k, by default d_model / num_heads."""
        return self.d_k or self.d_model // self.num_heads

    @property
    def value_width(self) -> int:
        """The dimension of a value per head: d_v, by default d_model / num_heads."""
        return self.d_v or self.d_model // self.num_heads

    @property
    def depth(self) -> str:
        """The number of encoder and decoder layers, such as `6+6 layers`."""
        return f"{self.num_encoder_layers}+{self.num_decoder_layers} layers"

    @property
    def dropouts(self) -> tuple[float, ...]:
        """All dropout rates of the model."""
        return (self.dropout, self.attention_dropout, self.activation_dropout)

    @property
    def cross_heads(self) -> tuple[int, ...]:
        """The number of heads of each cross-attention, lowest layer first."""
        return (self.num_heads,) * self.num_decoder_layers

    @property
    def has_layers(self) -> bool:
        """True if training can compile or recompute the model layer by layer (`Seq2Seq.layers`)."""
        return True

    @property
    def position_limit(self) -> int | None:
        """The maximum sequence length in tokens; None: unlimited."""
        return self.max_positions


class TransformerConfig(Vocabularies, TransformerShape):
    """The hyperparameters of a Transformer, including vocabulary sizes."""

    @property
    def summary(self) -> str:
        """A description of the model in one line."""
        return (
            f"Transformer, {self.depth}, d_model {self.d_model}, d_ff {self.d_ff}, {self.num_heads} heads "
            f"(d_k {self.key_width}, d_v {self.value_width}), dropout {self.dropout:g}, {self.positions} positions, "
            f"{self.target_vocabulary:,} token ids"
        )


class RecurrentShape(Config):
    """The hyperparameters of a Sutskever, Cho, Bahdanau or Luong model, except vocabulary sizes."""

    family: Literal["recurrent"] = Field("recurrent", description="model family: recurrent encoder-decoder")
    cell: Literal["gru", "lstm", "tanh"] = Field(
        "gru", description="type of the recurrent cells; tanh: tanh(W x + U h + b), without gates (Elman, 1990)"
    )
    d_model: Count = Field(512, description="dimension of a hidden state; half per direction if bidirectional")
    d_embedding: Count = Field(512, description="dimension of a token embedding")
    num_layers: Count = Field(1, description="number of layers in the encoder and in the decoder")
    bidirectional: bool = Field(True, description="encode the source in both directions")
    reverse_source: bool = Field(
        False, description="read the source from its last token to its first, as Sutskever did; EOS stays at the end"
    )
    context: Literal["first", "every", "bahdanau", "luong"] = Field(
        "bahdanau",
        description="how the decoder uses the source. first: as initial state only (Sutskever 2014); every: one fixed "
        "vector at every step (Cho 2014); bahdanau: attention with the previous state, before the step; luong: "
        "attention with the current state, after the step",
    )
    score: Literal[
        "additive", "dot", "general", "concat", "location", "cosine", "biased-general", "activated-general"
    ] = Field(
        "additive",
        description="attention score function. additive: Bahdanau's; dot, general, concat, location: Luong's; cosine: "
        "the cosine of query and key times a learned factor; biased-general: k . (W q + b); activated-general: "
        "tanh(q . W k + b)",
    )
    max_locations: Count = Field(
        50, description="source positions that the location score knows; later ones get no weight"
    )
    d_score: Count | None = Field(None, description="inner dimension of additive and concat scores; default: d_model")
    locality: Literal["global", "local-m", "local-p"] = Field(
        "global",
        description="source positions that Luong's attention sees. global: all; local-m: around the current position; "
        "local-p: around a predicted position",
    )
    window: Count = Field(10, description="positions on either side of the centre in local attention, D in the paper")
    input_feeding: bool = Field(True, description="feed Luong's attentional vector into the next step")
    dropout: Rate = Field(0.2, description="dropout rate on embeddings, between layers and before the output")
    tie: Literal["all", "target", "none"] = Field(
        "none",
        description="weight tying. all: both embeddings and the output projection share one matrix; target: the target "
        "embedding and the output projection share one; none: separate matrices",
    )

    @model_validator(mode="after")
    def _fits(self) -> "RecurrentShape":
        if self.bidirectional and self.d_model % 2:
            raise ValueError(f"d_model {self.d_model} is odd: give an even number, or bidirectional: false")
        if self.context != "luong" and self.locality != "global":
            raise ValueError(f"locality: {self.locality} does not fit context: {self.context}: use context: luong")
        if self.context == "bahdanau" and self.score != "additive":
            raise ValueError(f"score: {self.score} does not work with context: bahdanau: use score: additive")
        if self.context == "luong" and self.score == "additive":
            raise ValueError("score: additive does not work with context: luong: use score: dot, general or concat")
        if self.score == "location" and self.locality != "global":
            raise ValueError("score: location is a weight for each position, not for a window: use locality: global")
        return self

    @property
    def num_gates(self) -> int:
        """The number of matrices of inputs, and of states, in a cell."""
        return {"gru": 3, "lstm": 4, "tanh": 1}[self.cell]

    @property
    def num_held(self) -> int:
        """The number of vectors that a cell keeps between steps: its output and, in an LSTM, the memory cell."""
        return 2 if self.cell == "lstm" else 1

    @property
    def depth(self) -> str:
        """The number of encoder and decoder layers, such as `1+1 layers`."""
        return f"{self.num_layers}+{self.num_layers} layers"

    @property
    def dropouts(self) -> tuple[float, ...]:
        """All dropout rates of the model."""
        return (self.dropout,)

    @property
    def cross_heads(self) -> tuple[int, ...]:
        """The number of heads of each cross-attention, lowest layer first."""
        return (1,) if self.context in ("bahdanau", "luong") else ()

    @property
    def has_layers(self) -> bool:
        """True if training can compile or recompute the model layer by layer (`Seq2Seq.layers`)."""
        return False

    @property
    def position_limit(self) -> int | None:
        """The maximum sequence length in tokens; None: unlimited."""
        return None


class RecurrentConfig(Vocabularies, RecurrentShape):
    """The hyperparameters of a recurrent encoder-decoder, including vocabulary sizes."""

    @property
    def summary(self) -> str:
        """A description of the model in one line."""
        cell = self.cell if self.cell == "tanh" else self.cell.upper()
        direction = "bidirectional" if self.bidirectional else "forward"
        attention = f"{self.locality} attention with {self.score} score"
        context = {"first": "the source as first state", "every": "the source as one vector"}
        return (
            f"{cell}, {self.depth}, {direction} encoder, d_model {self.d_model}, "
            f"d_embedding {self.d_embedding}, {context.get(self.context, attention)}, dropout {self.dropout:g}, "
            f"{self.target_vocabulary:,} token ids"
        )


class ConvolutionalShape(Config):
    """The hyperparameters of a ConvS2S model, except vocabulary sizes; the defaults are its English-Romanian model."""

    family: Literal["convolutional"] = Field("convolutional", description="model family: convolutional, ConvS2S")
    d_model: Count = Field(512, description="dimension of every block's input and output")
    d_embedding: Count = Field(512, description="dimension of token embeddings, of keys and of values")
    kernel_size: Count = Field(3, description="positions that a convolution sees, k in the paper; an odd number")
    num_encoder_layers: Count = Field(20, description="encoder blocks")
    num_decoder_layers: Count = Field(20, description="decoder blocks, each with its own attention")
    weight_norm: bool = Field(
        True, description="weight normalisation: train length and direction of each row of a matrix (section 3.5)"
    )
    dropout: Rate = Field(0.1, description="dropout rate on embeddings, on the blocks' inputs and before the output")
    tie: Literal["all", "target", "none"] = Field(
        "none",
        description="weight tying. all: both embeddings and the output projection share one matrix; target: the target "
        "embedding and the output projection share one; none: separate matrices",
    )
    max_positions: Count = Field(1024, description="maximum sequence length in tokens: positions are learned")

    @model_validator(mode="after")
    def _fits(self) -> "ConvolutionalShape":
        if self.kernel_size % 2 == 0:
            raise ValueError(f"kernel_size {self.kernel_size} has no middle: give an odd number")
        return self

    @property
    def depth(self) -> str:
        """The number of encoder and decoder blocks, such as `20+20 layers`."""
        return f"{self.num_encoder_layers}+{self.num_decoder_layers} layers"

    @property
    def dropouts(self) -> tuple[float, ...]:
        """All dropout rates of the model."""
        return (self.dropout,)

    @property
    def cross_heads(self) -> tuple[int, ...]:
        """The number of heads of each cross-attention, lowest layer first."""
        return (1,) * self.num_decoder_layers

    @property
    def has_layers(self) -> bool:
        """True if training can compile or recompute the model layer by layer (`Seq2Seq.layers`)."""
        return True

    @property
    def position_limit(self) -> int | None:
        """The maximum sequence length in tokens; None: unlimited."""
        return self.max_positions


class ConvolutionalConfig(Vocabularies, ConvolutionalShape):
    """The hyperparameters of a ConvS2S model, including vocabulary sizes."""

    @property
    def summary(self) -> str:
        """A description of the model in one line."""
        return (
            f"ConvS2S, {self.depth}, d_model {self.d_model}, d_embedding {self.d_embedding}, kernels of "
            f"{self.kernel_size}, dropout {self.dropout:g}, {self.target_vocabulary:,} token ids"
        )


Family = Literal["transformer", "recurrent", "convolutional"]

ModelShape = Annotated[TransformerShape | RecurrentShape | ConvolutionalShape, Field(discriminator="family")]
"""The hyperparameters of a model, except vocabulary sizes, as in a recipe."""

ModelConfig = Annotated[TransformerConfig | RecurrentConfig | ConvolutionalConfig, Field(discriminator="family")]
"""The config of any model; `family` selects the class."""

FAMILIES: Final[Mapping[Family, type[TransformerConfig | RecurrentConfig | ConvolutionalConfig]]] = {
    "transformer": TransformerConfig,
    "recurrent": RecurrentConfig,
    "convolutional": ConvolutionalConfig,
}
"""The class of config of each family."""

_SHAPE: Final = TypeAdapter[ModelShape](ModelShape)


def with_vocabulary(shape: ModelShape, source: int, target: int) -> ModelConfig:
    """Return the model config with the hyperparameters of `shape` and the given vocabulary sizes."""
    fields = {**shape.model_dump(), "source_vocabulary": source, "target_vocabulary": target}
    return FAMILIES[shape.family].model_validate(fields)


def without_vocabulary(config: ModelConfig) -> ModelShape:
    """Return the hyperparameters of a model config, without the vocabulary sizes."""
    return _SHAPE.validate_python(config.model_dump(exclude={"source_vocabulary", "target_vocabulary"}))
