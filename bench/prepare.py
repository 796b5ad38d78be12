"""Compare `prepare` with bare SentencePiece encoding, and measure its memory with ten times the pairs.

All of it runs on generated pairs, 10 to 12 words a side, with word frequencies after Zipf. `encode_vs_sentencepiece` is
the time of SentencePiece's `encode` on sentences in memory, over the time of encoding them from the intermediate files,
hashing, writing, and gathering them into shards. `prepare_vs_sentencepiece` is the same over all of prepare with a
given vocabulary: reading, cutting, cleaning, leaks and duplicates too. The sides take turns, each in one process and
one thread; a value is the median of the rounds. Rates are pairs per second of processor time. `memory_growth` is the
growth of the peak memory (of the parent and its largest worker, with two workers) from N to ten N pairs, again with a
given vocabulary: the memory of vocabulary training depends only on its sample, and would hide the rest.

    python bench/prepare.py [--pairs 1000000] [--quick]

Ten million pairs take about 10 GB of temporary disk. --quick uses 50,000 and 500,000 pairs.
"""

import itertools
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar
from unittest import mock

import numpy as np
import pyarrow as pa
import sentencepiece
from report import option_parser, print_values

from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.data.pair_cleaning import hold_out, profile_of
from dragoman.data.prepare import PrepareConfig, prepare
from dragoman.data.prepare_tasks import clean_chunk, encode_chunk, gather_shard, load_cleaned, load_raw, save_raw
from dragoman.text.vocab import Vocab, VocabConfig, train_vocab

ResultT = TypeVar("ResultT")

WORDS = 50_000
AT_ONCE = 100_000
SYLLABLES = [first + second for first in "bdfghklmnprstvwz" for second in ("a", "e", "i", "o", "u", "ä", "ei", "en")]


def table_of_words() -> pa.LargeStringArray:
    """Return distinct words of 1 to 4 syllables, each twice: inside a line, and at its end."""
    generator = np.random.default_rng(2017)
    words: dict[str, None] = {}
    while len(words) < WORDS:
        words["".join(generator.choice(SYLLABLES, generator.integers(1, 5)))] = None
    return pa.array([f"{word} " for word in words] + [f"{word}\n" for word in words], pa.large_string())


def generate(folder: Path, name: str, num_pairs: int, seed: int) -> CorpusConfig:
    """Write both sides."""
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
    """Return a config with twenty chunks and two shards for N pairs, ten times as many for ten N."""
    lines, pairs_per_shard = max(1, pairs // 20), max(1, pairs // 2)
    return PrepareConfig(corpora=(train,), held_out=(held_out,), lines_per_chunk=lines, pairs_per_shard=pairs_per_shard)


def clocks() -> np.ndarray:
    """Return wall-clock and processor seconds of this process."""
    return np.array([time.perf_counter(), time.process_time()])


def timed(work: Callable[[], object]) -> np.ndarray:
    begin = clocks()
    work()
    return clocks() - begin


def run_prepare(config: PrepareConfig, vocab: Vocab, num_workers: int) -> np.ndarray:
    """Return the seconds of prepare with a given vocabulary."""
    with tempfile.TemporaryDirectory() as name, mock.patch("dragoman.data.prepare.train_vocab", return_value=vocab):
        return timed(lambda: prepare(config, Path(name), num_workers))


def peak_memory(config: PrepareConfig, vocab: Vocab) -> float:
    """Return the MiB of this process and of its largest worker; call it in a fresh process."""
    run_prepare(config, vocab, num_workers=2)
    return sum(resource.getrusage(scope).ru_maxrss for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024


def run_apart(work: Callable[..., ResultT], *arguments: object) -> ResultT:
    """Run in a fresh process: a process inherits its parent's peak memory, so this one stays small."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def growth(folder: Path, held_out: CorpusConfig, vocab: Vocab, pairs: int) -> dict[str, float]:
    """Measure the peak memory at N and at ten N pairs."""
    peaks = []
    for num_pairs in (pairs, 10 * pairs):
        train = run_apart(generate, folder, "train", num_pairs, 1)
        begin = time.perf_counter()
        peaks.append(run_apart(peak_memory, settings(train, held_out, pairs), vocab))
        seconds = time.perf_counter() - begin
        print(f"{num_pairs:,} pairs, 2 workers: at most {peaks[-1]:.0f} MiB, {seconds:.0f} s", flush=True)
    return {"peak_mib": peaks[0], "peak_mib_tenfold": peaks[1], "memory_growth": peaks[1] / peaks[0] - 1.0}


class Speed:
    """The steps of prepare one by one, in this process, on a corpus that is read and cleaned once."""

    def __init__(self, config: PrepareConfig, vocab: Vocab, work_folder: Path) -> None:
        self.config, self.vocab, self.work_folder = config, vocab, work_folder
        self.bare = sentencepiece.SentencePieceProcessor(model_proto=vocab.source.proto)
        self.seconds: dict[str, list[np.ndarray]] = {name: [] for name in ("bare", "encode", "gather", "prepare")}
        self.seconds["read"] = [timed(self.read)]
        self.num_chunks = len(list(work_folder.glob("*.raw.arrow")))
        profile, held_out = profile_of(load_raw(work_folder, 0), config.clean), hold_out(config.held_out, config.clean)
        clean = partial(clean_chunk, work_folder, config.clean, profile, held_out, config.corpora[0])
        self.seconds["clean"] = [timed(lambda: [clean(chunk) for chunk in range(self.num_chunks)])]
        self.num_pairs = sum(load_cleaned(work_folder, chunk).num_rows for chunk in range(self.num_chunks))

    def read(self) -> None:
        for chunk in read_chunks(self.config.corpora[0], self.config.lines_per_chunk):
            save_raw(self.work_folder, chunk)

    def round(self) -> None:
        """Time each side once, alternating chunk by chunk."""
        num_shards = max(1, round(self.num_pairs / self.config.pairs_per_shard))
        bare, encode = np.zeros(2), np.zeros(2)
        for chunk in range(self.num_chunks):
            batch = load_cleaned(self.work_folder, chunk)
            for side in ("source", "target"):
                sentences = batch.column(side).to_pylist()
                bare += timed(lambda sentences=sentences: self.bare.encode(sentences, num_threads=1))
            encode += timed(partial(encode_chunk, self.work_folder, self.vocab, num_shards, False, chunk))
        gather_one = partial(gather_shard, self.work_folder, self.num_chunks, 0, self.work_folder / "shard", False)
        gather = timed(lambda: [gather_one(shard) for shard in range(num_shards)])
        for name, seconds in {"bare": bare, "encode": encode, "gather": gather}.items():
            self.seconds[name].append(seconds)
        self.seconds["prepare"].append(run_prepare(self.config, self.vocab, num_workers=1))

    def disk(self) -> dict[str, float]:
        """Return the bytes per pair of each kind of file."""
        kinds = {"raw": "*.raw.arrow", "clean": "*.clean.arrow", "encoded": "*.encoded.arrow", "shard": "shard-*.arrow"}
        sizes = {kind: sum(path.stat().st_size for path in self.work_folder.glob(name)) for kind, name in kinds.items()}
        return {f"{kind}_bytes_per_pair": size / self.num_pairs for kind, size in sizes.items()}

    def forget(self) -> None:
        for name in ("*.encoded.arrow", "*.shard.json"):
            for path in self.work_folder.glob(name):
                path.unlink()

    def ratio(self, *steps: str) -> float:
        """Return bare encoding over these steps, the median of the rounds."""
        rounds = zip(self.seconds["bare"], *(self.seconds[step] for step in steps), strict=True)
        return statistics.median(float(bare[0] / sum(ours)[0]) for bare, *ours in rounds)


def speed(folder: Path, config: PrepareConfig, vocab: Vocab, rounds: int) -> dict[str, float]:
    work_folder = folder / "work_folder"
    work_folder.mkdir()
    run = Speed(config, vocab, work_folder)
    for number in range(rounds):
        run.forget()
        run.round()
        taken = ", ".join(f"{name} {seconds[-1][0]:.2f} s" for name, seconds in run.seconds.items())
        print(f"round {number + 1} of {rounds}, {run.num_pairs:,} pairs: {taken}", flush=True)
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
    parser = option_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="N of the memory growth")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="the same as --pairs 50000")
    arguments = parser.parse_args()
    pairs = 50_000 if arguments.quick else arguments.pairs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few = min(pairs, 200_000)
        held_out = run_apart(generate, folder, "held_out", 2_000, 2)
        train = run_apart(generate, folder, "train", few, 1)
        vocab = run_apart(learn, train)
        values = run_apart(speed, folder, settings(train, held_out, few), vocab, arguments.rounds)
        values |= growth(folder, held_out, vocab, pairs)
    print_values("prepare", values, 4)


if __name__ == "__main__":
    main()
