"""More data or a stronger bias: a recurrent, a convolutional and a Transformer model on corpora of growing size."""

from functools import partial
from typing import Any

import torch

from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.lab.toy_training import (
    NUM_SYMBOLS,
    VOCABULARIES,
    Pairs,
    accuracy,
    build_recurrent,
    build_transformer,
    draw_sequences,
    train_seq2seq,
)
from dragoman.models.config import ConvolutionalConfig
from dragoman.models.convolutional import Convolutional
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import NUM_SPECIALS

WIDTH, DEPTH, BATCH, LONGEST, NUM_UPDATES, RATE = 48, 2, 48, 10, 500, 0.005
SIZES = (50, 200, 800, 3200)
FEW = 1
"""The place in SIZES of the small corpus of the criteria."""


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Train the three models on the first pairs of one corpus, as many updates for each size, and test on new pairs."""
    sizes, num_updates, num_test = (SIZES[:2], 3, 4) if is_smallest else (SIZES, NUM_UPDATES, 200)
    torch.manual_seed(seed)
    corpus, test = draw_pairs(sizes[-1]), draw_pairs(num_test)
    curves = {}
    for name, build in {"recurrent": recurrent, "convolutional": convolutional, "Transformer": transformer}.items():
        found = []
        for size in sizes:
            torch.manual_seed(seed)
            model = build()
            train_seq2seq(model, partial(draw_batch, corpus, size), num_updates, RATE)
            found.append(accuracy(model, test))
        curves[name] = tuple(found)
    few, transformers = min(FEW, len(sizes) - 1), curves["Transformer"]
    return Measurement(
        numbers={
            "recurrent_lead": curves["recurrent"][few] - transformers[few],
            "convolutional_lead": curves["convolutional"][few] - transformers[few],
            "transformer_few": transformers[few],
            "transformer_many": transformers[-1],
            "late_gap": max(curves["recurrent"][-1], curves["convolutional"][-1]) - transformers[-1],
        },
        panels=(
            Panel(
                title=f"Words replaced, neighbours swapped; {num_updates} updates", x_label="pairs in the corpus",
                y_label="tokens right in new pairs", x=sizes, lines=curves, log_x=True,
            ),
        ),
    )  # fmt: skip


def recurrent() -> Seq2Seq[Any, Any]:
    """Return a GRU encoder-decoder with additive attention."""
    return build_recurrent("bahdanau", WIDTH)


def convolutional() -> Seq2Seq[Any, Any]:
    """Return a ConvS2S model without dropout."""
    layers = {"num_encoder_layers": DEPTH, "num_decoder_layers": DEPTH}
    sizes = {"d_model": WIDTH, "d_embedding": WIDTH, "dropout": 0.0}
    return Convolutional(ConvolutionalConfig.model_validate({**VOCABULARIES, **sizes, **layers}))


def transformer() -> Seq2Seq[Any, Any]:
    """Return a pre-norm Transformer without dropout."""
    return build_transformer(WIDTH, DEPTH, norm="pre")


def draw_pairs(num: int) -> Pairs:
    """Return sources, and targets in which each symbol has another name and neighbours have changed places."""
    source = draw_sequences(num, 2, LONGEST)
    is_symbol = source >= NUM_SPECIALS
    names = torch.where(is_symbol, NUM_SPECIALS + (5 * (source - NUM_SPECIALS) + 1) % NUM_SYMBOLS, source)
    place = torch.arange(source.shape[1]).expand_as(source)
    partner = (place ^ 1).clamp(max=source.shape[1] - 1)
    has_partner = is_symbol & is_symbol.gather(1, partner)
    return source, names.gather(1, torch.where(has_partner, partner, place))


def draw_batch(corpus: Pairs, size: int) -> Pairs:
    """Return random pairs among the first `size` of a corpus."""
    rows = torch.randint(size, (BATCH,))
    return corpus[0][rows], corpus[1][rows]


EXPERIMENT = Experiment(
    claim="A Transformer needs more data than a recurrent or a convolutional model, whose order and locality are a "
    "stronger inductive bias; with enough data it catches up.",
    source="Dosovitskiy et al. 2020, section 1, on Transformers and convolutions; retold for recurrent models",
    prediction=f"With {SIZES[FEW]} pairs both others are ahead of the Transformer by 5 points or more, because nothing "
    f"tells it that the partner of a word is near. With {SIZES[-1]:,} pairs it is within 5 points of the best.",
    method=f"Sequences of 2 to {LONGEST} of {NUM_SYMBOLS} symbols; in the target each symbol has another name, and the "
    f"first and the second, the third and the fourth, and so on, change places. A GRU encoder-decoder with additive "
    f"attention, ConvS2S and a pre-norm Transformer ({DEPTH}+{DEPTH} layers), all of dimension {WIDTH} and without "
    f"dropout: {NUM_UPDATES} updates of {BATCH} pairs drawn from the first 50 to {SIZES[-1]:,} pairs of a corpus. "
    "Greedy search on 200 new sequences.",
    numbers={
        "recurrent_lead": f"tokens right with {SIZES[FEW]} pairs, recurrent minus Transformer",
        "convolutional_lead": f"tokens right with {SIZES[FEW]} pairs, convolutional minus Transformer",
        "transformer_few": f"tokens right with {SIZES[FEW]} pairs, Transformer",
        "transformer_many": f"tokens right with {SIZES[-1]:,} pairs, Transformer",
        "late_gap": f"tokens right with {SIZES[-1]:,} pairs, the best of the others minus Transformer",
    },
    criteria=(
        Criterion(number="recurrent_lead", side="above", bound=0.05, reason="a recurrent model needs less data"),
        Criterion(number="convolutional_lead", side="above", bound=0.05, reason="so does a convolutional one"),
        Criterion(number="late_gap", side="below", bound=0.05, reason="with enough data the Transformer catches up"),
    ),
    lesson="",
    measure=measure,
)
