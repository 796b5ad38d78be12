"""Preparing a corpus: how near it comes to bare SentencePiece encoding, and what ten times the pairs do to its memory.

All of it runs on generated pairs, 10 to 12 words a side, the words drawn by Zipf's law. `encode_vs_sentencepiece` is
the time of SentencePiece's `encode` on sentences that are in memory, over the time of encoding them from the workshop's
files, hashing, writing, and gathering them into shards. `prepare_vs_sentencepiece` is the same over all of prepare:
reading, cutting, cleaning, leaks and duplicates too, but with the vocabulary given. What is compared takes turns, each
in one process and one thread; the median of the rounds is given. Rates are pairs per second of processor time.
`memory_growth` is the growth of the peak memory (of the parent and its largest worker, with two workers) from N to ten
N pairs, the vocabulary given again: the trainer's memory depends on the size of its sample alone, and would hide the
rest. Last, one JSON line.

    python bench/prepare.py [--pairs 1000000] [--quick]

Ten million pairs take about 10 GB of temporary disk. --quick is the same with 50,000 and 500,000 pairs.
"""

import argparse
import itertools
import json
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar
from unittest import mock

import numpy as np
import pyarrow as pa
import sentencepiece

from dragoman.data.clean import profile_of
from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.data.leak import hold_out
from dragoman.data.prepare import PrepareConfig, prepare
from dragoman.data.stages import (
    CleanTask,
    EncodeTask,
    ShardTask,
    Workshop,
    clean_chunk,
    encode_chunk,
    gather_shard,
    load,
    load_raw,
    save_raw,
)
from dragoman.data.vocab import Vocab
from dragoman.data.vocab_training import VocabConfig, train_vocab

ResultT = TypeVar("ResultT")

ROUNDS = 3
WORDS = 50_000
AT_ONCE = 100_000
SYLLABLES = [first + second for first in "bdfghklmnprstvwz" for second in ("a", "e", "i", "o", "u", "ä", "ei", "en")]


def table_of_words() -> pa.LargeStringArray:
    """Distinct words of 1 to 4 syllables, each twice: inside a line, and at its end."""
    generator = np.random.default_rng(2017)
    found: dict[str, None] = {}
    while len(found) < WORDS:
        found["".join(generator.choice(SYLLABLES, generator.integers(1, 5)))] = None
    return pa.array([f"{word} " for word in found] + [f"{word}\n" for word in found], pa.large_string())


def generate(folder: Path, name: str, num_pairs: int, seed: int) -> CorpusConfig:
    """Writes both sides."""
    table, shares = table_of_words(), np.cumsum(1.0 / np.arange(2, WORDS + 2))
    generator = np.random.default_rng(seed)
    paths = [folder / f"{name}.{side}" for side in ("source", "target")]
    for path in paths:
        with path.open("wb") as file:
            for first in range(0, num_pairs, AT_ONCE):
                ends = np.cumsum(generator.integers(10, 13, min(AT_ONCE, num_pairs - first)))
                drawn = np.searchsorted(shares, generator.random(ends[-1]) * shares[-1])
                drawn[ends - 1] += WORDS
                file.write(table.take(pa.array(drawn)).buffers()[2])
    return CorpusConfig(name=name, source=str(paths[0]), target=str(paths[1]))


def learn(corpus: CorpusConfig) -> Vocab:
    assert corpus.target is not None
    sides = []
    for path in (corpus.source, corpus.target):
        with Path(path).open(encoding="utf-8", newline="\n") as file:
            sides.append([line.removesuffix("\n") for line in itertools.islice(file, 20_000)])
    return train_vocab(*sides, VocabConfig(size=8_000))


def settings(train: CorpusConfig, held_out: CorpusConfig, pairs: int) -> PrepareConfig:
    """Twenty chunks and two shards for N pairs, ten times as many for ten N; for a million, the defaults."""
    lines, pairs_per_shard = max(1, pairs // 20), max(1, pairs // 2)
    return PrepareConfig(corpora=(train,), held_out=(held_out,), lines_per_chunk=lines, pairs_per_shard=pairs_per_shard)


def clocks() -> np.ndarray:
    """Seconds on the wall, and seconds of the processor that this process was given."""
    return np.array([time.perf_counter(), time.process_time()])


def timed(work: Callable[[], object]) -> np.ndarray:
    begin = clocks()
    work()
    return clocks() - begin


def run_prepare(config: PrepareConfig, vocab: Vocab, num_workers: int) -> np.ndarray:
    """The seconds it takes with the vocabulary given."""
    with tempfile.TemporaryDirectory() as name, mock.patch("dragoman.data.prepare.train_vocab", return_value=vocab):
        return timed(lambda: prepare(config, Path(name), num_workers))


def peak_memory(config: PrepareConfig, vocab: Vocab) -> float:
    """MiB of this process and of the largest of its workers: to be called in a process of its own."""
    run_prepare(config, vocab, num_workers=2)
    return sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024


def apart(work: Callable[..., ResultT], *arguments: object) -> ResultT:
    """Done in a fresh process. A process starts with its parent's peak of memory as its own: this one stays small."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def growth(folder: Path, held_out: CorpusConfig, vocab: Vocab, pairs: int) -> dict[str, float]:
    """Peak memory at N and at ten N pairs."""
    peaks = []
    for num_pairs in (pairs, 10 * pairs):
        train = apart(generate, folder, "train", num_pairs, 1)
        begin = time.perf_counter()
        peaks.append(apart(peak_memory, settings(train, held_out, pairs), vocab))
        seconds = time.perf_counter() - begin
        print(f"{num_pairs:,} pairs, 2 workers: at most {peaks[-1]:.0f} MiB, {seconds:.0f} s", flush=True)
    return {"peak_mib": peaks[0], "peak_mib_tenfold": peaks[1], "memory_growth": peaks[1] / peaks[0] - 1.0}


class Speed:
    """The steps of prepare one by one, in this process, on a corpus that is cut and cleaned once."""

    def __init__(self, config: PrepareConfig, vocab: Vocab, shop: Workshop) -> None:
        self.config, self.vocab, self.shop = config, vocab, shop
        self.bare = sentencepiece.SentencePieceProcessor(model_proto=vocab.source.proto)
        self.seconds: dict[str, list[np.ndarray]] = {name: [] for name in ("bare", "encode", "gather", "prepare")}
        self.seconds["read"] = [timed(self.read)]
        self.num_chunks = len(list(shop.folder.glob("*.raw.arrow")))
        profile, held_out = profile_of(load_raw(shop, 0), config.clean), hold_out(config.held_out, config.clean)
        tasks = [CleanTask(shop, chunk, config.clean, profile, held_out) for chunk in range(self.num_chunks)]
        self.seconds["clean"] = [timed(lambda: [clean_chunk(task) for task in tasks])]
        self.num_pairs = sum(load(shop.cleaned(chunk)).num_rows for chunk in range(self.num_chunks))

    def read(self) -> None:
        for chunk in read_chunks(self.config.corpora[0], self.config.lines_per_chunk):
            save_raw(self.shop, chunk)

    def round(self) -> None:
        """Each way once, in turns chunk by chunk."""
        num_shards = max(1, round(self.num_pairs / self.config.pairs_per_shard))
        bare, encode = np.zeros(2), np.zeros(2)
        for chunk in range(self.num_chunks):
            batch = load(self.shop.cleaned(chunk))
            for side in ("source", "target"):
                sentences = batch.column(side).to_pylist()
                bare += timed(lambda sentences=sentences: self.bare.encode(sentences, num_threads=1))
            task = EncodeTask(self.shop, chunk, self.vocab, num_shards, keep_text=False)
            encode += timed(lambda task=task: encode_chunk(task))
        shards = [
            ShardTask(self.shop, self.num_chunks, shard, self.shop.folder / f"{shard}.arrow", keep_duplicates=False)
            for shard in range(num_shards)
        ]
        gather = timed(lambda: [gather_shard(task) for task in shards])
        for name, seconds in {"bare": bare, "encode": encode, "gather": gather}.items():
            self.seconds[name].append(seconds)
        self.seconds["prepare"].append(run_prepare(self.config, self.vocab, num_workers=1))

    def disk(self) -> dict[str, float]:
        """Bytes a pair takes, by the last part of the files' names."""
        kinds = {"raw": "*.raw.arrow", "clean": "*.clean.arrow", "encoded": "*.encoded.arrow", "shard": "[0-9].arrow"}
        sizes = {kind: sum(path.stat().st_size for path in self.shop.folder.glob(name)) for kind, name in kinds.items()}
        return {f"{kind}_bytes_per_pair": size / self.num_pairs for kind, size in sizes.items()}

    def forget(self) -> None:
        for name in ("*.encoded.arrow", "*.shard.json"):
            for path in self.shop.folder.glob(name):
                path.unlink()

    def ratio(self, *steps: str) -> float:
        """Bare encoding over these steps, the median of the rounds."""
        rounds = zip(self.seconds["bare"], *(self.seconds[step] for step in steps), strict=True)
        return statistics.median(float(bare[0] / sum(ours)[0]) for bare, *ours in rounds)


def speed(folder: Path, config: PrepareConfig, vocab: Vocab) -> dict[str, float]:
    shop = Workshop(folder / "shop")
    shop.folder.mkdir()
    run = Speed(config, vocab, shop)
    for number in range(ROUNDS):
        run.forget()
        run.round()
        taken = ", ".join(f"{name} {seconds[-1][0]:.2f} s" for name, seconds in run.seconds.items())
        print(f"round {number + 1} of {ROUNDS}, {run.num_pairs:,} pairs: {taken}", flush=True)
    rates = {
        f"{name}_pairs_per_cpu_s": run.num_pairs / statistics.median(taken[1] for taken in seconds)
        for name, seconds in run.seconds.items()
    }
    return {
        "encode_vs_sentencepiece": run.ratio("encode", "gather"),
        "prepare_vs_sentencepiece": run.ratio("prepare"),
        **rates,
        **run.disk(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="N of the memory's growth")
    parser.add_argument("--quick", action="store_true", help="the same as --pairs 50000")
    arguments = parser.parse_args()
    pairs = 50_000 if arguments.quick else arguments.pairs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few = min(pairs, 200_000)
        held_out = apart(generate, folder, "held_out", 2_000, 2)
        train = apart(generate, folder, "train", few, 1)
        vocab = apart(learn, train)
        values = apart(speed, folder, settings(train, held_out, few), vocab)
        values |= growth(folder, held_out, vocab, pairs)
    print(json.dumps({"bench": "prepare", "values": {name: round(value, 4) for name, value in values.items()}}))


if __name__ == "__main__":
    main()
