"""IBM model 1 on arrays: how much better the words of a target fit its source than they fit any source.

Built for one question, whether two lines belong together, so words are cut to stems and rare stems share ids: the table
of probabilities is dense and a lookup is one index. `alignment` links words with a trained model; this needs none.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Float32, Float64, Int32, Int64
from numpy import ndarray

from dragoman.text.column_cleaning import Texts

Rows = Int64[ndarray, " _rows"]
"""Indices of lines, or a number for each line."""
Gains = Float64[ndarray, " _pairs"]

_STEM: Final = 5
"""The number of characters kept of each word: inflected forms, and names in both languages, become the same stem."""

_LONGEST: Final = 24
"""The number of stems read per line; more cost time and tell little."""

_FREQUENT: Final = 1_200
_BUCKETS: Final = 300
"""Frequent stems have an id; all other stems share these many ids."""

_KNOWN: Final = 3
"""The number of occurrences from which a stem counts as known."""

_SPARE: Final = 5.0
"""The weight of the overall frequencies beside the counts: a stem that was seen once predicts nothing."""

_MAX_GAIN: Final = 5.0
"""The maximum gain of one stem, so that a single name does not outweigh all other words."""

_PAIRS_AT_ONCE: Final = 10_000
_NOT_IN_WORDS: Final = r"[^\p{L}\p{M}\p{N}]+"
_UNSPACED: Final = r"([\x{0e00}-\x{0eff}\x{1000}-\x{109f}\x{1780}-\x{17ff}\x{3040}-\x{30ff}\x{3400}-\x{9fff}])"


class Stems(NamedTuple):
    """The stems of one side, concatenated; line i begins at `starts[i]` and has `lengths[i]` of them to read."""

    stems: Int32[ndarray, " stems"]
    """The same number for the same stem on both sides."""
    ids: Int32[ndarray, " stems"]
    """The row or column of each stem in a table of probabilities."""
    starts: Rows
    lengths: Rows
    num_known: Rows
    """The number of stems per line that occur several times, so that a model can have learned them."""
    stem_share: Float64[ndarray, " stem_types"]
    id_share: Float64[ndarray, " ids"]
    """Relative frequencies."""
    is_spelled: bool
    """True if most lines are single words, whose characters are the stems."""


def split_stems(source: Texts, target: Texts) -> tuple[Stems, Stems]:
    """Split both sides into stems and number them."""
    left, right = _split(source), _split(target)
    both = pa.concat_arrays([left.stems, right.stems]).dictionary_encode()
    numbers = both.indices.to_numpy(zero_copy_only=False)
    parts, num_types = np.split(numbers, [len(left.stems)]), len(both.dictionary)
    return _number(parts[0], num_types, left), _number(parts[1], num_types, right)


class _SplitText(NamedTuple):
    stems: Texts
    lengths: Rows
    is_spelled: bool


def _split(text: Texts) -> _SplitText:
    """Return the stems of all lines and their number per line; single words are split into characters."""
    text = pc.replace_substring_regex(pc.utf8_lower(text), _NOT_IN_WORDS, " ")
    text = pc.utf8_trim_whitespace(pc.replace_substring_regex(text, _UNSPACED, r" \1 "))
    if is_spelled := pc.mean(pc.count_substring(text, " ")).as_py() < 1:
        text = pc.utf8_rtrim_whitespace(pc.replace_substring_regex(text, r"(\S)", r"\1 "))
    words = pc.utf8_split_whitespace(text)
    is_filled = pc.greater(pc.binary_length(text), 0)  # the words of an empty line are one empty word
    lengths = pc.if_else(is_filled, pc.list_value_length(words), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return _SplitText(pc.utf8_slice_codeunits(words.filter(is_filled).flatten(), 0, _STEM), lengths, is_spelled)


def _number(stems: Int32[ndarray, " stems"], num_types: int, text: _SplitText) -> Stems:
    counts = np.bincount(stems, minlength=num_types)
    rank = np.empty(num_types, np.int32)
    rank[np.argsort(-counts, kind="stable")] = np.arange(num_types)
    id_of_type = np.where(rank < _FREQUENT, rank, _FREQUENT + rank % _BUCKETS)
    ids = id_of_type[stems]
    total = max(1, len(stems))
    id_share = np.bincount(ids, minlength=int(ids.max(initial=0)) + 1) / total
    starts, read = np.cumsum(text.lengths) - text.lengths, np.minimum(text.lengths, _LONGEST)
    known = np.concatenate([[0], np.cumsum(counts[stems] >= _KNOWN)])
    num_known = known[starts + read] - known[starts]
    return Stems(stems, ids, starts, read, num_known, counts / total, id_share, text.is_spelled)


class _Cells(NamedTuple):
    """Each target stem of the pairs with each source stem of its pair, in the order of the target stems."""

    place: Int32[ndarray, " cells"]
    """The place of the two stems in a table of probabilities."""
    is_same: Bool[ndarray, " cells"]
    starts: Int64[ndarray, " target_stems"]
    width: Int64[ndarray, " target_stems"]
    pair: Int64[ndarray, " target_stems"]
    id_share: Float64[ndarray, " target_stems"]
    stem_share: Float64[ndarray, " target_stems"]

    def mean_of(self, values: Float[ndarray, " cells"]) -> Float[ndarray, " target_stems"]:
        return np.asarray(np.add.reduceat(values, self.starts) / self.width)

    @property
    def copies(self) -> Float64[ndarray, " target_stems"]:
        """How much more frequent each target stem is among the source stems than in the text."""
        return np.asarray(self.mean_of(self.is_same.astype(np.float32)) / self.stem_share)


def _cross(source: Stems, target: Stems, source_rows: Rows, target_rows: Rows) -> _Cells:
    num_source, num_target = source.lengths[source_rows], target.lengths[target_rows]
    num_target = np.where(num_source > 0, num_target, 0)
    pair = np.repeat(np.arange(len(source_rows)), num_target)
    first = target.starts[target_rows] - (np.cumsum(num_target) - num_target)
    to = np.arange(len(pair)) + first[pair]
    width = num_source[pair]
    starts = np.cumsum(width) - width
    of_source = np.arange(int(width.sum())) + np.repeat(source.starts[source_rows][pair] - starts, width)
    place = source.ids[of_source] * np.int32(len(target.id_share)) + np.repeat(target.ids[to], width)
    is_same = source.stems[of_source] == np.repeat(target.stems[to], width)
    shares = target.id_share[target.ids[to]], target.stem_share[target.stems[to]]
    return _Cells(place, is_same, starts, width, pair, *shares)


class LexicalModel(NamedTuple):
    """The probability of each target id given a source id, and the parts of the mixture that explains a target stem."""

    table: Float32[ndarray, " cells_of_table"]
    translated: float
    copied: float
    unrelated: float

    def gains(self, source: Stems, target: Stems, source_rows: Rows, target_rows: Rows) -> Gains:
        """Return, for each pair, the sum over target stems of log(probability given the source / frequency)."""
        gains = np.zeros(len(source_rows))
        for start in range(0, len(source_rows), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            cells = _cross(source, target, source_rows[part], target_rows[part])
            if len(cells.place):
                ratio = self.translated * cells.mean_of(self.table[cells.place]) / cells.id_share
                ratio += self.copied * cells.copies + self.unrelated
                gain = np.minimum(np.log(ratio), _MAX_GAIN)
                gains[part] = np.bincount(cells.pair, gain, len(gains[part]))
        return gains


def train_lexical_model(
    source: Stems, target: Stems, source_rows: Rows, target_rows: Rows, rounds: int = 4
) -> LexicalModel:
    """Train on the given pairs by expectation maximisation; the mixture's parts are estimated too."""
    cells = _cross(source, target, source_rows, target_rows)
    shape = len(source.id_share), len(target.id_share)
    table = np.tile(target.id_share.astype(np.float32), shape[0])
    parts = np.array([0.7, 0.05, 0.25])
    if not len(cells.place):
        return LexicalModel(table, *parts.tolist())
    copies = cells.copies
    for _ in range(rounds):
        share = table[cells.place].astype(np.float64)
        mean = cells.mean_of(share)
        posterior = parts[:, None] * np.stack([mean / cells.id_share, copies, np.ones(len(mean))])
        posterior /= posterior.sum(0)
        parts = np.maximum(posterior.mean(1), [0.05, 0.001, 0.05])
        parts /= parts.sum()
        share *= np.repeat(posterior[0] / (mean * cells.width), cells.width)
        counts = np.bincount(cells.place, share, shape[0] * shape[1]).reshape(shape)
        totals = counts.sum(1, keepdims=True)
        table = ((counts + _SPARE * target.id_share) / (totals + _SPARE)).astype(np.float32).ravel()
    return LexicalModel(table, *parts.tolist())
