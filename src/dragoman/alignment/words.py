"""Word links between lines and translations, from the attention of alignment heads.

Words are the whitespace-separated words of the original lines, before cleaning. This module does not import torch: any
engine that exposes its attention can align.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from dragoman.alignment.links import Links, WordMap, links, word_map
from dragoman.alignment.tokens import Tokens
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.text.cleaning import clean_line
from dragoman.text.subwords import Subwords
from dragoman.text.vocab import EOS, Vocab
from dragoman.translation.results import Segment
from dragoman.translation.verbatim import shorten


class TokenPair(NamedTuple):
    """A tokenized line pair.

    In both `Tokens`, `text` and `words` refer to the original line, `pieces` and `spans` to the cleaned line.
    """

    source: Tokens
    target: Tokens


class SegmentAligner:
    """The base class of word aligners; subclasses read the attention of PyTorch models or CTranslate2 exports."""

    vocab: Vocab
    longest: int | None
    """The most tokens of a source or target; None: no limit."""

    def word_maps(self, pairs: Sequence[TokenPair]) -> list[WordMap]:
        """Return the attention weight of each target word on each source word, for every pair."""
        raise NotImplementedError

    def links_of(self, lines: Sequence[str], translations: Sequence[Sequence[Segment] | str]) -> list[Links]:
        """Return the word links between each line and its translation, aligned by the generated tokens.

        A translation given as text, which was assembled around protected strings, is tokenized again; if it is too long
        for the model, it has no links.
        """
        pairs = [self._pairs_of(*each) for each in zip(lines, translations, strict=True)]
        maps = iter(self.word_maps([pair for of_line in pairs for pair in of_line]))
        return [frozenset().union(*(links(next(maps)) for _ in of_line)) for of_line in pairs]

    def _pairs_of(self, line: str, translation: Sequence[Segment] | str) -> list[TokenPair]:
        if not isinstance(translation, str):
            return _pairs_of_parts(self.vocab, line, translation)
        if not filled_pairs([line], [translation]):
            return []
        pair = tokenize_pair(self.vocab, *shorten(line, translation))
        return [pair] if self.longest is None or max(map(len, pair)) <= self.longest else []


def tokenize_pair(vocab: Vocab, source: str, target: str) -> TokenPair:
    """Clean and tokenize a line pair; word indices refer to the original lines."""
    return TokenPair(_tokenize(vocab.source, source), _tokenize(vocab.target, target))


def filled_pairs(sources: Sequence[str], targets: Sequence[str]) -> list[int]:
    """Return the indices of the line pairs in which neither line is blank."""
    return [i for i, pair in enumerate(zip(sources, targets, strict=True)) if all(map(str.split, pair))]


def merge_to_words(weights: Mapping[AlignmentHead, Float[ndarray, "target source"]], pair: TokenPair) -> WordMap:
    """Merge the token weights of alignment heads into word weights; padding is ignored.

    If there are several heads, the weights of each target word are scaled to sum to 1 and then averaged over the heads,
    as norms differ in scale.
    """
    source, target = pair
    num_words = len(source.text.split()), len(target.text.split())
    maps = [
        word_map(of_head[: len(target), : len(source)], source.words, target.words, head.rows, num_words)
        for head, of_head in weights.items()
    ]
    if len(maps) == 1:
        return maps[0]
    totals = [weights.words.sum(-1) + weights.eos for weights in maps]
    scales = [np.divide(1, total, out=np.zeros_like(total), where=total > 0) for total in totals]
    words = [weights.words * scale[:, None] for weights, scale in zip(maps, scales, strict=True)]
    eos = [weights.eos * scale for weights, scale in zip(maps, scales, strict=True)]
    return WordMap(np.mean(words, axis=0), np.mean(eos, axis=0))


def word_numbers(line: str, texts: Sequence[str]) -> list[list[int]]:
    """Return, for each word of each cleaned segment, the index of the word in the original line.

    Cleaning may drop, split or join words, and a long line may be split within a word. So words are matched by
    character count: a word gets the index of the original word that contains the first character.
    """
    owners = [i for i, word in enumerate(line.split()) for _ in range(_num_letters(clean_line(word)))] or [0]
    numbers, reached = [], 0
    for text in texts:
        of_text = []
        for word in text.split():
            of_text.append(owners[min(reached, len(owners) - 1)])
            reached += _num_letters(word)
        numbers.append(of_text)
    return numbers


def _tokenize(subwords: Subwords, line: str) -> Tokens:
    text = clean_line(line)
    return _renumber(Tokens.from_text(subwords, text), word_numbers(line, [text])[0], line)


def _pairs_of_parts(vocab: Vocab, line: str, parts: Sequence[Segment]) -> list[TokenPair]:
    """Return a token pair for each translated segment of a line, with words numbered across the whole line."""
    text = " ".join(part.text for part in parts)
    numbers = word_numbers(line, [part.source for part in parts])
    pairs, before = [], 0
    for part, of_part in zip(parts, numbers, strict=True):
        after = before + len(part.text.split())
        if not part.kept:
            source = Tokens.from_text(vocab.source, part.source)
            target = Tokens.from_ids(vocab.target, [*part.tokens, EOS])
            pairs.append(TokenPair(_renumber(source, of_part, line), _renumber(target, range(before, after), text)))
        before = after
    return pairs


def _num_letters(text: str) -> int:
    """Return the number of visible characters; cleaning may remove spaces and invisible characters."""
    return sum(not letter.isspace() and unicodedata.category(letter) != "Cf" for letter in text)


def _renumber(tokens: Tokens, numbers: Sequence[int], text: str) -> Tokens:
    return replace(tokens, text=text, words=tuple(-1 if word < 0 else numbers[word] for word in tokens.words))
