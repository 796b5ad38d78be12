"""A batch: pairs of about the same length, as two padded arrays of token ids, read from the shards by its number."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32, Int64
from numpy import ndarray

from dragoman.data.course import Course
from dragoman.data.manifest import Manifest, Prepared
from dragoman.data.order import BatchConfig, BatchRef, CorpusCells, plan
from dragoman.data.shards import Rows, Shard, Texts
from dragoman.data.vocab import PAD, Vocab

MAX_OPEN = 64
"""Shards a reader keeps open; an epoch is in one shard of each corpus at a time."""


@dataclass(frozen=True)
class Batch:
    """Pairs, and where they come from."""

    index: int
    """Its number, counted through all epochs; whatever is random about the batch is seeded with it."""
    source: Int32[ndarray, "rows source"]
    """Each row ends with EOS and is filled up with PAD; the target too."""
    target: Int32[ndarray, "rows target"]
    corpus: str
    lines: Int64[ndarray, " rows"]
    """Where each pair stood in its corpus, counted from 0."""

    def __str__(self) -> str:
        """To name a batch in a message, with line numbers as editors count them."""
        return f"batch {self.index}: lines {', '.join(map(str, self.lines + 1))} of {self.corpus}"


@dataclass(frozen=True)
class Sampling:
    """Cuts the sentences of each batch into other subwords than usual: the same whenever the batch is made."""

    vocab: Vocab
    rate: float
    """As `Subwords.sample` means it."""
    seed: int

    def __call__(self, texts: Texts, index: int) -> Rows:
        """The ids of the pairs of batch number `index`."""
        source = self.vocab.source.sample(texts.source.to_pylist(), self.rate, (self.seed, index, 0))
        target = self.vocab.target.sample(texts.target.to_pylist(), self.rate, (self.seed, index, 1))
        return Rows(source, target)


@dataclass(frozen=True)
class CorpusFiles:
    """Where the shards of a corpus lie."""

    name: str
    shards: tuple[Path, ...]


class Newcomer(NamedTuple):
    """A prepared folder, of the same vocabulary, that joins others."""

    epoch: int
    """The first that its corpora are part of."""
    prepared: Prepared


class Reader:
    """Makes any batch from its number. Pickled, it travels without its open files: each process opens its own."""

    def __init__(self, course: Course, corpora: Sequence[CorpusFiles], sampling: Sampling | None = None) -> None:
        self.course = course
        self.corpora = tuple(corpora)
        self.sampling = sampling
        self._open = lru_cache(maxsize=MAX_OPEN)(Shard)

    @staticmethod
    def of(
        prepared: Prepared,
        config: BatchConfig,
        seed: int,
        sampling: Sampling | None = None,
        newcomers: Sequence[Newcomer] = (),
    ) -> "Reader":
        """The batches of a prepared folder, and of those that join it."""
        corpora: list[CorpusFiles] = []
        cells: list[CorpusCells] = []
        orders = []
        for epoch, folder in (Newcomer(0, prepared), *newcomers):
            corpora += _files_of(folder)
            cells += cells_of(folder.manifest)
            orders.append((epoch, plan(cells, config, seed)))
        return Reader(Course.of(orders), corpora, sampling)

    def __reduce__(self) -> tuple[type["Reader"], tuple[Course, tuple[CorpusFiles, ...], Sampling | None]]:
        return Reader, (self.course, self.corpora, self.sampling)

    def __call__(self, index: int) -> Batch:
        """The batch of this number, counted through all epochs."""
        return self._read(self.course.at(index), index)

    def longest(self) -> Batch:
        """A batch of the longest pairs, to try whether memory is enough."""
        return self._read(self.course.longest(), 0)

    def _read(self, ref: BatchRef, index: int) -> Batch:
        corpus = self.corpora[ref.corpus]
        shard = self._open(corpus.shards[ref.shard])
        rows = shard.rows(ref.rows) if self.sampling is None else self.sampling(shard.texts(ref.rows), index)
        return Batch(index, rows.source.padded(PAD), rows.target.padded(PAD), corpus.name, shard.lines(ref.rows))


def _files_of(prepared: Prepared) -> list[CorpusFiles]:
    return [
        CorpusFiles(corpus.name, tuple(prepared.folder / shard.file for shard in corpus.shards))
        for corpus in prepared.manifest.corpora
    ]


def cells_of(manifest: Manifest) -> list[CorpusCells]:
    """All that the order of the batches depends on, beside the budget and the seed."""
    return [
        CorpusCells([np.array(shard.cells, np.int64).reshape(-1, 3) for shard in corpus.shards], corpus.weight)
        for corpus in manifest.corpora
    ]
