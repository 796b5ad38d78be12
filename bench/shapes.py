"""What batches of few shapes bring: bfloat16 training on one thread, filled up as the Trainer does it, or as they come.

A CPU compiles its bfloat16 products for each size they meet and keeps the last thousand or so; with BPE-dropout hardly
two batches are alike (src/dragoman/training/shapes.py). Each side is a process of its own, since the compiled products
are a process's; the sides take turns. Tokens that are not padding, per second of the processor, so that a busy machine
changes little; the first updates are not counted. `vs_as_they_come` above 1: filling up is faster. Data as in
bench/pipeline.py. Last, one JSON line.

    python bench/shapes.py [--updates 150] [--rounds 2]
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from unittest import mock

import torch
from pipeline import SAMPLING_RATE, Bench, make, num_tokens

from dragoman.training import loss, trainer
from dragoman.training.allocator import keep_freed_memory

UNTIMED = 20


def as_they_come(source: torch.Tensor, target: torch.Tensor, _: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    return source, target


def speed(fill: bool, updates: int) -> float:
    """Tokens per second of the processor, in a fresh process."""
    torch.set_num_threads(1)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), "tiny", "bfloat16", 4096)
        reader = bench.reader(SAMPLING_RATE)
        batches = [reader(index) for index in range(UNTIMED + updates)]
        made = bench.trainer(reader)
        untouched = mock.patch.object(trainer, "filled_up", as_they_come), mock.patch.object(loss, "STEP", 1)
        if not fill:
            for patch in untouched:
                patch.start()
        make(made, iter(batches[:UNTIMED]), UNTIMED)
        begin = time.process_time()
        make(made, iter(batches[UNTIMED:]), updates)
        return num_tokens(batches[UNTIMED:]) / (time.process_time() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    speeds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(arguments.rounds):
        for fill in (True, False) if number % 2 else (False, True):
            with multiprocessing.get_context("spawn").Pool(1) as fresh:
                speeds[fill].append(fresh.apply(speed, (fill, arguments.updates)))
            print(f"{'filled up' if fill else 'as they come':12}  {speeds[fill][-1]:8,.0f} tokens/s", flush=True)
    ratio = statistics.median(ours / theirs for ours, theirs in zip(speeds[True], speeds[False], strict=True))
    print(json.dumps({"bench": "shapes", "values": {"vs_as_they_come": round(ratio, 3)}}))


if __name__ == "__main__":
    main()
