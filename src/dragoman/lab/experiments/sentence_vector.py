"""The first neural translator: a convolutional vector of the source, given at every step, against length."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.lab.models.rctm import RCTM
from dragoman.lab.toy_training import VOCABULARY, Pairs, accuracy, build_recurrent, draw_sequences, train_seq2seq
from dragoman.models.seq2seq import Seq2Seq

WIDTH, BATCH, LONGEST, NUM_UPDATES, RATE = 64, 32, 8, 500, 0.01
MODELS: dict[str, Callable[[], Seq2Seq[Any, Any]]] = {
    "convolutions, every step (RCTM)": partial(RCTM, VOCABULARY, WIDTH, LONGEST + 1),
    "convolutions, first step": partial(RCTM, VOCABULARY, WIDTH, LONGEST + 1, every_step=False),
    "GRU, every step (Cho)": partial(build_recurrent, "every", WIDTH),
    "attention (Bahdanau)": partial(build_recurrent, "bahdanau", WIDTH),
}


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Train all models to copy, and count the tokens that they copy right at each length."""
    num_updates, num_test = (3, 4) if is_smallest else (NUM_UPDATES, 200)
    lengths = (2, LONGEST) if is_smallest else (2, 3, 4, 6, LONGEST)
    lines: dict[str, tuple[float, ...]] = {}
    for name, build in MODELS.items():
        torch.manual_seed(seed)
        model = build()
        train_seq2seq(model, partial(draw, BATCH, 1, LONGEST), num_updates, RATE)
        lines[name] = tuple(accuracy(model, draw(num_test, length, length)) for length in lengths)
    every, first, recurrent, attention = lines.values()
    return Measurement(
        numbers={
            "short": every[0],
            "long": every[-1],
            "every_step": every[-1] - first[-1],
            "recurrent": recurrent[-1] - every[-1],
            "attention_long": attention[-1],
        },
        panels=(
            Panel(
                title=f"Copying, trained on 1 to {LONGEST} tokens", x_label="length", y_label="tokens copied right",
                x=lengths, lines=lines,
            ),
        ),
    )  # fmt: skip


def draw(num: int, shortest: int, longest: int) -> Pairs:
    """Return random sequences as sources and the same as targets."""
    tokens = draw_sequences(num, shortest, longest)
    return tokens, tokens


EXPERIMENT = Experiment(
    claim="The first neural translator made the source one vector by convolutions and gave it to the decoder at every "
    "step, so that it was not forgotten; the longer the sentence, the less the vector holds, until attention.",
    source="Kalchbrenner and Blunsom 2013, the model RCTM I; Bahdanau et al. 2015",
    prediction="The RCTM copies two tokens and fewer than half of eight. The vector at every step is better than at "
    "the first step alone. The recurrent encoder with gates does better with one vector; attention copies all.",
    method="The RCTM of lab/models/rctm.py, with the source's vector at every step or at the first alone, and the GRU "
    "models of models/recurrent.py with one vector at every step (Cho) and with additive attention (Bahdanau), all of "
    f"dimension {WIDTH}, copy random sequences of 12 symbols: {NUM_UPDATES} updates of {BATCH} sequences of 1 to "
    f"{LONGEST} tokens. Greedy search on 200 new sequences per length; a token counts if it is right at its place.",
    numbers={
        "short": "tokens copied right at length 2, RCTM",
        "long": f"tokens copied right at length {LONGEST}, RCTM",
        "every_step": f"tokens copied right at length {LONGEST}, vector at every step minus at the first, convolutions",
        "recurrent": f"tokens copied right at length {LONGEST}, GRU minus convolutions, vector at every step",
        "attention_long": f"tokens copied right at length {LONGEST}, attention",
    },
    criteria=(
        Criterion(number="short", side="above", bound=0.9, reason="the vector holds short sequences"),
        Criterion(number="long", side="below", bound=0.5, reason="but not long ones"),
        Criterion(number="every_step", side="above", bound=0.05, reason="giving it at every step helps"),
        Criterion(number="attention_long", side="above", bound=0.9, reason="and attention needs no such vector"),
    ),
    lesson="The vector is a bottleneck: two tokens are copied right, of eight three in ten, and attention copies "
    "all. But giving it at every step is no help here: given at the first step alone, it leads to 42 % right "
    "at length eight in place of 29 %. What these networks lack are gates: a GRU that writes the vector and "
    "one that reads it at every step are at 77 %. So the length at which one vector fails depends on what "
    "writes and reads it; the size is 64 in all of them.",
    measure=measure,
)
