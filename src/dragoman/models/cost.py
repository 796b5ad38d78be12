"""Parameters, FLOPs and memory of each part of a model, computed from the config without torch.

Conventions, which tests compare with torch's counters: a multiply-add is 2 FLOPs; only matrix products count; the
backward pass costs twice the forward pass. Attention grows with the square of the length, so FLOPs are computed for a
given sentence length. A shared matrix is counted where it is used first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from dragoman.models.config import ConvolutionalConfig, ModelConfig, RecurrentConfig, TransformerConfig

SENTENCE: Final = 30
"""The default sentence length in tokens, typical of news text."""

BATCH: Final = 25_000
"""The number of source tokens, and of target tokens, per training step (section 5.1)."""

FLOAT32: Final = 4
"""Bytes per float32 number."""


@dataclass(frozen=True)
class Amount:
    """The cost per sentence pair, per token, and per pair of tokens of which the first attends to the second."""

    sentence: int = 0
    source: int = 0
    target: int = 0
    source_source: int = 0
    target_source: int = 0
    target_target: int = 0

    def at(self, source: int, target: int, stepwise: bool = False) -> int:
        """Return the cost of a sentence pair of these lengths, in teacher forcing or in step-by-step decoding.

        In teacher forcing, target self-attention counts as the full square, although the causal mask hides half. In
        step-by-step decoding, each token attends to itself and to earlier tokens.
        """
        target_pairs = target * (target + 1) // 2 if stepwise else target * target
        return (
            self.sentence
            + self.source * source
            + self.target * target
            + self.source_source * source * source
            + self.target_source * target * source
            + self.target_target * target_pairs
        )


@dataclass(frozen=True)
class CostPart:
    """The cost of one part of a model, for any length of source and target."""

    name: str
    parameters: int
    products: Amount = Amount()
    """The multiply-adds of matrix products in the forward pass. Sums, softmax, norms and dropout are negligible."""
    kept: Amount = Amount()
    """The number of values that the forward pass keeps for the backward pass."""
    cached: Amount = Amount()
    """The number of values that a decoder caches between steps."""


@dataclass(frozen=True)
class MemoryCost:
    """The memory that a model needs, in bytes, with all numbers in float32."""

    weights: int
    gradients: int
    adam: int
    """The two moment estimates of Adam."""
    activations: int
    """An estimate of the tensors kept for the backward pass.

    Attention weights, which fused kernels do not store, and the overhead of the allocator are not included.
    """
    cache_per_source_token: int
    """The decoder cache per source token and hypothesis."""
    cache_per_target_token: int
    """The decoder cache per target token and hypothesis; zero for recurrent and convolutional decoders."""
    cache_per_sentence: int
    """The decoder cache per hypothesis, independent of the length: a recurrent state, or windows of convolutions."""

    @property
    def training(self) -> int:
        """The memory of a training step: weights, gradients, Adam and activations."""
        return self.weights + self.gradients + self.adam + self.activations


def parts(config: ModelConfig) -> tuple[CostPart, ...]:
    """Return the cost of every part of a model, in order of computation."""
    if isinstance(config, TransformerConfig):
        return tuple(_transformer_parts(config))
    return tuple(_recurrent_parts(config) if isinstance(config, RecurrentConfig) else _convolutional_parts(config))


def parameters(config: ModelConfig) -> int:
    """Return the number of parameters; a shared matrix counts once."""
    return sum(part.parameters for part in parts(config))


def forward_flops(config: ModelConfig, source: int = SENTENCE, target: int = SENTENCE) -> int:
    """Return the FLOPs of a teacher-forced forward pass over one sentence pair of these lengths."""
    return 2 * sum(part.products.at(source, target) for part in parts(config))


def inference_flops(config: ModelConfig, source: int = SENTENCE, target: int = SENTENCE) -> dict[str, float]:
    """Return the FLOPs per target token in greedy decoding, by part of the model.

    The FLOPs of the encoder are divided by the target length. Beam search multiplies the FLOPs of the decoder by the
    beam size.
    """
    return {part.name: 2 * part.products.at(source, target, stepwise=True) / target for part in parts(config)}


def training_flops(config: ModelConfig, tokens: int = BATCH, length: int = SENTENCE) -> float:
    """Return the FLOPs of a training step on `tokens` source tokens and as many target tokens."""
    return 3 * forward_flops(config, length, length) * tokens / length


def memory(config: ModelConfig, tokens: int = BATCH, length: int = SENTENCE) -> MemoryCost:
    """Return the memory for decoding, and for training on `tokens` source and `tokens` target tokens per step."""
    bill = parts(config)
    weights = FLOAT32 * sum(part.parameters for part in bill)
    kept = sum(part.kept.at(length, length) for part in bill)
    return MemoryCost(
        weights=weights,
        gradients=weights,
        adam=2 * weights,
        activations=round(FLOAT32 * kept * tokens / length),
        cache_per_source_token=FLOAT32 * sum(part.cached.source for part in bill),
        cache_per_target_token=FLOAT32 * sum(part.cached.target for part in bill),
        cache_per_sentence=FLOAT32 * sum(part.cached.sentence for part in bill),
    )


def _transformer_parts(config: TransformerConfig) -> Iterator[CostPart]:
    """Yield the parts of a Transformer in the order of Figure 1 (section 3, and Table 1, row 1)."""
    d_model, d_ff = config.d_model, config.d_ff
    encoder, decoder = config.num_encoder_layers, config.num_decoder_layers
    # Multiply-adds of one query with one key and its value; also the numbers of one key and value in all heads.
    pair = config.num_heads * (config.key_width + config.value_width)
    projections = d_model * pair  # weights of Q and O, and just as many of K and V
    biases = config.num_heads * (2 * config.key_width + config.value_width) + d_model
    attention = 2 * projections + (biases if config.attention_bias else 0)
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    # A ReLU overwrites its input; of the other activations the backward pass needs input and output.
    inner = d_ff * {"relu": 1, "swish": 2, "gelu": 2, "gelu-sigmoid": 3}[config.activation]
    # A residual keeps the sub-layer's input, the sum and the dropout mask of each token.
    residual = d_model * (3 if config.dropout else 2)
    final_norm = 1 if config.norm == "pre" else 0
    matrix = config.target_vocabulary * d_model
    # Each stack keeps the dropout mask of its first vectors, and its last vectors.
    ends = d_model * (2 if config.dropout else 1)
    rows = config.source_vocabulary + (config.target_vocabulary if config.tie != "all" else 0)
    yield CostPart("embedding", rows * d_model, kept=Amount(source=ends, target=ends))
    if config.positions == "learned":
        yield CostPart("positions", 2 * config.max_positions * d_model)
    yield CostPart(
        "encoder self-attention",
        encoder * attention,
        Amount(source=encoder * 2 * projections, source_source=encoder * pair),
        Amount(source=encoder * (2 * pair + residual)),
    )
    yield CostPart(
        "encoder feed-forward",
        encoder * feed_forward,
        Amount(source=encoder * 2 * d_model * d_ff),
        Amount(source=encoder * (inner + residual)),
    )
    yield CostPart("encoder norms", (2 * encoder + final_norm) * 2 * d_model)
    yield CostPart(
        "decoder self-attention",
        decoder * attention,
        Amount(target=decoder * 2 * projections, target_target=decoder * pair),
        Amount(target=decoder * (2 * pair + residual)),
        cached=Amount(target=decoder * pair),
    )
    yield CostPart(  # queries and outputs are the target's, keys and values the source's
        "decoder cross-attention",
        decoder * attention,
        Amount(source=decoder * projections, target=decoder * projections, target_source=decoder * pair),
        Amount(source=decoder * pair, target=decoder * (pair + residual)),
        cached=Amount(source=decoder * pair),
    )
    yield CostPart(
        "decoder feed-forward",
        decoder * feed_forward,
        Amount(target=decoder * 2 * d_model * d_ff),
        Amount(target=decoder * (inner + residual)),
    )
    yield CostPart("decoder norms", (3 * decoder + final_norm) * 2 * d_model)
    # The logits and their softmax are in memory together when the backward pass begins.
    logits = Amount(target=2 * config.target_vocabulary)
    own = (matrix if config.tie == "none" else 0) + (config.target_vocabulary if config.output_bias else 0)
    yield CostPart("projection", own, Amount(target=matrix), logits)


def _recurrent_parts(config: RecurrentConfig) -> Iterator[CostPart]:
    """Yield the parts of a recurrent model, from source to target (Table 1, row 2)."""
    d_model, d_embedding, num_layers = config.d_model, config.d_embedding, config.num_layers
    is_deep = config.context in ("every", "bahdanau")  # a learned first state and a maxout readout
    num_gates, num_held = config.num_gates, config.num_held
    biases = num_layers * num_gates * 2 * d_model  # torch's cells have two in each gate
    has_context = is_deep or (config.context == "luong" and config.input_feeding)
    d_context = d_model if has_context else 0  # what enters a step beside the token

    def cells_kept(d_input: int, is_encoder: bool = False) -> int:
        # The input of the first layer; seven widths in each cell, which are an LSTM's four gates, its memory cell
        # before and after tanh and its output, and as many in a GRU, but of a tanh cell its output alone. Between
        # layers, the dropout mask and its output, or the outputs of all steps that torch's encoder has copied into one.
        widths = 1 if config.cell == "tanh" else 7
        between = 2 if config.dropout else 1 if is_encoder and config.cell == "tanh" else 0
        return d_input + (widths * num_layers + between * (num_layers - 1)) * d_model

    rows = config.source_vocabulary + (config.target_vocabulary if config.tie != "all" else 0)
    mask = d_embedding if config.dropout else 0
    yield CostPart("embedding", rows * d_embedding, kept=Amount(source=mask, target=mask))

    d_direction = d_model // 2 if config.bidirectional else d_model
    inputs = d_embedding + (num_layers - 1) * d_model
    weights = num_gates * d_model * (inputs + num_layers * d_direction)
    yield CostPart(
        "encoder", weights + biases, Amount(source=weights), Amount(source=cells_kept(d_embedding, is_encoder=True))
    )

    if is_deep:
        states = num_layers * num_held * d_model
        d_summary = d_direction if config.context == "bahdanau" else d_model
        weights, outputs = d_summary * states, states
        if config.context == "every":  # Cho's vector of the source is itself the output of a linear map
            weights, outputs = weights + d_model**2, outputs + d_model
        yield CostPart("first state", weights + outputs, Amount(sentence=weights), Amount(sentence=outputs))

    if config.context in ("bahdanau", "luong"):
        yield _recurrent_attention(config)

    d_input = d_embedding + d_context
    weights = num_gates * d_model * (d_input + (num_layers - 1) * d_model + num_layers * d_model)
    d_fed = 0 if config.context == "bahdanau" else d_context  # Bahdanau's context is computed at every step
    yield CostPart(
        "decoder",
        weights + biases,
        Amount(target=weights),
        Amount(target=cells_kept(d_input)),
        cached=Amount(sentence=num_layers * num_held * d_model + d_fed),
    )
    yield from _recurrent_readout(config, is_deep)


def _recurrent_attention(config: RecurrentConfig) -> CostPart:
    d_model = config.d_model
    # Either a hidden layer over query and key and a vector over it, or at most a matrix on the key.
    is_hidden = config.score in ("additive", "concat")
    d_key = (config.d_score or d_model) if is_hidden else d_model
    of_key = d_model * d_key if is_hidden or config.score in ("general", "activated-general") else 0
    of_query, vector = (d_model * d_key, d_key) if is_hidden else (0, 0)
    compared, biases = d_key, 0
    match config.score:
        case "location":
            of_query, compared = config.max_locations * d_model, 0
        case "biased-general":
            of_query, biases = d_model * d_model, d_model
        case "cosine" | "activated-general":
            biases = 1
    centre = d_model * d_model + d_model if config.locality == "local-p" else 0
    return CostPart(
        "attention",
        of_key + of_query + vector + biases + centre,
        Amount(source=of_key, target=of_query + centre, target_source=compared + d_model),
        Amount(
            source=d_model + (d_key if config.score in ("general", "activated-general", "cosine") else 0),
            target=d_model * ((not is_hidden) + bool(centre) + (config.score == "cosine")),
            target_source=vector,
        ),
        cached=Amount(source=d_key + d_model),
    )


def _recurrent_readout(config: RecurrentConfig, is_deep: bool) -> Iterator[CostPart]:
    """Yield the readout, if any (a maxout layer or Luong's attentional vector), and the output projection."""
    d_model, d_embedding = config.d_model, config.d_embedding
    if is_deep:
        inputs, outputs = 2 * d_model + d_embedding, 2 * d_embedding
        weights, biases, kept = inputs * outputs, outputs, inputs + outputs + d_embedding
    else:
        combine = 2 * d_model * d_model if config.context == "luong" else 0
        narrow = d_model * d_embedding if config.tie != "none" and d_model != d_embedding else 0
        weights, biases, kept = combine + narrow, 0, (3 * d_model if combine else 0) + (d_model if narrow else 0)
    if weights:
        yield CostPart("readout", weights + biases, Amount(target=weights), Amount(target=kept))
    width = d_embedding if is_deep or config.tie != "none" else d_model
    matrix = config.target_vocabulary * width
    # The logits and their softmax are in memory together when the backward pass begins.
    logits = Amount(target=width * (2 if config.dropout else 1) + 2 * config.target_vocabulary)
    yield CostPart("projection", matrix if config.tie == "none" else 0, Amount(target=matrix), logits)


def _convolutional_parts(config: ConvolutionalConfig) -> Iterator[CostPart]:
    """Yield the parts of a ConvS2S model, from source to target (Table 1, row 3)."""
    d_model, d_embedding, width = config.d_model, config.d_embedding, config.kernel_size
    encoder, decoder = config.num_encoder_layers, config.num_decoder_layers
    vectors = 2 if config.weight_norm else 1  # per output a bias and, with weight normalisation, the length of its row
    is_dropped = 1 if config.dropout else 0

    rows = config.source_vocabulary + (config.target_vocabulary if config.tie != "all" else 0)
    mask = is_dropped * d_embedding
    yield CostPart("embedding", rows * d_embedding, kept=Amount(source=mask, target=mask))
    yield CostPart("positions", 2 * config.max_positions * d_embedding)

    between = 2 * d_model * d_embedding  # the maps to the width of the blocks and back
    maps = between + vectors * (d_model + d_embedding)
    # The inputs of both maps; of the encoder also the keys and values that it leaves.
    yield CostPart("encoder maps", maps, Amount(source=between), Amount(source=d_model + 3 * d_embedding))

    weights = 2 * d_model * width * d_model
    block = weights + vectors * 2 * d_model
    kept = (width + 2 + is_dropped) * d_model  # k inputs side by side, the two halves of the output, the dropout mask
    beyond = is_dropped * (width - 1) * d_model  # the mask also covers what is beyond the ends
    yield CostPart(
        "encoder convolutions",
        encoder * block,
        Amount(source=encoder * weights),
        Amount(sentence=encoder * beyond, source=encoder * kept),
    )
    yield CostPart(
        "decoder convolutions",
        decoder * block,
        Amount(target=decoder * weights),
        Amount(sentence=decoder * beyond, target=decoder * kept),
        cached=Amount(sentence=decoder * (width - 1) * d_model),
    )
    yield CostPart(  # keys and values are the same in all blocks
        "decoder attention",
        decoder * maps,
        Amount(target=decoder * between, target_source=decoder * 2 * d_embedding),
        Amount(target=decoder * (d_model + 2 * d_embedding)),
        cached=Amount(source=2 * d_embedding),
    )
    yield CostPart(
        "decoder maps", maps, Amount(target=between), Amount(target=d_model + (1 + is_dropped) * d_embedding)
    )
    matrix = config.target_vocabulary * d_embedding
    # The logits and their softmax are in memory together when the backward pass begins.
    logits = Amount(target=d_embedding + 2 * config.target_vocabulary)
    own = (matrix if config.tie == "none" else 0) + config.target_vocabulary
    yield CostPart("projection", own, Amount(target=matrix), logits)


NUM_GPUS: Final = 8
"""The number of GPUs in the paper's machine (section 5.2)."""

P100_FLOPS: Final = 9.5e12
"""Sustained single-precision FLOPs per second of a GPU, as the paper estimates (section 6.1, footnote)."""


@dataclass(frozen=True)
class PaperRun:
    """A training run as the paper describes it (sections 5.2 and 6.1)."""

    steps: int
    hours: float
    printed_flops: float
    """The training cost printed in Table 2."""

    @property
    def spent(self) -> float:
        """The FLOPs of the run by the paper's estimate: seconds x GPUs x sustained FLOPs per second."""
        return self.hours * 3600 * NUM_GPUS * P100_FLOPS

    def computed(self, config: ModelConfig) -> float:
        """Return the FLOPs of `steps` training steps, each on about 25,000 source and 25,000 target tokens."""
        return self.steps * training_flops(config, BATCH)

    def utilisation(self, config: ModelConfig) -> float:
        """Return the computed FLOPs divided by the FLOPs that the GPUs could sustain in the same time."""
        return self.computed(config) / self.spent

    def compared(self, config: ModelConfig) -> dict[str, float]:
        """Return the paper's figures for the run, and the FLOPs and utilisation computed for this model."""
        return asdict(self) | {
            "gpus": NUM_GPUS,
            "gpu_flops": P100_FLOPS,
            "spent_flops": self.spent,
            "computed_flops": self.computed(config),
            "utilisation": self.utilisation(config),
        }


TABLE_2: Final[Mapping[str, PaperRun]] = {
    "paper-base": PaperRun(steps=100_000, hours=12.0, printed_flops=3.3e18),
    "paper-big": PaperRun(steps=300_000, hours=3.5 * 24, printed_flops=2.3e19),
}
"""The training runs of Table 2, by preset."""
