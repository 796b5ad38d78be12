"""Words and short phrases with their translations, mined from sentence pairs by the word aligner.

A model trained on sentences translates single words poorly: it has never seen a text of one word. A phrase is up to
three consecutive source words that the aligner links in both directions, one to one, to as many consecutive target
words (Och and Ney, 2004, section 3.2, for one-to-one links).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from dragoman.data.text_changes import TextPair
from dragoman.data.word_aligner import PUNCTUATION, align_both_directions
from dragoman.io.progress import Progress, ignore_progress

MAX_WORDS: Final = 3
_MIN_COUNT: Final = 3
_MIN_SHARE: Final = 0.4
"""The share of a phrase's occurrences in which it must have its most frequent translation."""


class _Side(NamedTuple):
    """The words of all lines of one side, without the punctuation around them."""

    words: list[str]
    lengths: Int64[ndarray, " lines"]
    is_joined: Bool[ndarray, " words"]
    """True if the next word belongs to the same line, and no punctuation separates the two."""


def mine_phrases(
    sources: Sequence[str], targets: Sequence[str], progress: Progress = ignore_progress
) -> list[TextPair]:
    """Return words and phrases that occur several times with the same translation, the most frequent first."""
    forward, backward = align_both_directions(sources, targets, progress)
    source, target = _split(sources), _split(targets)
    linked = _link_one_to_one(forward, backward, source.lengths, target.lengths)
    counts: Counter[TextPair] = Counter()
    for num_words in range(1, MAX_WORDS + 1):
        counts.update(_extract(source, target, linked, num_words))
    return _choose_frequent(counts)


def _split(lines: Sequence[str]) -> _Side:
    """Split lines into words; a word at the start of a line is written as it is elsewhere."""
    split = [line.split() for line in lines]
    plain = {word: PUNCTUATION.sub("", word) for words in split for word in words}
    inside = Counter(plain[word] for words in split for word in words[1:])
    usual: dict[str, str] = {}
    for word, _ in inside.most_common():
        usual.setdefault(word.lower(), word)
    names, is_joined = [], []
    for words in split:
        for i, word in enumerate(words):
            name = plain[word]
            names.append(usual.get(name.lower(), name) if i == 0 else name)
            after = words[i + 1] if i + 1 < len(words) else ""
            is_joined.append(bool(after and word.endswith(name) and after.startswith(plain[after])))
    return _Side(names, np.array([len(words) for words in split]), np.array(is_joined, bool))


def _link_one_to_one(
    forward: Sequence[Int64[ndarray, " _target"]],
    backward: Sequence[Int64[ndarray, " _source"]],
    source: Int64[ndarray, " lines"],
    target: Int64[ndarray, " lines"],
) -> Int64[ndarray, " source_words"]:
    """Return the target word of each source word that is linked in both directions, counted over all lines, or -1."""
    source_starts, target_starts = np.cumsum(source) - source, np.cumsum(target) - target
    there, back = (np.concatenate([np.zeros(0, np.int64), *best]) for best in (forward, backward))
    to_target = np.where(back >= 0, back + np.repeat(target_starts, source), -1)
    to_source = np.where(there >= 0, there + np.repeat(source_starts, target), -1)
    returned = to_source[to_target] if len(to_source) else to_target
    return np.where((to_target >= 0) & (returned == np.arange(len(to_target))), to_target, -1)


def _extract(source: _Side, target: _Side, linked: Int64[ndarray, " words"], num_words: int) -> Iterable[TextPair]:
    """Yield every occurrence of a phrase with this number of words."""
    last = num_words - 1
    first = np.arange(max(0, len(linked) - last))
    inside = np.stack([linked[first + i] for i in range(num_words)])
    low = inside.min(0)
    is_phrase = (low >= 0) & (inside.max(0) - low == last)
    for i in range(last):
        is_phrase &= source.is_joined[first + i]
        is_phrase[is_phrase] &= target.is_joined[low[is_phrase] + i]
    for start, at in zip(first[is_phrase].tolist(), low[is_phrase].tolist(), strict=True):
        words = source.words[start : start + num_words], target.words[at : at + num_words]
        if all(map(all, words)):
            yield TextPair(*map(" ".join, words))


def _choose_frequent(counts: Counter[TextPair]) -> list[TextPair]:
    """Return each source phrase with its most frequent translation, if that is frequent enough."""
    totals: dict[str, int] = defaultdict(int)
    best: dict[str, TextPair] = {}
    ordered = sorted(counts, key=lambda pair: (-counts[pair], pair))
    for pair in ordered:
        totals[pair.source] += counts[pair]
        best.setdefault(pair.source, pair)
    return [
        pair
        for pair in ordered
        if best[pair.source] is pair
        and counts[pair] >= _MIN_COUNT
        and counts[pair] >= _MIN_SHARE * totals[pair.source]
        and not pair.source.isdecimal()
    ]
