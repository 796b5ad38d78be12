"""Compare fused with explicit attention on a CPU, forward and backward, by precision and length.

Both paths take turns on the same tensors, so that a busy machine slows both alike. A value is the time of the fused
kernel over that of the explicit path: above 1, the explicit path is faster.

    python bench/attention_paths.py [--seconds 2]
"""

import statistics
import time

import torch
from report import option_parser, print_values
from torch import Tensor

from dragoman.attention.attend import Attend, Path
from dragoman.attention.score import ScaledDot

TOKENS = 4096
HEADS, D_K = 8, 64
LENGTHS = (16, 64, 256, 512)
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
PATHS: tuple[Path, Path] = ("fused", "explicit")


def tensors(length: int, precision: torch.dtype) -> list[Tensor]:
    shape = (TOKENS // length, HEADS, length, D_K)
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).to(precision).requires_grad_() for _ in range(3)]


def seconds_once(path: Path, query_key_value: list[Tensor]) -> float:
    attend = Attend(ScaledDot(), path=path)
    begin = time.perf_counter()
    torch.autograd.grad(attend(*query_key_value, causal=True).sum(), query_key_value)
    return time.perf_counter() - begin


def ratio(length: int, precision: torch.dtype, seconds: float) -> float:
    """Return the median over rounds of fused / explicit."""
    query_key_value = tensors(length, precision)
    rounds: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rounds) < 5:
        fused, explicit = (seconds_once(path, query_key_value) for path in PATHS)
        rounds.append(fused / explicit)
    return statistics.median(rounds[1:])


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each case")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    arguments = parser.parse_args()
    values = {}
    for name, precision in PRECISIONS.items():
        for length in arguments.lengths:
            value = ratio(length, precision, arguments.seconds)
            values[f"{name}_{length}"] = value
            print(f"{name:9} length {length:4}   fused / explicit {value:6.2f}", flush=True)
    print_values("attention_paths", values, 2)


if __name__ == "__main__":
    main()
