"""The words of a line and of its translation, counted as they stand, and links between them from what heads gave.

Words are those of the lines, split at white space, whatever mending made of them before the model read them. No torch
here: any engine that shows its attention can align.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from dragoman.data.alignment import AlignmentHead, LinkRule, Links, WordMap, links, word_map
from dragoman.data.characters import mended
from dragoman.data.subwords import Subwords
from dragoman.data.vocab import EOS, Vocab
from dragoman.decoding.translator import Part
from dragoman.inspection import segmentation
from dragoman.inspection.trace import Tokens


class Sides(NamedTuple):
    """A pair as the model reads it. `text` and `words` are of the lines; pieces and spans, of the mended text."""

    source: Tokens
    target: Tokens


WordMaps = Callable[[Sequence[Sides]], list[WordMap]]
"""What each target word gave to each source word, pair by pair: an engine's part in aligning."""


def sides_of(vocab: Vocab, source: str, target: str) -> Sides:
    """Two lines as a model reads them."""
    return Sides(*(_read(subwords, line) for subwords, line in ((vocab.source, source), (vocab.target, target))))


def links_written(
    vocab: Vocab, lines: Sequence[str], translations: Sequence[Sequence[Part]], word_maps: WordMaps, rule: LinkRule
) -> list[Links]:
    """Those of lines and of what a translator wrote for them, token by token as it was written."""
    sides = [_written(vocab, *pair) for pair in zip(lines, translations, strict=True)]
    maps = iter(word_maps([part for parts in sides for part in parts]))
    return [frozenset().union(*(links(next(maps), rule) for _ in parts)) for parts in sides]


def words_given(weights: Float[ndarray, "target source"], pair: Sides, head: AlignmentHead) -> WordMap:
    """What a head gave from token to token, merged to words; padding is left out."""
    source, target = pair
    real = weights[: len(target), : len(source)]
    return word_map(real, source.words, target.words, head.rows, (len(source.text.split()), len(target.text.split())))


def mean_given(maps: Sequence[WordMap]) -> WordMap:
    """Of several heads, each word's weights as shares: norms have no common size."""
    if len(maps) == 1:
        return maps[0]
    totals = [given.words.sum(-1) + given.eos for given in maps]
    scales = [np.divide(1, total, out=np.zeros_like(total), where=total > 0) for total in totals]
    words = [given.words * scale[:, None] for given, scale in zip(maps, scales, strict=True)]
    eos = [given.eos * scale for given, scale in zip(maps, scales, strict=True)]
    return WordMap(np.mean(words, axis=0), np.mean(eos, axis=0))


def word_numbers(line: str, read: Sequence[str]) -> list[list[int]]:
    """For each text that a model read of a line, one after the other, where in the line each of its words stands.

    Mending may take a word away, split it or join two, and what is too long is cut even within a word. So it goes by
    letters: a word of the text is the one of the line that its first letter comes from.
    """
    owners = [i for i, word in enumerate(line.split()) for _ in range(_letters(mended(word)))] or [0]
    found, place = [], 0
    for text in read:
        numbers = []
        for word in text.split():
            numbers.append(owners[min(place, len(owners) - 1)])
            place += _letters(word)
        found.append(numbers)
    return found


def _read(subwords: Subwords, line: str) -> Tokens:
    text = mended(line)
    return _counted(segmentation.of_text(subwords, text), word_numbers(line, [text])[0], line)


def _written(vocab: Vocab, line: str, parts: Sequence[Part]) -> list[Sides]:
    """A line and its translation, part by part, their words counted through."""
    text = " ".join(part.text for part in parts)
    numbers = word_numbers(line, [part.source for part in parts])
    sides, before = [], 0
    for part, own in zip(parts, numbers, strict=True):
        source = segmentation.of_text(vocab.source, part.source)
        target = segmentation.of_ids(vocab.target, [*part.tokens, EOS])
        after = before + len(part.text.split())
        sides.append(Sides(_counted(source, own, line), _counted(target, range(before, after), text)))
        before = after
    return sides


def _letters(text: str) -> int:
    """Without spaces, and without what is invisible: whether that is mended depends on the whole line."""
    return sum(not letter.isspace() and unicodedata.category(letter) != "Cf" for letter in text)


def _counted(tokens: Tokens, numbers: Sequence[int], text: str) -> Tokens:
    return replace(tokens, text=text, words=tuple(-1 if word < 0 else numbers[word] for word in tokens.words))
