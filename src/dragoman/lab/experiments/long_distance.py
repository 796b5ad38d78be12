"""Long-distance association: naming the first symbol at the end of a sequence, recurrent networks and attention."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.attention import mask
from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.lab.toy_training import NUM_SYMBOLS, VOCABULARY, Tagger, build_recurrent, draw_sequences, train
from dragoman.text.vocab import PAD

WIDTH, BATCH, NUM_UPDATES, RATE = 32, 32, 200, 0.005
CELLS = {"tanh": "tanh", "GRU": "gru", "LSTM": "lstm"}


class LastStateTagger(nn.Module):
    """A recurrent encoder and the logits of a symbol at its last state."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        self.encoder = build_recurrent("first", WIDTH, cell, bidirectional=False).encoder
        self.output = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits [batch, 1, vocabulary] at the end."""
        last = self.encoder(tokens, mask.padding(tokens, PAD)).hidden[:, -1:]
        logits: Tensor = self.output(last)
        return logits


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Train every network at every distance, and count the symbols that it remembers."""
    distances, num_updates, num_test = ((5, 10), 3, 20) if is_smallest else ((5, 10, 20, 50, 100), NUM_UPDATES, 500)
    accuracies: dict[str, list[float]] = {}
    for name in (*CELLS, "Transformer"):
        for distance in distances:
            torch.manual_seed(seed)
            model = LastStateTagger(CELLS[name]) if name in CELLS else Tagger(WIDTH, 1, norm="pre")
            train(model, lambda m=model, n=distance: loss(m, n), num_updates, RATE)  # type: ignore[misc]
            tokens = draw_sequences(num_test, distance, distance)
            with torch.no_grad():
                right = model(tokens)[:, -1].argmax(dim=-1) == tokens[:, 0]
            accuracies.setdefault(name, []).append(float(right.float().mean()))
    tanh, gru, lstm, transformer = accuracies.values()
    at = min(2, len(distances) - 1)
    return Measurement(
        numbers={
            "tanh_near": tanh[0],
            "tanh_20": tanh[at],
            "gru_100": gru[-1],
            "lstm_100": lstm[-1],
            "transformer_100": transformer[-1],
        },
        panels=(
            Panel(
                title=f"The first symbol named at the end, {num_updates} updates", x_label="distance in symbols",
                y_label="share right", x=distances, lines={name: tuple(row) for name, row in accuracies.items()},
                log_x=True,
            ),
        ),
    )  # fmt: skip


def loss(model: nn.Module, distance: int) -> Tensor:
    """Return the mean cross entropy of the first symbol at the end of new sequences."""
    tokens = draw_sequences(BATCH, distance, distance)
    return F.cross_entropy(model(tokens)[:, -1], tokens[:, 0])


EXPERIMENT = Experiment(
    claim="Recurrent networks forget what they read twenty to fifty steps before; gates help; attention reaches "
    "any distance equally well.",
    source="Bengio et al. 1994; Khandelwal et al. 2018; Vaswani et al. 2017, section 4",
    prediction="The tanh network loses the first symbol between 10 and 20 steps. GRU and LSTM keep it over 20 but "
    "do not learn it over 100 in the same training. The Transformer learns it at every distance.",
    method=f"Random sequences of {NUM_SYMBOLS} symbols and EOS; at EOS the network has to name the first symbol. "
    f"The forward encoder of models/recurrent.py with tanh, GRU and LSTM cells of dimension {WIDTH}, and one "
    f"encoder layer of models/transformer.py: {NUM_UPDATES} updates of {BATCH} sequences for every distance, "
    "tested on 500. Chance is one in twelve.",
    numbers={
        "tanh_near": "share right at distance 5, tanh",
        "tanh_20": "share right at distance 20, tanh",
        "gru_100": "share right at distance 100, GRU",
        "lstm_100": "share right at distance 100, LSTM",
        "transformer_100": "share right at distance 100, Transformer",
    },
    criteria=(
        Criterion(number="tanh_near", side="above", bound=0.9, reason="near symbols are kept without gates"),
        Criterion(number="tanh_20", side="below", bound=0.5, reason="but not over 20 steps"),
        Criterion(number="gru_100", side="above", bound=0.9, reason="gates keep them over 100"),
        Criterion(number="lstm_100", side="above", bound=0.9, reason="in an LSTM too"),
        Criterion(number="transformer_100", side="above", bound=0.9, reason="and attention reaches that far"),
    ),
    lesson="",
    measure=measure,
)
