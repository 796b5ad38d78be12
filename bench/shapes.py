"""Compare bfloat16 training with batches padded to few shapes, as the Trainer does it, with unpadded batches.

A CPU compiles its bfloat16 products for each size and keeps about the last thousand; with BPE-dropout hardly two
batches have the same shape (src/dragoman/training/shapes.py). Each side is a separate process, because the compiled
products belong to a process; the sides take turns. Rates are tokens without padding per second of processor time, on
one thread; the first updates are not counted. `vs_as_they_come` above 1: padding to few shapes is faster. Data as in
bench/pipeline.py.

    python bench/shapes.py [--updates 150] [--untimed 20] [--rounds 2]
"""

import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from unittest import mock

import torch
from pipeline import SAMPLING_RATE, Bench, make, num_tokens
from report import option_parser, print_values

from dragoman.training import gradients, loss
from dragoman.training.allocator import keep_freed_memory


def as_they_come(source: torch.Tensor, target: torch.Tensor, _: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    return source, target


def speed(fill: bool, updates: int, untimed: int, tokens: int) -> float:
    """Return the tokens per second of processor time; call it in a fresh process."""
    torch.set_num_threads(1)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), "tiny", "bfloat16", tokens)
        reader = bench.reader(SAMPLING_RATE)
        batches = [reader(index) for index in range(untimed + updates)]
        made = bench.trainer(reader)
        patches = mock.patch.object(gradients, "pad_batch", as_they_come), mock.patch.object(loss, "STEP", 1)
        if not fill:
            for patch in patches:
                patch.start()
        make(made, iter(batches[:untimed]), untimed)
        begin = time.process_time()
        make(made, iter(batches[untimed:]), updates)
        return num_tokens(batches[untimed:]) / (time.process_time() - begin)


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--updates", type=int, default=150)
    parser.add_argument("--untimed", type=int, default=20, help="updates before the timed ones")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=4096, help="tokens of a batch, both sides, with padding")
    arguments = parser.parse_args()
    speeds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(arguments.rounds):
        for fill in (True, False) if number % 2 else (False, True):
            with multiprocessing.get_context("spawn").Pool(1) as fresh:
                speeds[fill].append(fresh.apply(speed, (fill, arguments.updates, arguments.untimed, arguments.tokens)))
            print(f"{'few shapes' if fill else 'as they come':12}  {speeds[fill][-1]:8,.0f} tokens/s", flush=True)
    ratio = statistics.median(ours / theirs for ours, theirs in zip(speeds[True], speeds[False], strict=True))
    print_values("shapes", {"vs_as_they_come": ratio})


if __name__ == "__main__":
    main()
