"""Compare two training processes of one thread with one process of one and two threads; measure a checkpoint's cost.

    python bench/scaling.py [--seconds 30] [--rounds 3] [--only scaling checkpoint]

The small model (3+3 layers, d_model 256, 10,000 tokens) on random pairs of 20 to 25 tokens a side, bfloat16, the same
batches in the same updates. The three take turns, round by round, each in fresh processes. The share of a checkpoint is
the processor time of saving the whole state once, all threads counted, over that of 200 updates. Needs two idle cores.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from report import option_parser, print_values

from dragoman.data.batches import Batch, Reader
from dragoman.models.build import build
from dragoman.models.presets import preset
from dragoman.text.vocab import EOS, NUM_SPECIALS
from dragoman.training.config import TrainingConfig
from dragoman.training.parallel import init_group
from dragoman.training.randomness import seed_weights
from dragoman.training.trainer import Trainer

VOCABULARY, BATCHES_PER_UPDATE, EVERY = 10_000, 2, 200
SETUPS = {"one_thread": (1, 1), "two_threads": (1, 2), "two_processes": (2, 1)}


class RandomReader(Reader):
    """Random batches, each a function of its index."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __call__(self, index: int) -> Batch:
        draw = np.random.default_rng(index)
        sides = [draw.integers(NUM_SPECIALS, VOCABULARY, (self.rows, draw.integers(20, 26))) for _ in range(2)]
        for side in sides:
            side[:, -1] = EOS
        return Batch(index, *(side.astype(np.int32) for side in sides), "random", np.arange(self.rows))


def training(seconds: float, **settings: object) -> TrainingConfig:
    """Return a configuration that trains for this time without validations and checkpoints in between."""
    stop = {"updates": 10**9, "time": f"{seconds}s"}
    quiet = {"validate_every": 10**9, "checkpoints": {"every": None}, "log_every": 1, "stop": stop}
    fixed = {"batches_per_update": BATCHES_PER_UPDATE, "precision": "bfloat16"}
    return TrainingConfig.model_validate(fixed | quiet | settings)


def updates_per_second(options: argparse.Namespace) -> float | None:
    """Return the updates per second of the process group; None in all processes but the first.

    The first seconds are not counted, because products are compiled in them.
    """
    with init_group() as group:
        seed_weights(1)
        times: list[float] = []
        trainer = Trainer(
            build(preset(options.preset, VOCABULARY)),
            RandomReader(options.rows),
            training(options.seconds + options.warm),
            lambda _: {"loss": 1.0, "bleu": 0.0},
            options.worker,
            group=group,
            on_event=lambda event: times.append(event["seconds"]) if event["event"] == "update" else None,
        )
        trainer.run()
        if not group.is_first:
            return None
        counted = [moment for moment in times if moment > options.warm]
        if len(counted) < 3:  # a very short measurement
            return len(times) / (options.seconds + options.warm)
        return (len(counted) - 1) / (counted[-1] - counted[0])


def speed(setup: str, options: argparse.Namespace) -> float:
    """Return the updates per second in fresh processes."""
    processes, threads = SETUPS[setup]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, *launcher, __file__, "--worker", place]
        for name in ("seconds", "warm", "rows", "preset"):
            command += [f"--{name}", str(getattr(options, name))]
        env = os.environ | {"OMP_NUM_THREADS": str(threads)}
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return float(done.stdout.split()[-1])


def scaling(options: argparse.Namespace) -> dict[str, float]:
    rates: dict[str, list[float]] = {setup: [] for setup in SETUPS}
    for number in range(options.rounds):
        for setup in SETUPS:
            rates[setup].append(speed(setup, options))
            print(f"round {number + 1}: {setup} {rates[setup][-1]:.3f} updates/s", flush=True)
    ratios = {
        other: statistics.median(a / b for a, b in zip(rates["two_processes"], rates[other], strict=True))
        for other in ("one_thread", "two_threads")
    }
    return {f"two_processes_vs_{other}": ratio for other, ratio in ratios.items()}


def checkpoint_cost(options: argparse.Namespace) -> dict[str, float]:
    """Return the processor time of a save over that of the updates between two saves."""
    torch.set_num_threads(1)
    seed_weights(1)
    with tempfile.TemporaryDirectory() as place:
        config = training(options.seconds + options.warm, ema=0.99)
        scores = {"loss": 1.0, "bleu": 0.0}
        model = build(preset(options.preset, VOCABULARY))
        trainer = Trainer(model, RandomReader(options.rows), config, lambda _: scores, Path(place))
        saves, blocked = [], []
        for _ in range(5):
            begin, cpu = time.monotonic(), time.process_time()
            trainer.checkpoints.save(len(saves), trainer.state_dict())
            blocked.append(time.monotonic() - begin)
            trainer.checkpoints.finish()
            saves.append(time.process_time() - cpu)
        cpu = time.process_time()
        trainer.run()
        update = (time.process_time() - cpu) / trainer.update
    save = statistics.median(saves)
    print(f"a save: {save:.3f} s of processor time; training waits {statistics.median(blocked):.3f} s; ", end="")
    print(f"an update: {update:.3f} s")
    return {"checkpoint_share": save / (EVERY * update)}


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--warm", type=float, default=8.0, help="seconds before counting")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--rows", type=int, default=48, help="pairs of a batch")
    parser.add_argument("--only", nargs="+", choices=["scaling", "checkpoint"], default=["scaling", "checkpoint"])
    parser.add_argument("--worker", type=Path, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        rate = updates_per_second(options)
        if rate is not None:
            print(rate)
        return
    values = scaling(options) if "scaling" in options.only else {}
    values |= checkpoint_cost(options) if "checkpoint" in options.only else {}
    print_values("scaling", values, 5)


if __name__ == "__main__":
    main()
