"""Word links of training pairs, and the attention weights between tokens that follow from them.

Links are read from a file in Moses format, with a line such as `0-0 1-2` for each pair: source word, target word, both
counted from 0. They are stored in the shards as a flat list for each pair: 0, 0, 1, 2.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float32, Int32, Int64
from numpy import ndarray

from dragoman.data.corpus import Chunk, CorpusConfig
from dragoman.data.corpus_formats import split_lines
from dragoman.data.text_changes import TextPair
from dragoman.io.streams import read_blocks
from dragoman.text.ragged import Ragged
from dragoman.text.subwords import Subwords
from dragoman.text.vocab import EOS, PAD, Vocab

_EACH_PAIR: Final = "give a line of links for each pair"
_LINK: Final = re.compile(rb"([0-9]{1,5})-([0-9]{1,5})")


class LinkedPair(NamedTuple):
    """The links of a pair as text, and its sides before and after cleaning."""

    line: int
    """The line number, from 0."""
    links: bytes
    raw: tuple[bytes, bytes]
    clean: tuple[str, str]


def attach_links(chunks: Iterable[Chunk], corpus: CorpusConfig) -> Iterator[Chunk]:
    """Yield the chunks of a corpus with the word links from its file of links, if it has one.

    Raise ValueError if the file does not have a line for each pair.
    """
    if corpus.links is None:
        yield from chunks
        return
    blocks = (lines.text.to_pylist() for lines in split_lines(read_blocks(corpus.links)))
    lines = chain.from_iterable(blocks)
    for chunk in chunks:
        of_chunk = list(islice(lines, len(chunk)))
        if len(of_chunk) < len(chunk):
            raise ValueError(f"{corpus.links} has fewer lines than {corpus.source} has pairs: {_EACH_PAIR}")
        yield replace(chunk, links=pa.array(of_chunk, pa.large_binary()))
    if next(lines, None) is not None:
        raise ValueError(f"{corpus.links} has more lines than {corpus.source} has pairs: {_EACH_PAIR}")


def parse_links(pairs: Sequence[LinkedPair], address: str) -> Ragged:
    """Return the links of each pair; a pair in which cleaning has changed the number of words has none.

    Raise ValueError if a line has anything but links, or a link to a word that the pair does not have.
    """
    rows: list[list[int]] = []
    for pair in pairs:
        num_words = [len(side.decode(errors="replace").split()) for side in pair.raw]
        numbers: list[int] = []
        for link in pair.links.split():
            parts = _LINK.fullmatch(link)
            where = f"{address}, line {pair.line + 1}: {link.decode(errors='replace')!r}"
            if parts is None:
                raise ValueError(f"{where} is not a link: write source word and target word as 0-1, counted from 0")
            source, target = int(parts[1]), int(parts[2])
            if source >= num_words[0] or target >= num_words[1]:
                size = f"{num_words[0]} source and {num_words[1]} target words"
                raise ValueError(f"{where}, but there are {size}: give the links of this corpus, the source word first")
            numbers += (source, target)
        rows.append(numbers if num_words == [len(side.split()) for side in pair.clean] else [])
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return Ragged(np.array([number for row in rows for number in row], np.int32), offsets)


def no_links(num_rows: int) -> Ragged:
    """Return rows without links."""
    return Ragged(np.zeros(0, np.int32), np.zeros(num_rows + 1, np.int64))


def join_links(links: Ragged, pairs: Sequence[TextPair], joined: Sequence[tuple[int, ...]]) -> Ragged:
    """Return the links of pairs that follow each other as one pair, for each tuple of their rows."""
    num_words = np.array([[len(side.split()) for side in pair] for pair in pairs], np.int64).reshape(-1, 2)
    rows = np.array([row for group in joined for row in group], np.int64)
    group_ends = np.cumsum([0, *map(len, joined)])
    before = np.cumsum(num_words[rows], axis=0) - num_words[rows]
    before -= np.repeat(before[group_ends[:-1]], np.diff(group_ends), axis=0)
    taken = links.take(rows)
    ids = taken.ids.reshape(-1, 2) + np.repeat(before, taken.lengths // 2, axis=0)
    return Ragged(ids.ravel().astype(np.int32), taken.offsets[group_ends])


class WordStarts(NamedTuple):
    """For each token id of a vocabulary, whether the token begins a word."""

    source: Bool[ndarray, " source_ids"]
    target: Bool[ndarray, " target_ids"]

    @staticmethod
    def of(vocab: Vocab) -> "WordStarts":
        """Return the word starts of a vocabulary."""
        return WordStarts(_starts(vocab.source), _starts(vocab.target))


def _starts(subwords: Subwords) -> Bool[ndarray, " ids"]:
    return np.array([piece.startswith("▁") for piece in subwords.pieces])


def token_weights(
    links: Ragged, source: Int32[ndarray, "rows source"], target: Int32[ndarray, "rows target"], starts: WordStarts
) -> Float32[ndarray, "rows target source"]:
    """Return the weight of each target token on each source token: equal weights on all tokens of the linked words.

    The weights of a target token sum to 1; those of a token without links are 0.
    """
    source_word, target_word = _words(source, starts.source), _words(target, starts.target)
    row = np.repeat(np.arange(links.num_rows), links.lengths // 2)
    numbers = links.ids.reshape(-1, 2)
    # A row and a column more than there are words, for tokens that belong to no word.
    shape = np.maximum([target_word.max(initial=-1), source_word.max(initial=-1)], numbers[:, ::-1].max(0, initial=-1))
    is_linked = np.zeros((len(source), *(shape + 2)), np.bool_)
    is_linked[row, numbers[:, 1], numbers[:, 0]] = True
    rows = np.arange(len(source))[:, None, None]
    weights = is_linked[rows, target_word[:, :, None], source_word[:, None, :]].astype(np.float32)
    return np.asarray(weights / np.maximum(weights.sum(-1, keepdims=True), 1.0))


def _words(ids: Int32[ndarray, "rows length"], starts: Bool[ndarray, " ids"]) -> Int64[ndarray, "rows length"]:
    """Return the index of the word that each token belongs to; -1 for EOS and padding."""
    words = np.cumsum(starts[ids], axis=1) - 1
    return np.where((ids == EOS) | (ids == PAD), -1, words)
