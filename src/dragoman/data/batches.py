"""Batches of sentence pairs: two padded arrays of token ids, read from the shards by batch number."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from jaxtyping import Float32, Int32, Int64
from numpy import ndarray

from dragoman.data.manifest import Prepared
from dragoman.data.order import BatchConfig, BatchRef, CorpusCells, EpochPlan, plan_order
from dragoman.data.shards import Shard, ShardRows, ShardTexts, verify_shard
from dragoman.data.word_links import WordStarts, token_weights
from dragoman.io.durable import FileInfo
from dragoman.text.vocab import PAD, Vocab

MAX_OPEN = 64
"""The maximum number of open shards per reader; an epoch reads one shard of each corpus at a time."""


@dataclass(frozen=True)
class Batch:
    """A batch of sentence pairs with their corpus and line numbers."""

    index: int
    """The batch number over all epochs, which seeds the randomness of the batch."""
    source: Int32[ndarray, "rows source"]
    """Source token ids: each row ends with EOS and is padded with PAD. `target` has the same layout."""
    target: Int32[ndarray, "rows target"]
    corpus: str
    lines: Int64[ndarray, " rows"]
    """The line number of each pair in the corpus, from 0."""
    guide: Float32[ndarray, "rows target source"] | None = None
    """The weights of target tokens on source tokens that follow from word links, if there are any."""

    def __str__(self) -> str:
        """Return a description for messages: the batch number, the line numbers (from 1) and the corpus."""
        return f"batch {self.index}: lines {', '.join(map(str, self.lines + 1))} of {self.corpus}"


class SubwordSampling(NamedTuple):
    """Samples subword segmentations, seeded by the batch number, so that they differ between epochs."""

    vocab: Vocab
    rate: float
    """The sampling rate: the argument `rate` of `Subwords.sample`."""
    seed: int

    def __call__(self, texts: ShardTexts, index: int, language: str | None = None) -> ShardRows:
        """Return sampled token ids for the sentence pairs of the batch with number `index`, into a target language."""
        source = self.vocab.to(language).source.sample(texts.source.to_pylist(), self.rate, (self.seed, index, 0))
        target = self.vocab.target.sample(texts.target.to_pylist(), self.rate, (self.seed, index, 1))
        return ShardRows(source, target)


Sampling = SubwordSampling | None


class CorpusFiles(NamedTuple):
    """The name of a corpus, and its shards in a folder."""

    name: str
    folder: Path
    shards: tuple[FileInfo, ...]
    language: str | None = None
    """The target language, if there are several."""


class AddedCorpora(NamedTuple):
    """Corpora added to a run: a prepared folder that uses the vocabulary of the run."""

    epoch: int
    """The first epoch that contains the added corpora."""
    prepared: Prepared


Added = Sequence[AddedCorpora]


class Reader:
    """Reads batches by number, and verifies each shard when it first reads from the shard.

    Open files are not pickled: each process opens the shards itself.
    """

    def __init__(
        self,
        plan: EpochPlan,
        corpora: Sequence[CorpusFiles],
        sampling: Sampling = None,
        word_starts: WordStarts | None = None,
    ) -> None:
        """Read the shards of the corpora; with `word_starts`, batches have a guide."""
        self.plan = plan
        self.corpora = tuple(corpora)
        self.sampling = sampling
        self.word_starts = word_starts
        self._open = lru_cache(maxsize=MAX_OPEN)(partial(_open_shard, self.corpora, set()))

    @staticmethod
    def of(
        prepared: Prepared,
        config: BatchConfig,
        seed: int,
        sampling: Sampling = None,
        added: Added = (),
        word_starts: WordStarts | None = None,
    ) -> "Reader":
        """Return a reader for a prepared folder and for the folders added to the run."""
        corpora: list[CorpusFiles] = []
        cells: list[CorpusCells] = []
        orders = []
        for epoch, folder in (AddedCorpora(0, prepared), *added):
            for corpus in folder.manifest.corpora:
                shards = (FileInfo(**shard.model_dump(exclude={"num_pairs", "cells"})) for shard in corpus.shards)
                corpora.append(CorpusFiles(corpus.name, folder.folder, tuple(shards), corpus.target_language))
            cells += cells_of(folder)
            orders.append((epoch, plan_order(cells, config, seed)))
        return Reader(EpochPlan.of(orders), corpora, sampling, word_starts)

    def __reduce__(self) -> tuple[type["Reader"], tuple[Any, ...]]:
        return Reader, (self.plan, self.corpora, self.sampling, self.word_starts)

    def __call__(self, index: int) -> Batch:
        """Return the batch with this number, counted over all epochs."""
        return self._read(self.plan.at(index), index)

    def longest(self) -> Batch:
        """Return a batch of the longest pairs, which needs the most memory."""
        return self._read(self.plan.longest(), 0)

    def _read(self, ref: BatchRef, index: int) -> Batch:
        corpus = self.corpora[ref.corpus]
        shard = self._open(ref.corpus, ref.shard)
        if self.sampling is None:
            rows = shard.rows(ref.rows)
        else:
            rows = self.sampling(shard.texts(ref.rows), index, corpus.language)
        source, target = rows.source.padded(PAD), rows.target.padded(PAD)
        links = shard.links(ref.rows) if self.word_starts else None
        guide = token_weights(links, source, target, self.word_starts) if links and self.word_starts else None
        return Batch(index, source, target, corpus.name, shard.lines(ref.rows), guide)


def _open_shard(corpora: Sequence[CorpusFiles], verified: set[Path], corpus: int, shard: int) -> Shard:
    """Open a shard, and verify it the first time."""
    folder, info = corpora[corpus].folder, corpora[corpus].shards[shard]
    if folder / info.file not in verified:
        verify_shard(folder, info)
        verified.add(folder / info.file)
    return Shard(folder / info.file)


def cells_of(prepared: Prepared) -> list[CorpusCells]:
    """Return the weight and the length cells (pairs grouped by source and target length) of each corpus."""
    corpora = prepared.manifest.corpora
    return [CorpusCells(prepared.cells_of(number), corpus.weight) for number, corpus in enumerate(corpora)]
