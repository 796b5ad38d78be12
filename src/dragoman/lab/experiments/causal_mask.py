"""The causal mask: what a decoder learns that sees the word it has to predict, and what it writes then."""

from functools import partial
from statistics import fmean

import torch
from torch import Tensor

from dragoman.attention.multihead import KeyValue, MultiHead
from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.lab.toy_training import Pairs, accuracy, build_transformer, draw_sequences, reverse, train_seq2seq
from dragoman.models.transformer import Transformer

WIDTH, BATCH, LONGEST, NUM_UPDATES, RATE = 48, 32, 6, 400, 0.005


class Unmasked(MultiHead):
    """Multi-head attention that ignores the causal mask in teacher forcing."""

    def forward(
        self,
        query: Tensor,
        seen: KeyValue,
        visible: Tensor | None = None,
        *,
        causal: bool = False,  # noqa: ARG002
        start: int = 0,
    ) -> Tensor:
        """Attend to all positions, later ones too."""
        return super().forward(query, seen, visible, start=start)


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Train a decoder with and without its mask to reverse and to copy, and let both write."""
    num_updates, num_test = (4, 4) if is_smallest else (NUM_UPDATES, 300)
    tenth = max(1, num_updates // 10)
    losses: dict[str, tuple[float, ...]] = {}
    written = []
    for task in ("reversing", "copying"):
        for mask, is_masked in (("with the mask", True), ("without", False)):
            torch.manual_seed(seed)
            model = build_decoder(is_masked)
            row = train_seq2seq(model, partial(draw, task, BATCH, 1), num_updates, RATE)
            losses[f"{task}, {mask}"] = tuple(
                fmean(row[start : start + tenth]) for start in range(0, num_updates, tenth)
            )
            written.append(accuracy(model, draw(task, num_test, LONGEST)))
    masked, unmasked, *_ = losses.values()
    half = len(masked) // 2
    return Measurement(
        numbers={
            "loss_unmasked": unmasked[-1],
            "faster": unmasked[half] / masked[half],
            "written_masked": written[0],
            "written_unmasked": written[1],
            "copied_unmasked": written[3],
        },
        panels=(
            Panel(
                title="Training loss", x_label="update", y_label="nats per token", lines=losses, log_y=True,
                x=tuple(tenth * (at + 1) for at in range(len(masked))),
            ),
        ),
    )  # fmt: skip


def draw(task: str, num: int, shortest: int) -> Pairs:
    """Return random sequences up to the longest, and what is to be written."""
    tokens = draw_sequences(num, shortest, LONGEST)
    return tokens, tokens if task == "copying" else reverse(tokens)


def build_decoder(is_masked: bool) -> Transformer:
    """Return a Transformer of one layer on each side, whose decoder is masked or not."""
    model = build_transformer(WIDTH, 1)
    if not is_masked:
        for layer in model.decoder.layers:
            layer.self_attention.__class__ = Unmasked
    return model


EXPERIMENT = Experiment(
    claim="Without the mask the decoder sees the word that it has to predict: it learns to copy it and nothing else.",
    source="Vaswani et al. 2017, section 3.1; every textbook on the Transformer",
    prediction="Without the mask the training loss falls faster and nearly to zero, and the model writes "
    "nonsense, because the next word is missing when it writes.",
    method=f"A Transformer with one layer on each side (d_model {WIDTH}) reverses sequences of 1 to {LONGEST} "
    f"random symbols, and copies them, as an easier task: {NUM_UPDATES} updates of {BATCH} sequences, with the "
    f"causal mask in the decoder's self-attention and without. Greedy search on 300 new sequences of {LONGEST} "
    "symbols.",
    numbers={
        "loss_unmasked": "training loss of reversing at the end without the mask, in nats per token",
        "faster": "training loss of reversing without the mask over with it, in the middle of the training",
        "written_masked": "symbols reversed right, trained with the mask",
        "written_unmasked": "symbols reversed right, trained without",
        "copied_unmasked": "symbols copied right, trained without",
    },
    criteria=(
        Criterion(number="loss_unmasked", side="below", bound=0.05, reason="the training seems to succeed"),
        Criterion(number="faster", side="below", bound=0.5, reason="and faster than with the mask"),
        Criterion(number="written_unmasked", side="below", bound=0.3, reason="but the model cannot write"),
        Criterion(number="copied_unmasked", side="below", bound=0.3, reason="not even a copy"),
        Criterion(number="written_masked", side="above", bound=0.9, reason="which it can with the mask"),
    ),
    lesson="A decoder without its mask learns whatever is easier: to look at the next word or to look at the source. "
    "In two seeds of three it learns the first and cannot write a single symbol, even for a copy; in one it "
    "learns the second and writes most of them. The training loss is the same low number in both cases, and "
    "for reversing it falls faster than with the mask. So the mask is necessary, and its absence shows only "
    "when the model has to write: test by free running, not by the loss.",
    measure=measure,
)
