"""Longer sequences than in training: sinusoidal, learned, relative and rotary positions, and none."""

from functools import partial

import torch
from torch import Tensor, nn

from dragoman.attention.attend import Attend
from dragoman.attention.score import ScaledDot, Score
from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.lab.toy_training import Tagger, draw_sequences, train
from dragoman.layers.positions import Positions
from dragoman.models.seq2seq import shifted
from dragoman.models.transformer import EncoderLayer

WIDTH, DEPTH, NUM_HEADS, BATCH, LONGEST, NUM_UPDATES, RATE = 32, 2, 4, 32, 16, 300, 0.01
REACH = 8
KINDS = ("sinusoidal", "learned", "relative", "rotary", "none")


class RelativeScore(Score):
    """The scaled dot product plus a learned number for each head and offset, the same for all offsets above REACH."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.dot = ScaledDot()
        self.bias = nn.Parameter(torch.zeros(num_heads, 2 * REACH + 1))

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Return the scores [batch, heads, queries, keys]."""
        place = torch.arange(key.shape[-2])
        offset = (place[None, :] - place[:, None]).clamp(-REACH, REACH) + REACH
        scores: Tensor = self.dot(query, key) + self.bias[:, offset]
        return scores


def build(kind: str) -> Tagger:
    """Return a tagger with these positions."""
    model = Tagger(WIDTH, DEPTH, NUM_HEADS, "pre")
    embedding = model.encoder.embedding
    if kind == "learned":
        embedding.positions = Positions("learned", embedding.positions.max_positions, WIDTH)
    elif kind != "sinusoidal":
        embedding.positions.table.zero_()
    for layer in model.encoder.layers:
        assert isinstance(layer, EncoderLayer)
        if kind == "relative":
            layer.self_attention.attend = Attend(RelativeScore(NUM_HEADS))
        elif kind == "rotary":
            layer.self_attention.rotary = True
    return model


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Train with each kind of positions on short sequences, and test on longer ones."""
    lengths, num_updates, num_test = ((16, 24), 3, 4) if is_smallest else ((8, 16, 20, 24, 32, 64), NUM_UPDATES, 100)
    curves: dict[str, tuple[float, ...]] = {}
    for kind in KINDS:
        torch.manual_seed(seed)
        model = build(kind)
        train(model, partial(loss, model), num_updates, RATE)
        tests = [draw_sequences(num_test, length, length) for length in lengths]
        curves[kind] = tuple(model.accuracy(tokens, shifted(tokens)) for tokens in tests)
    at, twice = lengths.index(LONGEST), -2 if len(lengths) > 2 else -1
    return Measurement(
        numbers={
            "trained": min(curves[kind][at] for kind in KINDS[:4]),
            **{kind: curves[kind][twice] for kind in KINDS},
        },
        panels=(
            Panel(
                title=f"The symbol before, trained on 4 to {LONGEST}", x_label="length", y_label="symbols right",
                x=lengths, lines=curves, log_x=True,
            ),
        ),
    )  # fmt: skip


def loss(model: Tagger) -> Tensor:
    """Return the loss of a batch of new sequences, whose tags are the symbols before."""
    tokens = draw_sequences(BATCH, 4, LONGEST)
    return model.loss(tokens, shifted(tokens))


EXPERIMENT = Experiment(
    claim="Sinusoids let the model extrapolate to sequence lengths longer than in training, which learned "
    "positions do not.",
    source="Vaswani et al. 2017, section 3.5; against it Press et al. 2022; relative positions: Shaw et al. 2018, "
    "rotary: Su et al. 2021",
    prediction="All but none learn the training lengths. At twice the longest training length learned positions "
    "fall to guessing in the new half, sinusoids fall too, and only relative positions stay perfect. Rotary "
    "positions are in between: their scores depend on the offset alone.",
    method=f"The encoder of models/transformer.py ({DEPTH} layers, d_model {WIDTH}, pre-norm) names at each symbol "
    f"the one before: {NUM_UPDATES} updates of {BATCH} sequences of 4 to {LONGEST} symbols. Positions as the "
    "package has them, sinusoidal or learned; or none of these, but a learned number per head and offset up to "
    f"{REACH} in the scores (relative), or rotated queries and keys (rotary), or nothing. Tested on 100 new "
    "sequences for each length.",
    numbers={
        "trained": f"symbols right at length {LONGEST}, the worst of the four kinds of positions",
        "sinusoidal": f"symbols right at length {2 * LONGEST}, sinusoidal",
        "learned": "the same, learned",
        "relative": "the same, relative",
        "rotary": "the same, rotary",
        "none": "the same, no positions",
    },
    criteria=(
        Criterion(number="trained", side="above", bound=0.95, reason="all kinds learn the training lengths"),
        Criterion(number="sinusoidal", side="above", bound=0.9, reason="sinusoids serve longer sequences"),
        Criterion(number="learned", side="below", bound=0.75, reason="learned positions do not"),
        Criterion(number="relative", side="above", bound=0.9, reason="relative positions do"),
        Criterion(number="rotary", side="above", bound=0.9, reason="and rotary ones"),
    ),
    lesson="",
    measure=measure,
)
