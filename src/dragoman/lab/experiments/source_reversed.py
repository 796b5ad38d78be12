"""The source backwards: how well an encoder-decoder without attention learns to copy what it reads in reverse."""

from functools import partial

import torch

from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.lab.toy_training import Pairs, accuracy, build_recurrent, draw_sequences, reverse, train_seq2seq

WIDTH, BATCH, LONGEST, NUM_UPDATES, RATE = 48, 48, 8, 500, 0.01


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Train encoders of one and of two directions to copy, and count the tokens copied right at each place."""
    num_updates, num_test = (3, 4) if is_smallest else (NUM_UPDATES, 200)
    by_place = {}
    for is_bidirectional in (False, True):
        for is_reversed in (False, True):
            torch.manual_seed(seed)
            model = build_recurrent("first", WIDTH, "lstm", is_bidirectional)
            train_seq2seq(model, partial(draw, 1, BATCH, is_reversed), num_updates, RATE)
            test = draw(LONGEST, num_test, is_reversed)
            directions = "two directions" if is_bidirectional else "one direction"
            order = "backwards" if is_reversed else "forwards"
            by_place[f"{directions}, {order}"] = [accuracy(model, test, place) for place in range(LONGEST)]
    means = [sum(places) / LONGEST for places in by_place.values()]
    first = [places[0] for places in by_place.values()]
    last = [places[-1] for places in by_place.values()]
    return Measurement(
        numbers={
            "gain": means[1] - means[0],
            "gain_first": first[1] - first[0],
            "gain_last": last[1] - last[0],
            "gain_bidirectional": means[3] - means[2],
        },
        panels=(
            Panel(
                title=f"Copying {LONGEST} symbols", x_label="place in the target", y_label="share copied right",
                x=tuple(range(1, LONGEST + 1)), lines={name: tuple(places) for name, places in by_place.items()},
            ),
        ),
    )  # fmt: skip


def draw(shortest: int, num: int, is_reversed: bool) -> Pairs:
    """Return random sequences up to the longest, read forwards or backwards, and the same sequences as targets."""
    tokens = draw_sequences(num, shortest, LONGEST)
    return reverse(tokens) if is_reversed else tokens, tokens


EXPERIMENT = Experiment(
    claim="Reversing the source makes learning much easier for an encoder-decoder without attention, because the "
    "first words of source and target come close together.",
    source="Sutskever et al. 2014, section 3.3",
    prediction="With an encoder of one direction, the reversed source is copied better, above all at the first places; "
    "the last places lose what the first ones gain, or nearly. An encoder of two directions ends at both ends of the "
    "source, so the order makes no difference to it.",
    method=f"LSTM models of models/recurrent.py, dimension {WIDTH}, whose decoder has nothing but the encoder's last "
    f"state, copy random sequences of 12 symbols: {NUM_UPDATES} updates of {BATCH} sequences of 1 to {LONGEST} "
    f"symbols. Greedy search on 200 new sequences of {LONGEST} symbols.",
    numbers={
        "gain": "share copied right, backwards minus forwards, one direction",
        "gain_first": "the same, first place",
        "gain_last": "the same, last place",
        "gain_bidirectional": "share copied right, backwards minus forwards, two directions",
    },
    criteria=(
        Criterion(number="gain", side="above", bound=0.05, reason="a reversed source is learned better"),
        Criterion(number="gain_first", side="above", bound=0.05, reason="because the first words come close"),
        Criterion(number="gain_last", side="above", bound=-0.05, reason="and the last words do not suffer"),
        Criterion(number="gain_bidirectional", side="above", bound=0.05, reason="so every such encoder should do it"),
    ),
    lesson="The trick works, on the last words rather than the first. The first places are copied equally well in "
    "both orders; read forwards, the last places are copied at 35 to 40 %, read backwards at 72 %. What helps "
    "is a source and a target that fit like a stack, first in and last out, so the state is emptied in the "
    "order in which it was filled. With an encoder of two directions the order makes no difference that could "
    "be measured.",
    measure=measure,
)
