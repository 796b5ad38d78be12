"""Measure batches from disk: batches per second, share of padding, and time to the first batch.

Padding is the share of all positions of both sides, on Multi30k with a joint BPE of 8,000 pieces. The first batch is
timed on ten million generated pairs, from the start of a process to the first batch, at the beginning and at a random
position. The files are not hashed first; they have just been written, so they may be in the page cache. They take
0.7 GB of temporary disk.

    python bench/batches.py [--pairs 10000000] [--seconds 5]
"""

import io
import itertools
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import sentencepiece
from report import option_parser, print_values
from texts import DATA, read_lines

from dragoman.data.batches import Batch, Reader
from dragoman.data.loader import load_batches
from dragoman.data.manifest import Manifest, Prepared, PreparedCorpus
from dragoman.data.order import BatchConfig
from dragoman.data.shards import ShardInfo, write_shard
from dragoman.text.ragged import Ragged
from dragoman.text.vocab import PAD

PAIRS_PER_SHARD = 100_000
WORKERS = 2
WARM_UP_SECONDS = 3.0


def ragged(rows: list[list[int]]) -> Ragged:
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Ragged(np.array(list(itertools.chain.from_iterable(rows)), np.uint16), offsets)


def multi30k(folder: Path, vocabulary: int) -> Prepared:
    source, target = (read_lines(DATA / "multi30k" / f"train.{language}.gz") for language in ("en", "de"))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(source + target), model_writer=model, vocab_size=vocabulary, model_type="bpe",
        num_threads=1, minloglevel=2, pad_id=0, bos_id=1, eos_id=2, unk_id=3,
    )  # fmt: skip
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    both = [ragged(pieces.encode(side, add_eos=True)) for side in (source, target)]
    shard = write_shard(folder / "0.arrow", *both, None, np.arange(len(source)))
    return finish(folder, "multi30k", [shard])


def finish(folder: Path, name: str, shards: list[ShardInfo]) -> Prepared:
    num_pairs = sum(shard.num_pairs for shard in shards)
    corpus = PreparedCorpus(name=name, num_pairs=num_pairs, shards=tuple(shards))
    Manifest(corpora=(corpus,), vocabulary=()).save(folder)
    return Prepared.open(folder, verify=False)


def generated(folder: Path, num_pairs: int) -> Prepared:
    """Write pairs with lengths as in translated text: a mean of 12, seldom above 40, both sides about equal."""
    generator = np.random.default_rng(2017)
    shards = []
    for first in range(0, num_pairs, PAIRS_PER_SHARD):
        rows = min(PAIRS_PER_SHARD, num_pairs - first)
        source = np.clip(generator.gamma(4.0, 3.0, rows), 1, 99)
        target = np.clip(source * generator.normal(1.0, 0.15, rows), 1, 99)
        both = [random_ids(generator, lengths.astype(np.int64) + 1) for lengths in (source, target)]
        shards.append(write_shard(folder / f"{first}.arrow", *both, None, np.arange(first, first + rows)))
        if len(shards) % 20 == 0:
            print(f"generated {first + rows:,} pairs", flush=True)
    return finish(folder, "generated", shards)


def random_ids(generator: np.random.Generator, lengths: np.ndarray) -> Ragged:
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Ragged(generator.integers(4, 8000, offsets[-1], dtype=np.uint16), offsets)


def padding(prepared: Prepared, tokens: int) -> tuple[float, float]:
    """Return the share of padding in an epoch, and how full its batches are on average."""
    reader = Reader.of(prepared, BatchConfig(tokens=tokens), seed=1)
    real = positions = 0
    for index in range(reader.plan.num_batches):
        batch = reader(index)
        for side in (batch.source, batch.target):
            real += int((side != PAD).sum())
            positions += side.size
    return 1.0 - real / positions, positions / (tokens * reader.plan.num_batches)


def first_batch(folder: Path, start: int) -> float:
    """Return the seconds of a fresh process from its start, with interpreter and imports, to its first batch."""
    command = [sys.executable, __file__, "--first", str(folder), "--start", str(start)]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - begin
    assert int(line) == start
    return seconds


def print_first(folder: Path, start: int) -> None:
    reader = Reader.of(Prepared.open(folder, verify=False), BatchConfig(), seed=1)
    with closing(load_batches(reader, itertools.count(start), WORKERS)) as batches:
        print(next(batches).index, flush=True)


def batches_per_second(prepared: Prepared, seconds: float) -> float:
    """Count batches through many shards, after the workers have started."""
    reader = Reader.of(prepared, BatchConfig(), seed=1)
    with closing(load_batches(reader, itertools.count(), WORKERS)) as batches:
        count_for(batches, min(seconds, WARM_UP_SECONDS))
        begin = time.perf_counter()
        return count_for(batches, seconds) / (time.perf_counter() - begin)


def count_for(batches: Iterator[Batch], seconds: float) -> int:
    end = time.perf_counter() + seconds
    return sum(1 for _ in itertools.takewhile(lambda _: time.perf_counter() < end, batches))


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=10_000_000, help="generated for the timings")
    parser.add_argument("--seconds", type=float, default=5.0, help="time for counting batches")
    parser.add_argument("--vocabulary", type=int, default=8000, help="pieces for the padding on Multi30k")
    parser.add_argument("--first", type=Path, help="only read the first batch of this folder and print its index")
    parser.add_argument("--start", type=int, default=0, help="index of the first batch")
    arguments = parser.parse_args()
    if arguments.first:
        print_first(arguments.first, arguments.start)
        return
    values: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        prepared = multi30k(Path(name), arguments.vocabulary)
        for tokens in (1024, 4096):
            values[f"padding_waste_{tokens}"], values[f"fill_{tokens}"] = padding(prepared, tokens)
            waste, fill = values[f"padding_waste_{tokens}"], values[f"fill_{tokens}"]
            print(f"{tokens} tokens a batch: padding {waste:.2%}, filled to {fill:.1%}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepared = generated(folder, arguments.pairs)
        values["first_batch_s"] = first_batch(folder, 0)
        print(f"first batch after {values['first_batch_s']:.2f} s", flush=True)
        values["first_batch_random_s"] = first_batch(folder, random.Random(1).randrange(10**6))
        print(f"first batch at a random position after {values['first_batch_random_s']:.2f} s", flush=True)
        values["batches_per_second"] = batches_per_second(prepared, arguments.seconds)
        print(f"{values['batches_per_second']:.0f} batches of 4096 tokens a second, {WORKERS} workers", flush=True)
    print_values("batches", values, 4)


if __name__ == "__main__":
    main()
