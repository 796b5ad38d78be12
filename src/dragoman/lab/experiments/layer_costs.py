"""Table 1 of the paper: path lengths counted, and the time of layers measured against sequence length."""

import math
import time
from collections.abc import Callable, Iterable
from itertools import count, repeat

import torch
from torch import Tensor, nn

from dragoman.attention import mask
from dragoman.attention.multihead import MultiHead
from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel

KERNEL, NEIGHBOURS, REPEATS = 5, 8, 5
NARROW, WIDE = 64, 256


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Count the layers that connect all positions, and time a forward pass of each layer."""
    torch.manual_seed(seed)
    lengths, longest = ((16, 64), 64) if is_smallest else ((16, 64, 256, 1024), 256)
    counted = [n for n in lengths if n <= longest]
    paths = {
        "self-attention": [count_layers(repeat(torch.ones(n, n))) for n in counted],
        "convolution": [count_layers(repeat(taps(n, 1))) for n in counted],
        "dilated convolution": [count_layers(taps(n, KERNEL**layer) for layer in count()) for n in counted],
        "restricted attention": [count_layers(repeat(mask.restricted(n, NEIGHBOURS).float())) for n in counted],
        "recurrent": [n - 1 for n in counted],
    }
    n = longest
    layers = {f"d = {NARROW}": build_layers(NARROW), f"d = {WIDE}": build_layers(WIDE)}
    seconds = {
        f"{kind}, {width}": [fastest(run, torch.randn(1, length, int(width[4:]))) for length in lengths]
        for width, kinds in layers.items()
        for kind, run in kinds.items()
    }
    short, long = lengths.index(64), len(lengths) - 1
    ratio = {width: [a / r for a, r in zip(seconds[f"attention, {width}"], seconds[f"recurrent, {width}"], strict=True)]
             for width in layers}  # fmt: skip
    return Measurement(
        numbers={
            "path_convolution": paths["convolution"][-1] / math.log(n, KERNEL),
            "path_dilated": paths["dilated convolution"][-1] / math.log(n, KERNEL),
            "path_restricted": paths["restricted attention"][-1] / (n / (2 * NEIGHBOURS + 1)),
            "time_short": ratio[f"d = {WIDE}"][short],
            "time_long": ratio[f"d = {NARROW}"][long],
        },
        panels=(
            Panel(
                title="Layers that connect all positions", x_label="n", y_label="layers, or steps",
                x=tuple(counted), log_x=True, log_y=True,
                lines={name: tuple(map(float, values)) for name, values in paths.items()},
            ),
            Panel(
                title="Time of a layer, one sequence", x_label="n", y_label="processor seconds", x=lengths, log_x=True,
                log_y=True, lines={name: tuple(values) for name, values in seconds.items()},
            ),
        ),
    )  # fmt: skip


def taps(length: int, dilation: int) -> Tensor:
    """Return the matrix of positions that a convolution connects: each with itself and KERNEL - 1 before it."""
    offsets = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    return ((offsets >= 0) & (offsets % dilation == 0) & (offsets < KERNEL * dilation)).float()


def count_layers(layers: Iterable[Tensor]) -> int:
    """Return the number of layers until the last position depends on every position."""
    reached: Tensor | None = None
    for number, layer in enumerate(layers, 1):
        reached = layer[-1:] if reached is None else ((reached @ layer) > 0).float()
        if bool(reached.all()):
            return number
    raise AssertionError("the layers end before all positions are connected")


def build_layers(width: int) -> dict[str, Callable[[Tensor], object]]:
    """Return a self-attention layer with its projections, a GRU layer and a convolution, as functions of [1, n, d]."""
    attention, recurrent = MultiHead(width, 4), nn.GRU(width, width, batch_first=True)
    convolution = nn.Conv1d(width, width, KERNEL, padding="same")
    return {
        "attention": lambda x: attention(x, attention.remember(x)),
        "recurrent": recurrent,
        "convolution": lambda x: convolution(x.transpose(1, 2)),
    }


@torch.no_grad()
def fastest(run: Callable[[Tensor], object], x: Tensor) -> float:
    """Return the shortest processor time of several runs."""
    run(x)
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        run(x)
        times.append(time.process_time() - start)
    return max(min(times), 1e-7)


EXPERIMENT = Experiment(
    claim="Any two positions are one layer apart in self-attention, log_k(n) layers in convolutions and n/r in "
    "restricted attention; a self-attention layer (n^2 d) is faster than a recurrent one (n d^2) if and only if n is "
    "smaller than d.",
    source="Vaswani et al. 2017, Table 1 and section 4",
    prediction="log_k(n) holds for dilated convolutions only: contiguous kernels, as in ConvS2S, need about n/k "
    "layers, which the paper says in its text but not in its table. Self-attention wins for n < d, "
    "and also for n > d, because a recurrent layer multiplies n small matrices one after the other.",
    method=f"Paths are counted by multiplying the connections of layers (kernel k = {KERNEL}, "
    f"r = {2 * NEIGHBOURS + 1}, n = 256) until the last position depends on every position. Times are the shortest "
    "processor time of 5 forward passes over one sequence: attention/multihead.py with its four "
    "projections, torch's GRU and convolution, d = 64 and 256.",
    numbers={
        "path_convolution": "layers of contiguous convolutions over log_k(n)",
        "path_dilated": "layers of dilated convolutions over log_k(n)",
        "path_restricted": "layers of restricted attention over n/r",
        "time_short": f"time of self-attention over recurrent, n = 64, d = {WIDE}",
        "time_long": f"time of self-attention over recurrent, n = 1024, d = {NARROW}",
    },
    criteria=(
        Criterion(number="path_convolution", side="below", bound=3, reason="convolutions need about log_k(n) layers"),
        Criterion(number="path_dilated", side="below", bound=3, reason="dilated convolutions do"),
        Criterion(number="path_restricted", side="below", bound=3, reason="restricted attention needs about n/r"),
        Criterion(number="time_short", side="below", bound=1, reason="self-attention is faster for n < d"),
        Criterion(number="time_long", side="above", bound=1, reason="and slower for n > d"),
    ),
    lesson="Paths of log_k(n) layers belong to dilated convolutions. With contiguous kernels, as in ConvS2S, 256 "
    "positions take 64 layers of kernel 5, 19 times as many; the paper's text gives n/k, its table does not. "
    "The operations of the table are no times: self-attention took a third of the recurrent layer's time or "
    "less, for n < d and for n = 16 d, because a recurrent layer does n small products one after the other, "
    "on a processor without parallelism too. Restricted attention needs 2n/r layers, since a position sees "
    "r/2 to each side.",
    measure=measure,
)
