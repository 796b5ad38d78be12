"""Score functions as the keys widen: additive, dot product and scaled dot product trained to look up a symbol."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.attention.attend import Attend
from dragoman.attention.score import Additive, Dot, ScaledDot, Score
from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.lab.toy_training import train
from dragoman.layers.initialise import xavier

NUM_SYMBOLS, NUM_KEYS, WIDTH, BATCH, NUM_UPDATES, RATE = 64, 16, 64, 64, 300, 0.002


class LookUp(nn.Module):
    """One attention that finds a symbol among others and returns the symbol beside it."""

    def __init__(self, score: Score, d_k: int) -> None:
        super().__init__()
        self.symbols = nn.Embedding(NUM_SYMBOLS, WIDTH)  # components of variance 1, as a layer norm leaves them
        self.query = nn.Linear(WIDTH, d_k, bias=False)
        self.key = nn.Linear(WIDTH, d_k, bias=False)
        self.value = nn.Linear(WIDTH, WIDTH, bias=False)
        self.output = nn.Linear(WIDTH, NUM_SYMBOLS)
        self.attend = Attend(score, path="explicit")
        xavier(self)

    def forward(self, question: Tensor, firsts: Tensor, seconds: Tensor) -> Tensor:
        """Return the logits of the symbol beside the one in the question."""
        query, key = self.query(self.symbols(question)), self.key(self.symbols(firsts))
        seen = self.attend.score.prepare(key[:, None])
        value = self.value(self.symbols(seconds))
        found = self.attend(query[:, None, None], seen, value[:, None])
        logits: Tensor = self.output(found[:, 0, 0])
        return logits


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Train a look-up with every score at each width, and count the symbols found."""
    num_updates, num_test, widths = (3, 20, (4, 16)) if is_smallest else (NUM_UPDATES, 2000, (4, 16, 64, 512))
    accuracies: dict[str, list[float]] = {}
    for width in widths:
        scores = {"additive": Additive(width, width, min(width, 64)), "dot": Dot(), "scaled dot": ScaledDot()}
        for name, score in scores.items():
            torch.manual_seed(seed)
            accuracies.setdefault(name, []).append(find(LookUp(score, width), num_updates, num_test))
    additive, plain, scaled = accuracies.values()
    return Measurement(
        numbers={
            "narrow": additive[1] - plain[1],
            "wide": additive[-1] - plain[-1],
            "scaled_wide": scaled[-1] - additive[-1],
            "scaling": scaled[-1] - plain[-1],
        },
        panels=(
            Panel(
                title=f"Symbols found after {num_updates} updates", x_label="d_k", y_label="accuracy", x=widths,
                lines={name: tuple(row) for name, row in accuracies.items()}, log_x=True,
            ),
        ),
    )  # fmt: skip


def find(model: LookUp, num_updates: int, num_test: int) -> float:
    """Train a model and return the share of new questions that it answers right."""

    def loss() -> Tensor:
        *question, answer = draw_questions(BATCH)
        return F.cross_entropy(model(*question), answer)

    train(model, loss, num_updates, RATE)
    *question, answer = draw_questions(num_test)
    with torch.no_grad():
        return float((model(*question).argmax(dim=-1) == answer).float().mean())


def draw_questions(num: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return symbols to look for, the different first and the second symbols of pairs, and the answers."""
    firsts = torch.rand(num, NUM_SYMBOLS).argsort(dim=1)[:, :NUM_KEYS]
    seconds = torch.randint(0, NUM_SYMBOLS, (num, NUM_KEYS))
    place = torch.randint(0, NUM_KEYS, (num, 1))
    return firsts.gather(1, place).squeeze(1), firsts, seconds, seconds.gather(1, place).squeeze(1)


EXPERIMENT = Experiment(
    claim="For small d_k additive and dot-product attention perform similarly; for larger d_k additive attention "
    "outperforms the dot product without scaling.",
    source="Vaswani et al. 2017, section 3.2.1, citing Britz et al. 2017",
    prediction="At d_k = 16 the scores learn alike. At 512 the undivided dot product is nearly one-hot on the wrong "
    "key from the beginning and learns less than the additive score; divided by the root of d_k it learns as well.",
    method=f"One attention finds a symbol among {NUM_KEYS} of {NUM_SYMBOLS} and returns the symbol beside it, with the "
    "scores of attention/score.py. Queries and keys are projections with Xavier weights of vectors with variance 1. "
    f"{NUM_UPDATES} updates of {BATCH} new questions, tested on 2,000. The additive score has at most 64 hidden units.",
    numbers={
        "narrow": "accuracy of additive minus dot product, d_k = 16",
        "wide": "accuracy of additive minus dot product, largest d_k",
        "scaled_wide": "accuracy of scaled dot product minus additive, largest d_k",
        "scaling": "accuracy of scaled minus unscaled dot product, largest d_k",
    },
    criteria=(
        Criterion(number="narrow", side="below", bound=0.1, reason="at small d_k the two are alike"),
        Criterion(
            number="wide", side="above", bound=0.1, reason="at large d_k additive is better than the dot product"
        ),
        Criterion(number="scaled_wide", side="above", bound=-0.1, reason="which the division repairs"),
    ),
    lesson="The order is right and the width is not: with usual Xavier weights the undivided dot product is behind "
    "the additive score from d_k = 16 on, because its scores are too large there already, and at 512 chance "
    "decides whether it learns at all. Below 16 it is ahead of the additive score, which needs hidden units. "
    "Divided by the root of d_k, the dot product learns best or equally well at every width, and that is the "
    "claim worth keeping: not the score function but the size of the scores decides.",
    measure=measure,
)
