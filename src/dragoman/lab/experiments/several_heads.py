"""Several heads against one of the same width: looking at one, two and four places at once."""

from functools import partial

import torch
from torch import Tensor

from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.lab.toy_training import NUM_SYMBOLS, Tagger, draw_sequences, train
from dragoman.text.vocab import NUM_SPECIALS

WIDTH, BATCH, LENGTH, NUM_UPDATES, RATE = 64, 32, 8, 500, 0.01
HEADS, MARGIN = (1, 2, 4, 16), 4
OFFSETS = {"one place": (-1,), "two places": (-1, 2), "four places": (-1, 2, -3, 4)}


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Train one layer with every number of heads to name the symbols at fixed distances from each position."""
    num_updates, num_test = (3, 4) if is_smallest else (NUM_UPDATES, 300)
    accuracies: dict[str, list[float]] = {}
    for name, offsets in OFFSETS.items():
        for num_heads in HEADS:
            torch.manual_seed(seed)
            model = Tagger(WIDTH, 1, num_heads, "pre", num_tags=len(offsets) * NUM_SYMBOLS)
            train(model, partial(loss, model, offsets), num_updates, RATE)
            accuracies.setdefault(name, []).append(accuracy(model, offsets, num_test))
    one, two, four = accuracies.values()
    return Measurement(
        numbers={
            "one_place": one[0],
            "two_places": two[0],
            "gain_two": two[1] - two[0],
            "gain_four": four[2] - four[0],
            "narrow": four[3] - four[2],
        },
        panels=(
            Panel(
                title=f"One layer, {num_updates} updates", x_label="heads, all together of the same width", x=HEADS,
                y_label="symbols named right", lines={name: tuple(row) for name, row in accuracies.items()}, log_x=True,
            ),
        ),
    )  # fmt: skip


def draw(num: int, offsets: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return random sequences, and the symbols at each offset from all positions but the first and last four."""
    tokens = draw_sequences(num, LENGTH + 2 * MARGIN, LENGTH + 2 * MARGIN)[:, :-1]
    places = [tokens[:, MARGIN + offset : MARGIN + offset + LENGTH] for offset in offsets]
    return tokens, torch.stack(places, dim=-1) - NUM_SPECIALS


def logits(model: Tagger, tokens: Tensor, num_places: int) -> Tensor:
    """Return the logits [batch, n, places, symbols] of all positions but the first and last four."""
    inner: Tensor = model(tokens)[:, MARGIN:-MARGIN]
    return inner.reshape(*inner.shape[:2], num_places, NUM_SYMBOLS)


def loss(model: Tagger, offsets: tuple[int, ...]) -> Tensor:
    """Return the mean cross entropy of all places on new sequences."""
    tokens, symbols = draw(BATCH, offsets)
    return torch.nn.functional.cross_entropy(logits(model, tokens, len(offsets)).flatten(0, 2), symbols.flatten())


@torch.no_grad()
def accuracy(model: Tagger, offsets: tuple[int, ...], num: int) -> float:
    """Return the share of symbols named right on new sequences."""
    tokens, symbols = draw(num, offsets)
    return float((logits(model, tokens, len(offsets)).argmax(dim=-1) == symbols).float().mean())


EXPERIMENT = Experiment(
    claim="Several heads attend to several places at once; with a single head, averaging inhibits this.",
    source="Vaswani et al. 2017, section 3.2.2",
    prediction="For one place one head is enough. For two places one head is worse than two, but not hopeless: it "
    "can give the two places different weights, such as 2 to 1, and the values stay apart by their size. For four "
    "places four heads win clearly; sixteen heads, of dimension 4 each, are worse again.",
    method=f"One encoder layer of models/transformer.py (d_model {WIDTH}, pre-norm) names, at the {LENGTH} middle "
    f"positions of {LENGTH + 2 * MARGIN} random symbols, the symbols at one, two or four fixed distances up to "
    f"four. The heads share the width: d_k = {WIDTH} / heads. {NUM_UPDATES} updates of {BATCH} sequences, tested "
    "on 300.",
    numbers={
        "one_place": "symbols right, one place, one head",
        "two_places": "symbols right, two places, one head",
        "gain_two": "symbols right, two places, two heads minus one",
        "gain_four": "symbols right, four places, four heads minus one",
        "narrow": "symbols right, four places, sixteen heads minus four",
    },
    criteria=(
        Criterion(number="one_place", side="above", bound=0.95, reason="one head attends to one place"),
        Criterion(number="two_places", side="below", bound=0.75, reason="but not to two at once"),
        Criterion(number="gain_two", side="above", bound=0.1, reason="two heads do"),
        Criterion(number="gain_four", side="above", bound=0.2, reason="and four heads attend to four places"),
        Criterion(number="narrow", side="below", bound=-0.02, reason="too many heads are worse (Table 3, row A)"),
    ),
    lesson="Two heads do what one cannot: with two places one head looks at one of them and guesses the other (54 % "
    "is a half and a twelfth of the rest), and as many heads as places name everything. The prediction that "
    "one head would help itself with unequal weights came true for four places only, where it names half of "
    "the symbols instead of a third. But more heads than needed do no harm here: sixteen heads of dimension "
    "four are as good as four, so this task does not explain why Table 3 loses with many heads.",
    measure=measure,
)
