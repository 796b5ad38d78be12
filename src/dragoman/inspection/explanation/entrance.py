"""What happens to a position before attention reads it: token, place, layers below, norm (sections 3.1 to 3.5)."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from torch import nn

from dragoman.inspection.explanation.board import (
    FINE,
    SHOWN,
    Row,
    Step,
    Table,
    first,
    root,
    vector,
    vectors,
    written,
)
from dragoman.inspection.explanation.head import Head
from dragoman.inspection.explanation.look import array
from dragoman.layers.positions import Layout

FORMULAS: Final[dict[Layout, str]] = {
    "sinusoidal": "PE(pos, 2i) = sin(pos / 10000^{2i/d_model})\nPE(pos, 2i+1) = cos(pos / 10000^{2i/d_model})",
    "sinusoidal-halves": "PE(pos, i) = sin(pos / 10000^{i/(d_model/2-1)})\n"
    "PE(pos, i + d_model/2) = cos(pos / 10000^{i/(d_model/2-1)})",
    "learned": "x = E[id] · √d_model + P[pos]",
}
WHENCE: Final[dict[Layout, str]] = {
    "sinusoidal": "The paper's waves, each slower than the one before; the angle is the position over a power of "
    "10000:",
    "sinusoidal-halves": "The waves of tensor2tensor, sines first, each slower than the one before; the angle is the "
    "position over a power of 10000:",
    "learned": "This model has learned a vector for each position (the paper's Table 3, row E).",
}


@dataclass(frozen=True)
class Entrance:
    """How far the board is when attention begins."""

    steps: tuple[Step, ...]
    stream: tuple[Decimal, ...]
    """The first numbers of what goes around the attention, as they stand on the board."""
    entering: tuple[Decimal, ...]
    """Those of what it reads."""


def entrance(head: Head, token: int, said: str) -> Entrance:
    """From the token's id to what the attention reads. `said` tells what the token has to do with the word."""
    position, stream = _position(head, token)
    steps = [_token(head, token, said), position]
    if head.place.layer or head.place.kind == "cross":
        steps.append(_below(head, stream))
        stream = first(head.stream)
    if head.residual.place == "post":
        return Entrance(tuple(steps), stream, stream)
    norm, entering = _norm(head, stream)
    return Entrance((*steps, norm), stream, entering)


def normed(
    label: str,
    cells: tuple[Decimal, ...],
    numbers: Float[ndarray, " d"],
    made: Float[ndarray, " d"],
    norm: nn.LayerNorm,
) -> tuple[Table, str, tuple[Decimal, ...]]:
    """A LayerNorm, number by number, of a vector whose first numbers are on the board, and those of the result."""
    mean, deviation = float(numbers.mean()), math.sqrt(float(numbers.var()) + norm.eps)
    centre, size = written(mean, FINE), written(deviation, FINE)
    gain, bias = array(norm.weight), array(norm.bias)
    unit = tuple(written((cell - centre) / size) for cell in cells)
    result = tuple(written(u * g + b) for u, g, b in zip(unit, first(gain), first(bias), strict=True))
    rows = [
        vector(label, numbers, cells),
        vector("- mean, / deviation", (numbers - mean) / deviation, unit),
        vector("· gain", gain),
        vector("+ bias", bias),
        vector("= LayerNorm", made, result),
    ]
    said = f"Of all {len(numbers)} numbers the mean is {centre:f} and the deviation {size:f}:"
    return vectors(rows), said, result


def _token(head: Head, token: int, said: str) -> Step:
    row = array(head.embedding.tokens.weight[token])
    scale = root(len(row))
    rows = [
        vector(f"E[{token}]", row, digits=FINE),
        vector(f"· √{len(row)} = {scale}", row * head.embedding.scale, _scaled(row)),
    ]
    return Step(
        "A piece of text becomes a vector",
        "A network computes with numbers, so every piece of the vocabulary has a row of its own in a table E that was "
        "learned; the factor makes it about as large as the position that comes next.",
        "E[id] · √d_model",
        "section 3.4",
        (said, vectors(rows)),
    )


def _position(head: Head, token: int) -> tuple[Step, tuple[Decimal, ...]]:
    """The step, and the first numbers of the sum."""
    row, layout = array(head.embedding.tokens.weight[token]), head.model.config.positions
    position = array(head.embedding.positions.table[head.row])
    waves = None if layout == "learned" or len(row) < SHOWN else _waves(layout, head.row, len(row))
    shown = first(position) if waves is None else tuple(Decimal(one.cells[1]) for one in waves.rows)
    scaled = _scaled(row)
    total = tuple(a + b for a, b in zip(scaled, shown, strict=True))
    rows = [
        vector("from step 1", row * head.embedding.scale, scaled),
        vector(f"+ position {head.row}", position, shown),
        vector("= x", head.embedded, total),
    ]
    step = Step(
        "Its place is added",
        "Attention looks at all positions at once and would not notice if they were shuffled, so each vector is told "
        "where it stands; positions are counted from 0.",
        FORMULAS[layout],
        "section 3.5",
        (WHENCE[layout], *([] if waves is None else [waves]), vectors(rows)),
    )
    return step, total


def _waves(layout: Layout, position: int, d_model: int) -> Table:
    """The first numbers of a sinusoidal position, from their angles."""
    rows = []
    half = d_model // 2
    for i in range(SHOWN):
        if layout == "sinusoidal":
            is_sine, exponent = i % 2 == 0, 2 * (i // 2) / d_model
        else:
            is_sine, exponent = i < half, i % half / (half - 1)
        angle = written(position / 10_000.0**exponent, FINE)
        value = math.sin(angle) if is_sine else math.cos(angle)
        rows.append(Row(f"[{i}] {'sin' if is_sine else 'cos'} of", (angle, written(value))))
    return Table(("angle", "position"), tuple(rows))


def _below(head: Head, begun: tuple[Decimal, ...]) -> Step:
    start, now = head.embedded, head.stream
    alike = written(float(now @ start / (np.linalg.norm(now) * np.linalg.norm(start))), 2)
    layer = head.place.layer
    layers = {0: "", 1: "layer 0"}.get(layer, f"layers 0 to {layer - 1}")
    looked = f"the self-attention of layer {layer}" if head.place.kind == "cross" else ""
    passed = " and ".join(part for part in (layers, looked) if part)
    post = head.residual.place == "post"
    return Step(
        "What the layers below have made of it",
        f"From here on this is position {head.row} at layer {layer}, not a word: it holds something of everything that "
        "it has looked at on its way.",
        "LayerNorm(x + Sublayer(x)), again and again" if post else "x + Sublayer(LayerNorm(x)), again and again",
        "section 3.1",
        (
            f"It went through {passed}.",
            vectors([vector("x at the start", start, begun), vector("x now", now)]),
            f"The cosine between the two is {alike:f}: 1 would be the same direction, 0 nothing in common.",
        ),
    )


def _norm(head: Head, stream: tuple[Decimal, ...]) -> tuple[Step, tuple[Decimal, ...]]:
    """The step, and the first numbers of what it gives."""
    table, said, result = normed("x", stream, head.stream, head.entering, head.residual.norm)
    step = Step(
        "It is brought to one size",
        "This model is pre-norm: what a sub-layer reads is normalised, and what goes around it is not; the paper "
        "normalises after the sum instead.",
        "y = LayerNorm(x)",
        "section 3.1, but placed elsewhere",
        (said, table),
    )
    return step, result


def _scaled(row: Float[ndarray, " d_model"]) -> tuple[Decimal, ...]:
    """The first numbers of a token's vector, times sqrt(d_model), as they are on the board."""
    return tuple(written(number * root(len(row))) for number in first(row, FINE))
