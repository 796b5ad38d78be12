"""The bill of a recurrent encoder-decoder, part by part, from its config alone (the second row of Table 1)."""

from dragoman.models.config import RecurrentConfig
from dragoman.models.part import Amount, Part


def recurrent_parts(config: RecurrentConfig) -> tuple[Part, ...]:
    """Every part on the way from source to target. A matrix that is used twice is counted where it is used first."""
    return (
        _embedding(config),
        _encoder(config),
        *_first_state(config),
        *_attention(config),
        _decoder(config),
        *_readout(config),
        _projection(config),
    )


def _embedding(config: RecurrentConfig) -> Part:
    rows = config.source_vocabulary + (config.target_vocabulary if config.tie != "all" else 0)
    mask = config.d_embedding if config.dropout else 0
    return Part("embedding", rows * config.d_embedding, kept=Amount(source=mask, target=mask))


def _encoder(config: RecurrentConfig) -> Part:
    num_directions = 2 if config.bidirectional else 1
    inputs = _inputs(config, config.d_embedding)
    weights = num_directions * sum(_cell_weights(config, width, config.d_model // num_directions) for width in inputs)
    return Part(
        "encoder", weights + _cell_biases(config), Amount(source=weights), Amount(source=_cells_keep(config, inputs[0]))
    )


def _decoder(config: RecurrentConfig) -> Part:
    inputs = _inputs(config, config.d_embedding + _context_width(config))
    weights = sum(_cell_weights(config, width, config.d_model) for width in inputs)
    return Part(
        "decoder",
        weights + _cell_biases(config),
        Amount(target=weights),
        Amount(target=_cells_keep(config, inputs[0])),
        cached=Amount(sentence=config.num_layers * _held(config) * config.d_model + _fed_width(config)),
    )


def _first_state(config: RecurrentConfig) -> tuple[Part, ...]:
    """Sutskever and Luong begin where the encoder ended; Cho and Bahdanau learn where to begin."""
    if config.context not in ("every", "bahdanau"):
        return ()
    d_summary = config.d_model // 2 if config.context == "bahdanau" and config.bidirectional else config.d_model
    outputs = config.num_layers * _held(config) * config.d_model
    weights, biases = d_summary * outputs, outputs
    if config.context == "every":  # Cho's vector of the source is itself the outcome of a linear map
        weights, biases = weights + config.d_model**2, biases + config.d_model
    return (Part("first state", weights + biases, Amount(sentence=weights), Amount(sentence=biases)),)


def _attention(config: RecurrentConfig) -> tuple[Part, ...]:
    if config.context not in ("bahdanau", "luong"):
        return ()
    d_model, d_key = config.d_model, _key_width(config)
    # Either a hidden layer over query and key and a vector over it, or at most a matrix on the key.
    hidden = config.score in ("additive", "concat")
    of_key = 0 if config.score == "dot" else d_model * d_key
    of_query, vector = (d_model * d_key, d_key) if hidden else (0, 0)
    centre = d_model * d_model + d_model if config.locality == "local-p" else 0
    return (
        Part(
            "attention",
            of_key + of_query + vector + centre,
            Amount(source=of_key, target=of_query + centre, target_source=d_key + d_model),
            Amount(
                source=d_model + (d_key if config.score == "general" else 0),
                target=0 if hidden else d_model,
                target_source=vector,
            ),
            cached=Amount(source=d_key + d_model),
        ),
    )


def _readout(config: RecurrentConfig) -> tuple[Part, ...]:
    """What stands between a state and the vocabulary: a maxout, Luong's attentional vector, or nothing."""
    d_model, d_embedding = config.d_model, config.d_embedding
    if config.context in ("every", "bahdanau"):
        inputs, outputs = 2 * d_model + d_embedding, 2 * d_embedding
        kept = Amount(target=inputs + outputs + d_embedding)
        return (Part("readout", inputs * outputs + outputs, Amount(target=inputs * outputs), kept),)
    combine = 2 * d_model * d_model if config.context == "luong" else 0
    narrow = d_model * d_embedding if config.tie != "none" and d_model != d_embedding else 0
    if not combine + narrow:
        return ()
    kept = Amount(target=(3 * d_model if combine else 0) + (d_model if narrow else 0))
    return (Part("readout", combine + narrow, Amount(target=combine + narrow), kept),)


def _projection(config: RecurrentConfig) -> Part:
    """The scores and their softmax stand in memory together when the backward pass begins."""
    straight = config.tie == "none" and config.context in ("first", "luong")
    width = config.d_model if straight else config.d_embedding
    matrix = config.target_vocabulary * width
    kept = Amount(target=width * (2 if config.dropout else 1) + 2 * config.target_vocabulary)
    return Part("projection", matrix if config.tie == "none" else 0, Amount(target=matrix), kept)


def _inputs(config: RecurrentConfig, first: int) -> list[int]:
    """What each layer of a stack reads."""
    return [first] + [config.d_model] * (config.num_layers - 1)


def _cell_weights(config: RecurrentConfig, d_input: int, width: int) -> int:
    return _num_gates(config) * width * (d_input + width)


def _cell_biases(config: RecurrentConfig) -> int:
    """Of a whole stack: torch's cells have two in each gate, one on the input and one on the state."""
    return config.num_layers * _num_gates(config) * 2 * config.d_model


def _cells_keep(config: RecurrentConfig, d_input: int) -> int:
    """For each token: what the first layer reads; in each cell seven widths, which are an LSTM's four gates, its memory
    cell before and after tanh and its output, and as many in a GRU; between layers, the dropout mask and what it left.
    """
    between = (config.num_layers - 1) * 2 * config.d_model if config.dropout else 0
    return d_input + 7 * config.num_layers * config.d_model + between


def _num_gates(config: RecurrentConfig) -> int:
    return 3 if config.cell == "gru" else 4


def _held(config: RecurrentConfig) -> int:
    """Vectors a cell holds between steps: its output and, in an LSTM, its memory cell."""
    return 1 if config.cell == "gru" else 2


def _key_width(config: RecurrentConfig) -> int:
    """What a key has been made into before the first question is asked."""
    return (config.d_score or config.d_model) if config.score in ("additive", "concat") else config.d_model


def _context_width(config: RecurrentConfig) -> int:
    """What enters a step beside the token."""
    seen = config.context in ("every", "bahdanau") or (config.context == "luong" and config.input_feeding)
    return config.d_model if seen else 0


def _fed_width(config: RecurrentConfig) -> int:
    """What of it is kept from step to step: Bahdanau's context is made anew."""
    return 0 if config.context == "bahdanau" else _context_width(config)
