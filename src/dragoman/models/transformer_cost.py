"""The bill of a Transformer, part by part, from its config alone (section 3, and the first row of Table 1)."""

from dragoman.models.config import TransformerConfig
from dragoman.models.part import Amount, Part


def transformer_parts(config: TransformerConfig) -> tuple[Part, ...]:
    """Every part in the order of Figure 1. A matrix that is used twice is counted where it is used first."""
    return (
        _embedding(config),
        *_positions(config),
        _encoder_attention(config),
        _encoder_feed_forward(config),
        _norms("encoder norms", config, config.num_encoder_layers, num_sublayers=2),
        _decoder_self_attention(config),
        _cross_attention(config),
        _decoder_feed_forward(config),
        _norms("decoder norms", config, config.num_decoder_layers, num_sublayers=3),
        _projection(config),
    )


def _embedding(config: TransformerConfig) -> Part:
    rows = config.source_vocabulary + (config.target_vocabulary if config.tie != "all" else 0)
    # Each stack keeps the dropout mask of its first vectors, and its last ones for whoever reads them.
    kept = config.d_model * (2 if config.dropout else 1)
    return Part("embedding", rows * config.d_model, kept=Amount(source=kept, target=kept))


def _positions(config: TransformerConfig) -> tuple[Part, ...]:
    if config.positions != "learned":
        return ()
    return (Part("positions", 2 * config.max_positions * config.d_model),)


def _encoder_attention(config: TransformerConfig) -> Part:
    num_layers = config.num_encoder_layers
    return Part(
        "encoder self-attention",
        num_layers * _attention_parameters(config),
        Amount(source=num_layers * 2 * _pair_of_projections(config), source_source=num_layers * _look(config)),
        kept=Amount(source=num_layers * (2 * _look(config) + _around(config))),
    )


def _decoder_self_attention(config: TransformerConfig) -> Part:
    num_layers = config.num_decoder_layers
    return Part(
        "decoder self-attention",
        num_layers * _attention_parameters(config),
        Amount(target=num_layers * 2 * _pair_of_projections(config), target_target=num_layers * _look(config)),
        kept=Amount(target=num_layers * (2 * _look(config) + _around(config))),
        cached=Amount(target=num_layers * _look(config)),
    )


def _cross_attention(config: TransformerConfig) -> Part:
    """Queries and outputs are the target's, keys and values the source's."""
    num_layers = config.num_decoder_layers
    projections = num_layers * _pair_of_projections(config)
    look = num_layers * _look(config)
    return Part(
        "decoder cross-attention",
        num_layers * _attention_parameters(config),
        Amount(source=projections, target=projections, target_source=look),
        kept=Amount(source=look, target=look + num_layers * _around(config)),
        cached=Amount(source=look),
    )


def _encoder_feed_forward(config: TransformerConfig) -> Part:
    num_layers = config.num_encoder_layers
    return Part(
        "encoder feed-forward",
        num_layers * _feed_forward_parameters(config),
        Amount(source=num_layers * 2 * config.d_model * config.d_ff),
        kept=Amount(source=num_layers * (config.d_ff + _around(config))),
    )


def _decoder_feed_forward(config: TransformerConfig) -> Part:
    num_layers = config.num_decoder_layers
    return Part(
        "decoder feed-forward",
        num_layers * _feed_forward_parameters(config),
        Amount(target=num_layers * 2 * config.d_model * config.d_ff),
        kept=Amount(target=num_layers * (config.d_ff + _around(config))),
    )


def _norms(name: str, config: TransformerConfig, num_layers: int, num_sublayers: int) -> Part:
    """A gain and a bias each; pre-norm has one more after the stack."""
    num_norms = num_layers * num_sublayers + (1 if config.norm == "pre" else 0)
    return Part(name, num_norms * 2 * config.d_model)


def _projection(config: TransformerConfig) -> Part:
    """The scores and their softmax stand in memory together when the backward pass begins."""
    matrix = config.target_vocabulary * config.d_model
    kept = Amount(target=2 * config.target_vocabulary)
    return Part("projection", matrix if config.tie == "none" else 0, Amount(target=matrix), kept)


def _attention_parameters(config: TransformerConfig) -> int:
    biases = config.num_heads * (2 * config.key_width + config.value_width) + config.d_model
    return 2 * _pair_of_projections(config) + (biases if config.attention_bias else 0)


def _feed_forward_parameters(config: TransformerConfig) -> int:
    return 2 * config.d_model * config.d_ff + config.d_ff + config.d_model


def _pair_of_projections(config: TransformerConfig) -> int:
    """Weights of Q and O, and just as many of K and V."""
    return config.d_model * _look(config)


def _look(config: TransformerConfig) -> int:
    """Multiply-adds of one query with one key and its value; also the numbers of one key and value in all heads."""
    return config.num_heads * (config.key_width + config.value_width)


def _around(config: TransformerConfig) -> int:
    """What surrounds a sub-layer keeps for each token: the sub-layer's input, the sum, and the dropout mask."""
    return config.d_model * (3 if config.dropout else 2)
