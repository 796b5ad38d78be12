"""Training with the data pipeline, against the same batches held in memory: what reading, cutting and padding cost.

One model makes the updates of dragoman's own Trainer, on one thread. The batches of a slice come once from the prepared
folder on disk, by Reader and Loader as the Trainer uses them, and once from a list; the two take turns and change who
goes first, so that a busy machine slows both alike. `vs_preloaded` is tokens per second with the pipeline over those
without, the median over rounds. `vs_preloaded_sampling` is the same with BPE-dropout 0.1, made in the training process
itself, and `vs_preloaded_sampling_worker` with a worker process beside it: that one needs a core of its own, or takes
from training what it saves. Its slices begin with updates that are not timed, as a worker comes to them with batches in
hand. `load_ms` and `load_ms_sampling` are processor time for making one batch, `update_ms` for the update it feeds;
`expected_...` is the ratio that follows from them, on a machine too busy to be timed by the clock.

The data is Multi30k in $DRAGOMAN_DATA or ../shared/data beside the project; where there is none, generated dates. The
files have just been written, and so are still in memory. Last, one JSON line.

    python bench/pipeline.py [--seconds 120] [--preset tiny] [--precision bfloat16] [--tokens 4096]
"""

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from dragoman.data.batches import Batch, Reader, Sampling
from dragoman.data.corpus import CorpusConfig
from dragoman.data.dates import dates
from dragoman.data.loader import Loader
from dragoman.data.manifest import Prepared
from dragoman.data.order import BatchConfig
from dragoman.data.prepare import PrepareConfig, prepare
from dragoman.data.vocab import PAD, Vocab
from dragoman.data.vocab_training import VocabConfig
from dragoman.models.build import build
from dragoman.models.presets import preset
from dragoman.training.allocator import keep_freed_memory
from dragoman.training.config import ScheduleConfig, TrainingConfig
from dragoman.training.randomness import seed_weights
from dragoman.training.trainer import Trainer

DATA = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
SEED = 1
SAMPLING_RATE = 0.1
HEADROOM = 1.15
"""What the recipes allow subword sampling to add to a sentence."""


class Case(NamedTuple):
    """Where batches come from."""

    name: str
    sampling: float = 0.0
    num_workers: int = 0
    untimed: int = 0
    """Updates at the beginning of a slice; with a worker, more than it is ahead."""
    timed: int = 4


CASES = (
    Case("vs_preloaded"),
    Case("vs_preloaded_sampling", SAMPLING_RATE),
    Case("vs_preloaded_sampling_worker", SAMPLING_RATE, num_workers=1, untimed=6, timed=12),
)


def prepared_in(folder: Path, vocabulary: int = 8000) -> Prepared:
    """A corpus with its text, prepared as `dragoman train` does it."""
    if (DATA / "multi30k").is_dir():
        sides = [str(DATA / "multi30k" / f"train.{language}.gz") for language in ("en", "de")]
        corpus = CorpusConfig(name="multi30k", source=sides[0], target=sides[1])
    else:
        vocabulary = min(vocabulary, 400)
        corpus = generated(folder)
    config = PrepareConfig(corpora=(corpus,), vocabulary=VocabConfig(size=vocabulary), keep_text=True)
    return prepare(config, folder / "prepared")


def generated(folder: Path) -> CorpusConfig:
    """Thirty thousand dates, as people write them and as ISO 8601 does."""
    paths = [folder / "dates.source", folder / "dates.target"]
    for path, side in zip(paths, zip(*dates(30_000, SEED), strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8", newline="\n")
    return CorpusConfig(name="dates", source=str(paths[0]), target=str(paths[1]))


class Bench:
    """A Trainer whose updates are made one by one, from whatever batches it is given."""

    def __init__(self, folder: Path, name: str, precision: Literal["float32", "bfloat16"], tokens: int) -> None:
        self.folder, self.name, self.precision, self.tokens = folder, name, precision, tokens
        self.prepared = prepared_in(folder)
        self.vocab = Vocab.load(self.prepared.folder)

    def reader(self, sampling: float) -> Reader:
        headroom = HEADROOM if sampling else 1.0
        drawn = Sampling(self.vocab, sampling, SEED) if sampling else None
        return Reader.of(self.prepared, BatchConfig(tokens=self.tokens, headroom=headroom), SEED, drawn)

    def trainer(self, reader: Reader) -> Trainer:
        seed_weights(SEED)
        shape = preset(self.name, self.vocab.target.size)
        schedule = ScheduleConfig(factors=("warmup",), rate=1e-4, warmup=100)
        config = TrainingConfig(schedule=schedule, precision=self.precision, log_every=10**9)
        trainer = Trainer(build(shape), reader, config, lambda _: {}, self.folder, SEED, d_model=shape.d_model)
        trainer.model.train()
        return trainer

    def rounds(self, case: Case, seconds: float) -> Iterator[tuple[float, float]]:
        """Tokens per second with the pipeline and from memory, round by round."""
        reader = self.reader(case.sampling)
        trainer = self.trainer(reader)
        with Loader(reader, itertools.count(), case.num_workers) as pipeline:
            begin = time.perf_counter()
            for number in itertools.count():
                if number > 2 and time.perf_counter() - begin > seconds:
                    return
                size = case.untimed + case.timed
                held = [reader(index) for index in range(number * size, (number + 1) * size)]
                speeds = turns(trainer, pipeline, held, case.untimed, held_first=number % 2 == 1)
                if number:  # the first round starts up
                    yield speeds


def turns(
    trainer: Trainer, pipeline: Iterator[Batch], held: list[Batch], untimed: int, held_first: bool
) -> tuple[float, float]:
    """Tokens per second of both, with the same batches."""
    tokens, timed = num_tokens(held[untimed:]), len(held) - untimed
    sides = {"pipeline": pipeline, "held": iter(held)}
    speeds = {}
    for name in sorted(sides, reverse=not held_first):
        make(trainer, sides[name], untimed)
        speeds[name] = tokens / make(trainer, sides[name], timed)
    return speeds["pipeline"], speeds["held"]


def make(trainer: Trainer, batches: Iterator[Batch], number: int) -> float:
    """Seconds for so many updates."""
    begin = time.perf_counter()
    for _ in range(number):
        trainer._make(batches)
    return time.perf_counter() - begin


def num_tokens(batches: list[Batch]) -> int:
    return sum(int((side != PAD).sum()) for batch in batches for side in (batch.source, batch.target))


def load_milliseconds(reader: Reader, number: int = 100) -> float:
    """Of the processor, for one batch."""
    reader(0)
    begin = time.process_time()
    for index in range(number):
        reader(index)
    return 1000.0 * (time.process_time() - begin) / number


def update_milliseconds(bench: Bench, number: int = 12) -> float:
    """Of the processor, for one update."""
    reader = bench.reader(0.0)
    trainer = bench.trainer(reader)
    batches = iter([reader(index) for index in range(2 * number)])
    make(trainer, batches, number)
    begin = time.process_time()
    make(trainer, batches, number)
    return 1000.0 * (time.process_time() - begin) / number


def processor_times(bench: Bench) -> dict[str, float]:
    """What each part costs, and the ratios to expect from that."""
    load, sampling = (load_milliseconds(bench.reader(rate)) for rate in (0.0, SAMPLING_RATE))
    update = update_milliseconds(bench)
    print(f"a batch takes {load:.2f} ms, with sampling {sampling:.1f}, and an update {update:.0f}", flush=True)
    expected = {"expected_preloaded": update / (update + load), "expected_sampling": update / (update + sampling)}
    return {"load_ms": load, "load_ms_sampling": sampling, "update_ms": update, **expected}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="time for each case")
    parser.add_argument("--preset", default="tiny", help="the model; the smaller, the more a batch's making weighs")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--tokens", type=int, default=4096, help="of a batch, both sides, padding included")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), arguments.preset, arguments.precision, arguments.tokens)
        values = processor_times(bench)
        for case in CASES:
            speeds = list(bench.rounds(case, arguments.seconds))
            with_pipeline, from_memory = (statistics.median(side) for side in zip(*speeds, strict=True))
            values[case.name] = statistics.median(ours / held for ours, held in speeds)
            print(
                f"{case.name:28} {with_pipeline:8,.0f} tokens/s   from memory {from_memory:8,.0f}   "
                f"ratio {values[case.name]:.3f}   {len(speeds)} rounds",
                flush=True,
            )
    print(json.dumps({"bench": "pipeline", "values": {name: round(value, 3) for name, value in values.items()}}))


if __name__ == "__main__":
    main()
