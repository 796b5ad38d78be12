"""Compare training from the data pipeline with training on the same batches held in memory.

One model makes the updates of dragoman's Trainer, on one thread. The batches of a slice come once from the prepared
folder on disk, by Reader and load_batches as the Trainer uses them, and once from a list; the two alternate and swap
order, so that a busy machine slows both alike. `vs_preloaded` is tokens per second with the pipeline over those
without, the median over rounds. `vs_preloaded_sampling` is the same with BPE-dropout 0.1 in the training process, and
`vs_preloaded_sampling_worker` with a worker process, which needs a core for itself. Its slices begin with untimed
updates, because a worker starts with batches prepared in advance. `load_ms` and `load_ms_sampling` are the processor
time of one batch, `update_ms` that of the update it feeds; `expected_...` is the ratio that follows from them, for a
machine too busy for wall-clock times.

The data is Multi30k, or generated dates where it is missing. The files have just been written, so they are in the page
cache.

    python bench/pipeline.py [--seconds 120] [--preset tiny] [--precision bfloat16] [--tokens 4096]
"""

import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from report import option_parser, print_values
from texts import DATA, read_lines, write_lines

from dragoman.data.batches import Batch, Reader, SubwordSampling
from dragoman.data.corpus import CorpusConfig
from dragoman.data.dates import dates
from dragoman.data.loader import load_batches
from dragoman.data.manifest import Prepared
from dragoman.data.order import BatchConfig
from dragoman.data.prepare import PrepareConfig, prepare
from dragoman.models.build import build
from dragoman.models.presets import preset
from dragoman.text.vocab import PAD, Vocab, VocabConfig
from dragoman.training.allocator import keep_freed_memory
from dragoman.training.config import ScheduleConfig, TrainingConfig
from dragoman.training.randomness import seed_weights
from dragoman.training.trainer import Trainer

SEED = 1
SAMPLING_RATE = 0.1
HEADROOM = 1.15
"""The growth of a sentence by subword sampling that the recipes allow for."""


class Case(NamedTuple):
    """A source of batches."""

    name: str
    sampling: float = 0.0
    num_workers: int = 0
    untimed: int = 0
    """Updates at the beginning of a slice; with a worker, more than it prefetches."""
    timed: int = 4


CASES = (
    Case("vs_preloaded"),
    Case("vs_preloaded_sampling", SAMPLING_RATE),
    Case("vs_preloaded_sampling_worker", SAMPLING_RATE, num_workers=1, untimed=6, timed=12),
)


def prepare_corpus(folder: Path, vocabulary: int = 8000) -> Prepared:
    """Prepare a corpus with its text, like `dragoman train`."""
    sides = [DATA / "multi30k" / f"train.{language}.gz" for language in ("en", "de")]
    if is_large := sides[0].is_file() and len(read_lines(sides[0])) > 10_000:
        corpus = CorpusConfig(name="multi30k", source=str(sides[0]), target=str(sides[1]))
    else:
        corpus = generated(folder)
    vocabulary = vocabulary if is_large else min(vocabulary, 400)
    config = PrepareConfig(corpora=(corpus,), vocabulary=VocabConfig(size=vocabulary), keep_text=True)
    return prepare(config, folder / "prepared")


def generated(folder: Path) -> CorpusConfig:
    """Write thirty thousand dates in many formats, and in ISO 8601."""
    paths = [folder / "dates.source", folder / "dates.target"]
    for path, side in zip(paths, zip(*dates(30_000, SEED), strict=True), strict=True):
        write_lines(path, side)
    return CorpusConfig(name="dates", source=str(paths[0]), target=str(paths[1]))


class Bench:
    """A Trainer whose updates are made one by one, from any batches."""

    def __init__(self, folder: Path, name: str, precision: Literal["float32", "bfloat16"], tokens: int) -> None:
        self.folder, self.name, self.precision, self.tokens = folder, name, precision, tokens
        self.prepared = prepare_corpus(folder)
        self.vocab = Vocab.load(self.prepared.folder)

    def reader(self, sampling: float) -> Reader:
        headroom = HEADROOM if sampling else 1.0
        drawn = SubwordSampling(self.vocab, sampling, SEED) if sampling else None
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
        """Yield for each round the tokens per second with the pipeline and from memory."""
        reader = self.reader(case.sampling)
        trainer = self.trainer(reader)
        with closing(load_batches(reader, itertools.count(), case.num_workers)) as pipeline:
            begin = time.perf_counter()
            for number in itertools.count():
                if number > 1 and time.perf_counter() - begin > seconds:
                    return
                size = case.untimed + case.timed
                held = [reader(index) for index in range(number * size, (number + 1) * size)]
                speeds = turns(trainer, pipeline, held, case.untimed, held_first=number % 2 == 1)
                if number:  # the first round starts up
                    yield speeds


def turns(
    trainer: Trainer, pipeline: Iterator[Batch], held: list[Batch], untimed: int, held_first: bool
) -> tuple[float, float]:
    """Return the tokens per second of both, with the same batches."""
    tokens, timed = num_tokens(held[untimed:]), len(held) - untimed
    sides = {"pipeline": pipeline, "held": iter(held)}
    speeds = {}
    for name in sorted(sides, reverse=not held_first):
        make(trainer, sides[name], untimed)
        speeds[name] = tokens / make(trainer, sides[name], timed)
    return speeds["pipeline"], speeds["held"]


def make(trainer: Trainer, batches: Iterator[Batch], number: int) -> float:
    """Return the seconds of this number of updates."""
    begin = time.perf_counter()
    for _ in range(number):
        trainer.make_update(batches)
    return time.perf_counter() - begin


def num_tokens(batches: list[Batch]) -> int:
    return sum(int((side != PAD).sum()) for batch in batches for side in (batch.source, batch.target))


def load_milliseconds(reader: Reader, number: int) -> float:
    """Return the processor time of one batch."""
    reader(0)
    begin = time.process_time()
    for index in range(number):
        reader(index)
    return 1000.0 * (time.process_time() - begin) / number


def update_milliseconds(bench: Bench, number: int) -> float:
    """Return the processor time of one update."""
    reader = bench.reader(0.0)
    trainer = bench.trainer(reader)
    batches = iter([reader(index) for index in range(2 * number)])
    make(trainer, batches, number)
    begin = time.process_time()
    make(trainer, batches, number)
    return 1000.0 * (time.process_time() - begin) / number


def processor_times(bench: Bench, updates: int) -> dict[str, float]:
    """Return the cost of each part, and the ratios that follow from them."""
    load, sampling = (load_milliseconds(bench.reader(rate), 8 * updates) for rate in (0.0, SAMPLING_RATE))
    update = update_milliseconds(bench, updates)
    print(f"a batch takes {load:.2f} ms, with sampling {sampling:.1f}, and an update {update:.0f}", flush=True)
    expected = {"expected_preloaded": update / (update + load), "expected_sampling": update / (update + sampling)}
    return {"load_ms": load, "load_ms_sampling": sampling, "update_ms": update, **expected}


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="time for each case")
    parser.add_argument("--preset", default="tiny", help="the model; the smaller it is, the more the pipeline weighs")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens of a batch, both sides, with padding")
    parser.add_argument("--updates", type=int, default=12, help="updates to take the processor time of")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), arguments.preset, arguments.precision, arguments.tokens)
        values = processor_times(bench, arguments.updates)
        for case in CASES:
            speeds = list(bench.rounds(case, arguments.seconds))
            with_pipeline, from_memory = (statistics.median(side) for side in zip(*speeds, strict=True))
            values[case.name] = statistics.median(ours / held for ours, held in speeds)
            print(
                f"{case.name:28} {with_pipeline:8,.0f} tokens/s   from memory {from_memory:8,.0f}   "
                f"ratio {values[case.name]:.3f}   {len(speeds)} rounds",
                flush=True,
            )
    print_values("pipeline", values)


if __name__ == "__main__":
    main()
