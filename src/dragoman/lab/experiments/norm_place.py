"""Pre-norm against post-norm: at which learning rates each trains, with and without warm-up."""

import math
from functools import partial

import torch
from torch import Tensor

from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.lab.toy_training import Tagger, draw_sequences, train, warm_then_linear
from dragoman.models.seq2seq import shifted

DEPTH, WIDTH, BATCH, LENGTH, NUM_UPDATES, WARMUP = 6, 32, 32, 8, 150, 50
RATES = (0.001, 0.003, 0.01, 0.03)
LEARNED = 0.75
"""The share of symbols right from which a model counts as having learned; guessing has a fifth."""


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Train a deep stack with each norm, rate and warm-up, and find the largest rate at which it learns."""
    rates, num_updates = (RATES[1:3], 3) if is_smallest else (RATES, NUM_UPDATES)
    accuracies = {}
    for norm in ("post", "pre"):
        for warmup in (0, WARMUP):
            name = f"{norm}-norm, {'with' if warmup else 'no'} warm-up"
            accuracies[name] = tuple(learn(norm, rate, warmup, num_updates, seed) for rate in rates)
    largest = [largest_rate(rates, row) for row in accuracies.values()]
    return Measurement(
        numbers={
            "post_cold": max(accuracies["post-norm, no warm-up"]),
            "post_warm": max(accuracies["post-norm, with warm-up"]),
            "pre_cold": max(accuracies["pre-norm, no warm-up"]),
            "boundary_warm": math.log10(largest[3] / largest[1]),
        },
        panels=(
            Panel(
                title=f"The symbol before, {DEPTH} layers, {num_updates} updates", x_label="peak learning rate",
                y_label="symbols right", x=rates, lines=accuracies, log_x=True,
            ),
        ),
    )  # fmt: skip


def learn(norm: str, rate: float, warmup: int, num_updates: int, seed: int) -> float:
    """Train a tagger to name the symbol before, and return the share of symbols right on new sequences."""
    torch.manual_seed(seed)
    model = Tagger(WIDTH, DEPTH, norm=norm)
    train(model, partial(loss, model), num_updates, rate, partial(warm_then_linear, warmup=warmup), clip=None)
    tokens = draw_sequences(300, LENGTH, LENGTH)
    return model.accuracy(tokens, shifted(tokens))


def loss(model: Tagger) -> Tensor:
    """Return the loss of a batch of new sequences, whose tags are the symbols before."""
    tokens = draw_sequences(BATCH, LENGTH, LENGTH)
    return model.loss(tokens, shifted(tokens))


def largest_rate(rates: tuple[float, ...], accuracies: tuple[float, ...]) -> float:
    """Return the largest rate at which the model learned; half of the smallest rate if there is none."""
    return max((rate for rate, right in zip(rates, accuracies, strict=True) if right > LEARNED), default=rates[0] / 2)


EXPERIMENT = Experiment(
    claim="With post-norm a Transformer needs warm-up to train at all; with pre-norm it trains without, and at "
    "higher rates.",
    source="Xiong et al. 2020, On Layer Normalization in the Transformer Architecture",
    prediction="Post-norm without warm-up learns at the smallest rate if at any; with warm-up it learns at 0.003. "
    "Pre-norm learns without warm-up, and with warm-up at a rate at least three times as high as post-norm.",
    method=f"The encoder of models/transformer.py with {DEPTH} layers (d_model {WIDTH}) names at each of {LENGTH} "
    f"random symbols the one before: {NUM_UPDATES} updates of {BATCH} sequences by Adam without clipping, at four "
    f"peak rates, with a warm-up of {WARMUP} updates or none, then a linear decrease. A model has learned if "
    f"{LEARNED:.0%} of the symbols of new sequences are right.",
    numbers={
        "post_cold": "symbols right at the best rate, post-norm without warm-up",
        "post_warm": "symbols right at the best rate, post-norm with warm-up",
        "pre_cold": "symbols right at the best rate, pre-norm without warm-up",
        "boundary_warm": "log10 of the largest rate that learns, pre-norm over post-norm, with warm-up",
    },
    criteria=(
        Criterion(number="post_cold", side="below", bound=LEARNED, reason="post-norm does not learn without warm-up"),
        Criterion(number="post_warm", side="above", bound=LEARNED, reason="with warm-up it does"),
        Criterion(number="pre_cold", side="above", bound=LEARNED, reason="pre-norm learns without"),
        Criterion(number="boundary_warm", side="above", bound=0.4, reason="and bears higher rates"),
    ),
    lesson="Pre-norm does train without warm-up, and at rates at which post-norm learns nothing. But warm-up is no "
    "switch: with six layers and 150 updates post-norm does not learn with it either, at any of four rates; "
    "it only fails less at 0.01. Warm-up helps pre-norm as well, at the highest rate. So a small post-norm "
    "stack collapses at rates that are usual for pre-norm, and the remedy is less depth or a lower rate and "
    "more updates, not warm-up alone.",
    measure=measure,
)
