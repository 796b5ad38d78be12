"""Two processes of one thread against one process of one and of two threads; and what a checkpoint costs.

    python bench/scaling.py [--seconds 30] [--rounds 3] [--only scaling checkpoint]

The small model (3+3 layers, d_model 256, 10,000 tokens) on random pairs of 20 to 25 tokens a side, bfloat16, the same
batches in the same updates. The three take turns, round by round, each a fresh start of its processes. The share of a
checkpoint is the processor time of saving the whole state once, all threads counted, over that of 200 updates. Needs
two cores with nothing else to do. Printed last: one JSON line.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from dragoman.data.batches import Batch, Reader
from dragoman.data.vocab import EOS, NUM_SPECIALS
from dragoman.models.build import build
from dragoman.models.presets import preset
from dragoman.training import state
from dragoman.training.config import TrainingConfig
from dragoman.training.parallel import joined
from dragoman.training.randomness import seed_weights
from dragoman.training.trainer import Outcome, Trainer

VOCABULARY, ROWS, BATCHES_PER_UPDATE, EVERY = 10_000, 48, 2, 200
WAYS = {"one_thread": (1, 1), "two_threads": (1, 2), "two_processes": (2, 1)}


class Random(Reader):
    """A batch is drawn from its number."""

    def __init__(self) -> None:
        pass

    def __call__(self, index: int) -> Batch:
        draw = np.random.default_rng(index)
        sides = [draw.integers(NUM_SPECIALS, VOCABULARY, (ROWS, draw.integers(20, 26))) for _ in range(2)]
        for side in sides:
            side[:, -1] = EOS
        return Batch(index, *(side.astype(np.int32) for side in sides), "random", np.arange(ROWS))


class Watched(Trainer):
    """Ends after so many seconds, the first of them not counted: products are compiled in them."""

    seconds, warm = 30.0, 8.0

    def _enough(self) -> str:
        return "measured" if self.elapsed > self.seconds + self.warm else ""

    def _end(self, why: str) -> Outcome:
        return Outcome({}, "", {}, self.update, self.elapsed, why)


def trained(seconds: float, folder: Path) -> float | None:
    """Updates a second of this process and its company; None in all but the first."""
    with joined() as group:
        seed_weights(1)
        config = TrainingConfig.model_validate(
            {"batches_per_update": BATCHES_PER_UPDATE, "precision": "bfloat16", "log_every": 1} | _still()
        )
        times: list[float] = []
        made = Watched(
            build(preset("small", VOCABULARY)),
            Random(),
            config,
            lambda _: {"loss": 1.0, "bleu": 0.0},
            folder,
            group=group,
            tell=lambda event: times.append(event["seconds"]) if event["event"] == "update" else None,
        )
        made.seconds = seconds
        made.run()
        counted = [moment for moment in times if moment > made.warm]
        return (len(counted) - 1) / (counted[-1] - counted[0]) if group.is_first else None


def _still() -> dict[str, object]:
    return {"validate_every": 10**9, "checkpoints": {"every": None}, "stop": {"updates": 10**9}}


def speed(way: str, seconds: float) -> float:
    """Updates a second, in processes of their own."""
    processes, threads = WAYS[way]
    with socket.socket() as free, tempfile.TemporaryDirectory() as place:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        command = [sys.executable, __file__, "--worker", place, "--seconds", str(seconds)]
        started = []
        for rank in range(processes):
            env = os.environ | {"OMP_NUM_THREADS": str(threads)}
            if processes > 1:
                env |= {
                    "RANK": str(rank),
                    "WORLD_SIZE": str(processes),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": port,
                }
            started.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        said = [process.communicate(timeout=600)[0] for process in started]
    return float(said[0].split()[-1])


def scaling(seconds: float, rounds: int) -> dict[str, float]:
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for way in WAYS:
            found[way].append(speed(way, seconds))
            print(f"round {number + 1}: {way} {found[way][-1]:.3f} updates/s", flush=True)
    ratios = {
        other: statistics.median(a / b for a, b in zip(found["two_processes"], found[other], strict=True))
        for other in ("one_thread", "two_threads")
    }
    return {f"two_processes_vs_{other}": round(ratio, 3) for other, ratio in ratios.items()}


def checkpoint(seconds: float) -> dict[str, float]:
    """The processor time of a save, over that of the updates between two of them."""
    torch.set_num_threads(1)
    seed_weights(1)
    config = TrainingConfig.model_validate({"precision": "bfloat16", "ema": 0.99, "batches_per_update": 2} | _still())
    with tempfile.TemporaryDirectory() as place:
        made = Watched(build(preset("small", VOCABULARY)), Random(), config, lambda _: {}, Path(place))
        made.best.which, made.best.weights = "now", {name: w.detach() for name, w in made.model.named_parameters()}
        made.seconds = seconds
        saves, blocked = [], []
        for _ in range(5):
            begin, cpu = time.monotonic(), time.process_time()
            made.checkpoints.save(state.tensors(made), state.numbers(made) | {"update": len(saves)})
            blocked.append(time.monotonic() - begin)
            made.checkpoints.finish()
            saves.append(time.process_time() - cpu)
        cpu = time.process_time()
        made.run()
        update = (time.process_time() - cpu) / made.update
    save = statistics.median(saves)
    print(f"a save: {save:.3f} s of the processor, {statistics.median(blocked):.3f} s of them training waits; ", end="")
    print(f"an update: {update:.3f} s")
    return {"checkpoint_share": round(save / (EVERY * update), 5)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=["scaling", "checkpoint"], default=["scaling", "checkpoint"])
    parser.add_argument("--worker", type=Path, default=None, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.worker:
        print(trained(wanted.seconds, wanted.worker))
        return
    values = scaling(wanted.seconds, wanted.rounds) if "scaling" in wanted.only else {}
    values |= checkpoint(wanted.seconds) if "checkpoint" in wanted.only else {}
    print(json.dumps({"bench": "scaling", "values": values}))


if __name__ == "__main__":
    main()
