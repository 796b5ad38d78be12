"""Residual connections on and off: gradients at the first layer, and learning, against depth."""

from functools import partial

import torch
from torch import Tensor

from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.lab.toy_training import Tagger, draw_sequences, train
from dragoman.layers.sublayer import Residual
from dragoman.models.seq2seq import shifted

DEPTH, WIDTH, BATCH, LENGTH, NUM_UPDATES, RATE = 12, 32, 32, 8, 150, 0.01
KINDS = {"post-norm": ("post", True), "pre-norm": ("pre", True), "post-norm, no residual": ("post", False),
         "pre-norm, no residual": ("pre", False)}  # fmt: skip


class WithoutResidual(Residual):
    """A sub-layer without its residual connection: LayerNorm(f(x)), or with norm="pre" f(LayerNorm(x))."""

    def join(self, x: Tensor, output: Tensor) -> Tensor:
        """Return the sub-layer output without `x`."""
        return super().join(torch.zeros_like(x), output)


def build_tagger(norm: str, has_residuals: bool, depth: int) -> Tagger:
    """Return a tagger of this depth, with or without residual connections."""
    model = Tagger(WIDTH, depth, norm=norm)
    if not has_residuals:
        for part in model.modules():
            if isinstance(part, Residual):
                part.__class__ = WithoutResidual
    return model


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Compare the gradients of first and last layers before training, and the accuracy after it, at each depth."""
    depths, num_updates = ((1, 2), 3) if is_smallest else ((1, 4, DEPTH), NUM_UPDATES)
    ratios: dict[str, list[float]] = {}
    accuracies: dict[str, list[float]] = {}
    for name, (norm, has_residuals) in KINDS.items():
        for depth in depths:
            torch.manual_seed(seed)
            model = build_tagger(norm, has_residuals, depth)
            ratios.setdefault(name, []).append(log_gradient_ratio(model))
            train(model, partial(loss, model), num_updates, RATE)
            tokens = draw_sequences(500, LENGTH, LENGTH)
            accuracies.setdefault(name, []).append(model.accuracy(tokens, shifted(tokens)))
    return Measurement(
        numbers={
            "gradient_with": ratios["pre-norm"][-1],
            "gradient_without": ratios["pre-norm, no residual"][-1],
            "shallow_without": accuracies["post-norm, no residual"][0],
            "deep_with": accuracies["pre-norm"][-1],
            "deep_without": max(accuracies[name][-1] for name in list(KINDS)[2:]),
        },
        panels=(
            Panel(
                title="Gradient of the first layer, untrained", x_label="layers", x=depths,
                y_label="log10 of the norm, relative to the last layer",
                lines={name: tuple(row) for name, row in ratios.items()}, log_x=True,
            ),
            Panel(
                title=f"Naming the symbol before, {num_updates} updates", x_label="layers", x=depths,
                y_label="symbols right",
                lines={name: tuple(row) for name, row in accuracies.items()}, log_x=True,
            ),
        ),
    )  # fmt: skip


def log_gradient_ratio(model: Tagger) -> float:
    """Return log10 of the gradient norm of the first layer's weights over that of the last layer's."""
    model.zero_grad()
    loss(model).backward()  # type: ignore[no-untyped-call]
    norms = [
        torch.cat([weight.grad.flatten() for weight in layer.parameters() if weight.grad is not None]).norm()
        for layer in model.encoder.layers
    ]
    return float((norms[0].clamp_min(1e-30) / norms[-1].clamp_min(1e-30)).log10())


def loss(model: Tagger) -> Tensor:
    """Return the loss of a batch of new sequences, whose tags are the symbols before."""
    tokens = draw_sequences(BATCH, LENGTH, LENGTH)
    return model.loss(tokens, shifted(tokens))


EXPERIMENT = Experiment(
    claim="Residual connections keep the gradients of the first layers alive and make deep stacks trainable.",
    source="He et al. 2016; used in Vaswani et al. 2017, section 3.1",
    prediction="Without residual connections the gradient of the first of 12 layers is less than a hundredth of "
    "the last layer's, and nothing is learned; one layer learns without them. With them, pre-norm learns at every "
    "depth.",
    method=f"The encoder of models/transformer.py (d_model {WIDTH}), with the residual connections of "
    f"layers/sublayer.py or without, names at each of {LENGTH} random symbols the one before: {NUM_UPDATES} "
    f"updates of {BATCH} sequences. Before training, the gradient norm of the first layer's weights is compared "
    "with that of the last layer's.",
    numbers={
        "gradient_with": "log10 of the first layer's gradient over the last's, 12 layers, pre-norm",
        "gradient_without": "the same without residual connections",
        "shallow_without": "symbols right without residual connections, one layer, post-norm",
        "deep_with": "symbols right with residual connections, 12 layers, pre-norm",
        "deep_without": "symbols right without, 12 layers, the better of post- and pre-norm",
    },
    criteria=(
        Criterion(number="gradient_without", side="below", bound=-2, reason="without them gradients vanish"),
        Criterion(number="gradient_with", side="above", bound=-1, reason="with them they do not"),
        Criterion(number="deep_with", side="above", bound=0.9, reason="deep stacks learn with them"),
        Criterion(number="deep_without", side="below", bound=0.5, reason="and not without"),
    ),
    lesson="The second half holds, the first does not. Without residual connections four layers learn nothing, and "
    "one layer learns as well as with them. But the gradient of the first layer does not vanish: layer "
    "normalisation keeps it within a factor of four of the last layer's, at twelve layers. What is lost on "
    "the way is the token itself, since every sub-layer puts out a mixture of positions and the tokens become "
    "alike (Dong et al. 2021 call it loss of rank). Residual connections keep each token in its place. They "
    "are not enough either: with post-norm twelve layers do not learn at this rate.",
    measure=measure,
)
