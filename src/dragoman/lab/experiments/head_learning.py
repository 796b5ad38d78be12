"""What heads learn over training: when cross-attention finds the place of the next word, and when the word is right."""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.attention.tap import Tap, cross_attentions
from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.lab.toy_training import Pairs, build_transformer, draw_sequences, reverse, train_seq2seq
from dragoman.models.seq2seq import shifted
from dragoman.models.transformer import Transformer
from dragoman.text.vocab import NUM_SPECIALS

WIDTH, NUM_LAYERS, NUM_HEADS, BATCH, SHORTEST, LONGEST, RATE = 48, 2, 4, 32, 3, 8, 0.005
NUM_LOOKS, EVERY = 20, 20


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Train a Transformer to reverse, and look at all heads of its cross-attention every few updates."""
    num_looks, every = (2, 2) if is_smallest else (NUM_LOOKS, EVERY)
    torch.manual_seed(seed)
    model = build_transformer(WIDTH, NUM_LAYERS, NUM_HEADS)
    looks: list[tuple[float, list[float]]] = []

    def watch(update: int) -> None:
        if update % every == 0:
            looks.append(look(model))

    train_seq2seq(model, partial(draw, BATCH), num_looks * every, RATE, on_update=watch)
    right, weights = np.array([right for right, _ in looks]), np.array([heads for _, heads in looks])
    best = int(weights[-1].argmax())
    order = [int(at) for at in weights[-1].argsort()[::-1][:3]]
    return Measurement(
        numbers={
            "right": float(right[-1]),
            "best_head": float(weights[-1, best]),
            "together": float(np.corrcoef(right, weights[:, best])[0, 1]),
            "lead": (crossing(right) - crossing(weights[:, best])) * every,
            "specialised": float((weights[-1] > 0.5).mean()),
        },
        panels=(
            Panel(
                title="Heads on the place of the next symbol", x_label="update", y_label="share",
                x=tuple(every * (at + 1) for at in range(num_looks)),
                lines={
                    "symbols right": tuple(right.tolist()),
                    **{f"weight, head {place}": tuple(weights[:, head].tolist()) for place, head in
                       zip(("first", "second", "third"), order, strict=True)},
                    "weight, mean of all heads": tuple(weights.mean(axis=1).tolist()),
                },
            ),
        ),
    )  # fmt: skip


def draw(num: int) -> Pairs:
    """Return random sequences and their reversals."""
    tokens = draw_sequences(num, SHORTEST, LONGEST)
    return tokens, reverse(tokens)


@torch.no_grad()
def look(model: Transformer, num: int = 200) -> tuple[float, list[float]]:
    """Return the share of symbols predicted right, and the mean weight of each head on the source of the symbol."""
    source, target = draw(num)
    with Tap(model) as maps:
        predicted = model(source, shifted(target)).argmax(dim=-1)
    counted = target >= NUM_SPECIALS
    lengths = counted.sum(dim=1, keepdim=True)
    place = torch.arange(target.shape[1])[None, :]
    of_symbol = torch.where(counted, lengths - 1 - place, 0)
    weights = [on(head, of_symbol)[counted] for name in cross_attentions(model) for head in maps[name].unbind(1)]
    return float((predicted == target)[counted].float().mean()), [float(head.mean()) for head in weights]


def on(weights: Tensor, keys: Tensor) -> Tensor:
    """Return the weight [batch, queries] of each query on its key."""
    return weights.gather(2, keys[:, :, None]).squeeze(2)


def crossing(curve: NDArray[np.float64]) -> float:
    """Return the place at which a curve has made half of its way, between two looks if need be."""
    shares = (curve - curve[0]) / max(curve[-1] - curve[0], 1e-9)
    after = int(np.argmax(shares >= 0.5))
    if after == 0:
        return 0.0
    before = shares[after - 1]
    return float(after - 1 + (0.5 - before) / (shares[after] - before))


EXPERIMENT = Experiment(
    claim="Alignment is learned together with translation: heads find out where to look, and then the words come "
    "out right.",
    source="Bahdanau et al. 2015, section 3; Voita et al. 2019 on the roles of heads",
    prediction="One head ends with most of its weight on the symbol to be written, and its weight rises together "
    "with the share of right symbols; it makes half of its way before the symbols do. But most heads never take "
    "on this role.",
    method=f"A Transformer with {NUM_LAYERS} layers on each side and {NUM_HEADS} heads (d_model {WIDTH}) learns to "
    f"reverse {SHORTEST} to {LONGEST} random symbols: {NUM_LOOKS * EVERY} updates of {BATCH} sequences. Every "
    f"{EVERY} updates 200 new sequences are predicted by force, and the weight of every cross-attention head on "
    "the place of the symbol to be written is read with a tap. Half of the way is measured from the first look to "
    "the last.",
    numbers={
        "right": "symbols predicted right at the end",
        "best_head": "weight of the best head on the symbol to be written, at the end",
        "together": "correlation of right symbols and the weight of the best head over the training",
        "lead": "updates by which the best head makes half of its way before the right symbols do",
        "specialised": "share of the heads with more than half of their weight on the symbol to be written",
    },
    criteria=(
        Criterion(number="best_head", side="above", bound=0.7, reason="a head becomes an alignment"),
        Criterion(number="together", side="above", bound=0.9, reason="together with the right words"),
        Criterion(number="lead", side="above", bound=0, reason="and before them"),
        Criterion(number="specialised", side="above", bound=0.5, reason="and so do most heads"),
    ),
    lesson="Looking and writing are learned together, hand in hand, and half of the heads take part, with nearly "
    "equal weights: there is no one alignment head. The order is rather the other way round than claimed: the "
    "symbols are three quarters right while the best head is at less than half of its weight, because a "
    "weight of 0.4 on the right place is enough if the rest is spread. Heads go on sharpening after the words "
    "are right. A blurred map is no sign of a wrong translation.",
    measure=measure,
)
