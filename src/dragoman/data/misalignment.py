"""Find targets that do not belong to their sources: lines shuffled, or shifted by a constant offset.

Each pair is compared with random pairs of the same lines. A lexical model (stems, names, numbers) and the lengths give
a score; a logistic regression turns it into the log odds that a pair is a pair of the file rather than a random one.
Every line is judged by a model of other lines, so that misaligned lines cannot explain themselves. The share of pairs
that look like random ones estimates scattered misalignment, and a Viterbi path over the lines finds blocks: shuffled,
or aligned with another line.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float64, Int64
from numpy import ndarray

from dragoman.data.corpus import Chunk, CorpusConfig, read_chunks
from dragoman.data.lexical_model import Gains, LexicalModel, Rows, Stems, split_stems, train_lexical_model
from dragoman.io.progress import Progress, ignore_progress
from dragoman.text.column_cleaning import Texts

Odds = Float64[ndarray, " _pairs"]

MIN_PAIRS: Final = 350
"""The minimum number of pairs with enough known words: on fewer, loose translations look like random pairs."""

_DISTINCT: Final = 0.3
"""The minimum share of distinct lines on each side: among few targets, many random ones are right."""

_TOLERATED: Final = 0.02
_TOLERATED_ROWS: Final = 4
"""The share and the number of misaligned pairs up to which nothing is reported unless they stand together."""

_POWER: Final = 0.55
"""The minimum share of aligned pairs that must fit better than 95% of the random ones."""

_STRONG: Final = 0.8
"""The share of such pairs from which even loose translations do not look like random pairs."""

_MANY: Final = 0.3
"""The share of misaligned pairs from which the shape of their odds can be tested, and other offsets are tried."""

_HARDLY_ANY: Final = 0.6
"""The share of misaligned pairs from which too few pairs fit for the model to have learned from them."""

_NEAR: Final = 20
_FEW: Final = 2_000
"""The largest offset that is tried for the whole file, and the number of pairs to learn from and to test with."""

_NEIGHBOURS: Final = 5
_SHORT_FILE: Final = 10_000
"""The largest offset that every line of a short file is tried with. In a long file it is 1: blocks are long."""

_MOST_OFFSETS: Final = 40
"""The number of offsets from which no more are added."""

_LINES_PER_PART: Final = 500
_PARTS: Final = 400
"""A corpus of more parts is tested by every second, fourth, ... part."""

_SAMPLE: Final = 10_000
"""The maximum number of pairs a lexical model learns from."""

_FOLD: Final = 16
"""Lines in a row that are judged by the same model: neighbours are often alike."""

_FARTHEST: Final = 200
"""The largest offset that is tried for a block."""

_PROBE: Final = 100
"""Lines of a block with which offsets are tried."""

_SWITCH: Final = 15.0
"""The log odds that a change of the alignment costs."""

_SHORTEST: Final = 20
"""The minimum number of lines in a block."""

_STEPS: Final = 25_000
"""The maximum number of steps of the Viterbi path; in longer files, a step is several lines."""

_MOST: Final = 4.0
"""The largest log odds of one line in a path, so that a few lines do not decide about a block."""


class Block(NamedTuple):
    """Consecutive misaligned lines: the source of line i and the target of line i + offset are a pair."""

    start: int
    """The first line, from 0."""
    end: int
    """The line after the last one."""
    offset: int | None
    """None if no offset fits: the targets are shuffled, or their sources are missing."""


class LineAlignment(NamedTuple):
    """The result of the test: the estimated share of misaligned pairs, and where they are."""

    share: float
    first: int | None = None
    """The first suspicious line, from 0; None if the pairs are aligned."""
    blocks: tuple[Block, ...] = ()
    """The misaligned lines that stand together."""
    num_lines: int = 0
    """The number of pairs in the corpus."""
    is_sample: bool = False
    """True if the corpus is long and parts of it were tested: `first` and `blocks` are then inexact."""


class NotJudged(NamedTuple):
    """No result: the pairs do not show whether they are aligned."""

    reason: str


_TOO_FEW: Final = NotJudged(f"fewer than {MIN_PAIRS} pairs have words that recur")
_REPEATED: Final = NotJudged("most lines of one side are repetitions")
_SINGLE_WORDS: Final = NotJudged("both sides are single words, whose letters do not show which belong together")
_LIKE_RANDOM: Final = NotJudged("the pairs differ too little from random ones")


def check_corpus_alignment(corpus: CorpusConfig, progress: Progress = ignore_progress) -> LineAlignment | NotJudged:
    """Test the line alignment of a corpus, or of parts of a long one."""
    every, held, num_lines = 1, list[Chunk](), 0
    for chunk in read_chunks(corpus, _LINES_PER_PART):
        num_lines = chunk.first_line + len(chunk)
        if chunk.index % every == 0:
            held.append(chunk)
        if len(held) > _PARTS:
            held, every = held[::2], 2 * every
    if not held:
        return _TOO_FEW
    progress(f"check the alignment of {corpus.name}", num_lines, None)
    source, target = (
        pa.concat_arrays([_decode(getattr(chunk, side)) for chunk in held]) for side in ("source", "target")
    )
    lines = np.concatenate([chunk.first_line + np.arange(len(chunk)) for chunk in held])
    result = check_line_alignment(source, target, lines)
    return result if isinstance(result, NotJudged) else result._replace(num_lines=num_lines, is_sample=every > 1)


def _decode(raw: pa.LargeBinaryArray) -> Texts:
    raw = pc.fill_null(raw, b"")
    try:
        return raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        return pa.array([text.decode(errors="replace") for text in raw.to_pylist()], pa.large_string())


def check_line_alignment(source: Texts, target: Texts, lines: Rows | None = None) -> LineAlignment | NotJudged:
    """Test whether targets belong to their sources.

    `lines` are the line numbers of the pairs if they are a sample; offsets are found among consecutive lines.
    """
    if len(source) < MIN_PAIRS:
        return _TOO_FEW
    if min(_share_distinct(source), _share_distinct(target)) < _DISTINCT:
        return _REPEATED
    pairs = _read_pairs(source, target, np.arange(len(source)) if lines is None else lines)
    if pairs.source.is_spelled and pairs.target.is_spelled:
        return _SINGLE_WORDS
    if len(pairs.rows) < MIN_PAIRS:
        return _TOO_FEW
    judge = _train_judge(pairs, 0)
    # In a sorted file that is shifted, targets fit the sources beside their own, but weakly.
    is_weak = judge.unfit_share(judge.aligned) > _MANY or judge.power < _POWER
    if is_weak and (offset := _find_offset(pairs)):
        judge = _train_judge(pairs, offset)
    return _conclude(judge, _find_blocks(judge))


def _conclude(judge: "_Judge", blocks: Sequence[Block]) -> LineAlignment | NotJudged:
    """Return the result, if aligned pairs differ enough from random ones to trust it."""
    rows, lines = judge.pairs.rows, judge.pairs.lines
    own = judge.shifted(0)
    is_trusted = judge.power >= _POWER or judge.is_mixed(own[rows])
    blocks = [block for block in blocks if is_trusted or block.offset is not None]
    if not (is_trusted or blocks):
        return _LIKE_RANDOM
    is_shifted, is_in_block = np.zeros((2, len(lines)), bool)
    for block in blocks:
        is_shifted[block.start : block.end] = block.offset is not None
        is_in_block[block.start : block.end] = True
    unshifted, others = rows[~is_shifted[rows]], rows[~is_in_block[rows]]
    share = 1 - (1 - judge.unfit_share(own[unshifted])) * len(unshifted) / len(rows)
    firsts = [block.start for block in blocks]
    num_scattered = judge.unfit_share(own[others]) * len(others)
    if is_trusted and num_scattered > _TOLERATED * len(rows) + _TOLERATED_ROWS:
        firsts.append(int(others[own[others] < judge.median][0]))
    of_lines = (Block(int(lines[start]), int(lines[end - 1]) + 1, offset) for start, end, offset in blocks)
    return LineAlignment(share, int(lines[min(firsts)]) if firsts else None, tuple(of_lines), len(lines))


def _share_distinct(text: Texts) -> float:
    return float(pc.count_distinct(text).as_py()) / len(text)


class _Pairs(NamedTuple):
    """The lines of both sides."""

    source: Stems
    target: Stems
    source_length: Float64[ndarray, " pairs"]
    target_length: Float64[ndarray, " pairs"]
    """Logarithms of the number of characters."""
    target_text: Int64[ndarray, " pairs"]
    """The same number for the same target."""
    lines: Rows

    @property
    def rows(self) -> Rows:
        """The rows with enough known words to judge them."""
        source, target = self.source.num_known, self.target.num_known
        return np.flatnonzero((np.minimum(source, target) >= 2) & (source + target >= 6))

    def shift(self, rows: Rows, offset: int) -> tuple[Rows, Rows]:
        """Return the rows that have a row `offset` lines later, and those later rows."""
        others = rows + offset
        is_inside = (others >= 0) & (others < len(self.lines))
        rows, others = rows[is_inside], others[is_inside]
        follows = self.lines[others] - self.lines[rows] == offset
        return rows[follows], others[follows]


def _read_pairs(source: Texts, target: Texts, lines: Rows) -> _Pairs:
    left, right = split_stems(source, target)
    lengths = [np.log(pc.utf8_length(side).to_numpy(zero_copy_only=False) + 5.0) for side in (source, target)]
    texts = target.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return _Pairs(left, right, lengths[0], lengths[1], texts, lines)


class _LengthModel(NamedTuple):
    """Target lengths given the source length, and in general."""

    slope: float
    given_source: tuple[float, float]
    in_general: tuple[float, float]
    """The middle and the spread."""

    def gains(self, source: Float64[ndarray, " pairs"], target: Float64[ndarray, " pairs"]) -> Gains:
        """Return log(probability of the target length given the source length / probability in general)."""
        gains = np.zeros(len(source))
        for sign, value, (middle, spread) in (
            (1.0, target - self.slope * source, self.given_source),
            (-1.0, target, self.in_general),
        ):
            gains -= sign * (np.minimum(((value - middle) / spread) ** 2, 16.0) / 2 + np.log(spread))
        return gains


def _train_length_model(source: Float64[ndarray, " pairs"], target: Float64[ndarray, " pairs"]) -> _LengthModel:
    centred = source - source.mean()
    slope = max(0.0, float(centred @ (target - target.mean()) / max(1e-9, float(centred @ centred))))
    return _LengthModel(slope, _middle_and_spread(target - slope * source), _middle_and_spread(target))


def _middle_and_spread(values: Float64[ndarray, " values"]) -> tuple[float, float]:
    middle = float(np.median(values))
    return middle, max(0.02, 1.4826 * float(np.median(np.abs(values - middle))))


class _Scorer(NamedTuple):
    """Models of both directions, two of each: every line is judged by the ones that did not learn from it."""

    pairs: _Pairs
    forward: tuple[LexicalModel, LexicalModel]
    backward: tuple[LexicalModel, LexicalModel]
    length: _LengthModel

    def features(self, rows: Rows, others: Rows) -> Float64[ndarray, "pairs features"]:
        """Return the features of sources with targets, from which a regression computes the log odds."""
        source, target = self.pairs.source, self.pairs.target
        forward, backward = np.zeros((2, len(rows)))
        for fold in (0, 1):
            some = _fold(rows) == fold
            forward[some] = self.forward[1 - fold].gains(source, target, rows[some], others[some])
            backward[some] = self.backward[1 - fold].gains(target, source, others[some], rows[some])
        length = self.length.gains(self.pairs.source_length[rows], self.pairs.target_length[others])
        num_source, num_target = np.maximum(1, source.lengths[rows]), np.maximum(1, target.lengths[others])
        lexical = (forward / num_target, backward / num_source, forward / num_target**0.5, backward / num_source**0.5)
        return np.stack([*lexical, length, np.log(num_target), np.log(num_source), np.ones(len(rows))], axis=1)


def _fold(rows: Rows) -> Rows:
    return rows // _FOLD % 2


def _train_scorer(pairs: _Pairs, offset: int) -> _Scorer:
    draw = np.random.default_rng(1)
    rows, others = pairs.shift(pairs.rows, offset)
    forward, backward = [], []
    for fold in (0, 1):
        some = _sample(np.flatnonzero(_fold(rows) == fold), _SAMPLE, draw)
        forward.append(train_lexical_model(pairs.source, pairs.target, rows[some], others[some]))
        backward.append(train_lexical_model(pairs.target, pairs.source, others[some], rows[some]))
    length = _train_length_model(pairs.source_length[rows], pairs.target_length[others])
    return _Scorer(pairs, (forward[0], forward[1]), (backward[0], backward[1]), length)


def _sample(rows: Rows, size: int, draw: np.random.Generator) -> Rows:
    return rows if len(rows) <= size else np.sort(draw.choice(rows, size, replace=False))


def _random_partners(pairs: _Pairs, draw: np.random.Generator) -> tuple[Rows, Rows]:
    """Return rows with a random other row each, of the same fold and with another target."""
    rows = pairs.rows
    others = rows.copy()
    for fold in (0, 1):
        some = np.flatnonzero(_fold(rows) == fold)
        others[some] = rows[draw.permutation(some)]
    differ = pairs.target_text[rows] != pairs.target_text[others]
    return rows[differ], others[differ]


class _Judge(NamedTuple):
    """A scorer with the weights of its features, and the log odds of aligned and of random pairs."""

    scorer: _Scorer
    offset: int
    weights: Float64[ndarray, " features"]
    aligned: Odds
    random: Odds

    @property
    def pairs(self) -> _Pairs:
        return self.scorer.pairs

    @property
    def median(self) -> float:
        """The median log odds of random pairs: half of the misaligned pairs are below."""
        return float(np.median(self.random))

    def _ratios(self, odds: Odds) -> list[float]:
        """Return how frequent low odds are, against random pairs: below a tenth, a quarter and a half of those.

        Where some pairs are misaligned and the others fit, the three ratios are the share of the misaligned ones. Where
        all pairs are aligned and fit weakly, the lower odds are the rarer ones.
        """
        parts = (0.1, 0.25, 0.5)
        return [float((odds < np.quantile(self.random, part)).mean()) / part if len(odds) else 0.0 for part in parts]

    def unfit_share(self, odds: Odds) -> float:
        """Return the share of pairs that look like random ones."""
        tenth, quarter, half = self._ratios(odds)
        share = min(1.0, half, 2 * quarter)
        return share if self._high >= _STRONG else min(share, 2 * tenth)

    def is_mixed(self, odds: Odds) -> bool:
        """Return True if many pairs look like random ones, rather than all of them a little."""
        tenth, quarter, half = self._ratios(odds)
        return min(quarter, half) >= _HARDLY_ANY or (half >= _MANY and tenth >= 0.75 * half)

    @property
    def _high(self) -> float:
        return float((self.aligned > np.quantile(self.random, 0.95)).mean())

    @property
    def power(self) -> float:
        """The share of aligned pairs that fit better than 95% of the random ones."""
        share = self.unfit_share(self.aligned)
        return (self._high - 0.05 * share) / max(1 - _HARDLY_ANY, 1 - share)

    def odds(self, rows: Rows, others: Rows) -> Odds:
        """Return the log odds that sources and targets are pairs of the file rather than random ones."""
        return np.asarray(self.scorer.features(rows, others) @ self.weights)

    def shifted(self, offset: int) -> Odds:
        """Return, for each row, the log odds with the target `offset` lines later; 0 where there is none."""
        odds = np.zeros(len(self.pairs.lines))
        rows, others = self.pairs.shift(self.pairs.rows, offset)
        odds[rows] = self.odds(rows, others)
        return odds


def _train_judge(pairs: _Pairs, offset: int) -> _Judge:
    scorer = _train_scorer(pairs, offset)
    aligned = scorer.features(*pairs.shift(pairs.rows, offset))
    random = scorer.features(*_random_partners(pairs, np.random.default_rng(2)))
    weights = _fit_logistic(aligned, random)
    return _Judge(scorer, offset, weights, aligned @ weights, random @ weights)


def _fit_logistic(
    positive: Float64[ndarray, "positive features"], negative: Float64[ndarray, "negative features"]
) -> Float64[ndarray, " features"]:
    """Return weights that separate both sets by Newton's method, with equal weight for the sets."""
    x = np.concatenate([positive, negative])
    y = np.repeat([1.0, 0.0], [len(positive), len(negative)])
    weights = np.zeros(x.shape[1])
    for _ in range(8):
        probability = 1 / (1 + np.exp(-np.clip(x @ weights, -20, 20)))
        slope = x.T @ (y - probability) - weights
        curvature = (x * (probability * (1 - probability))[:, None]).T @ x + np.eye(x.shape[1])
        weights += np.linalg.solve(curvature, slope)
    return weights


def _find_offset(pairs: _Pairs) -> int:
    """Return the offset at which a model learns most, among small ones; 0 if no other is better."""
    draw = np.random.default_rng(3)
    gains = {}
    for offset in sorted(range(-_NEAR, _NEAR + 1), key=abs):
        rows, others = pairs.shift(pairs.rows, offset)
        known = _sample(np.flatnonzero(_fold(rows) == 0), _FEW, draw)
        new = _sample(np.flatnonzero(_fold(rows) == 1), _FEW, draw)
        model = train_lexical_model(pairs.source, pairs.target, rows[known], others[known])
        gain = model.gains(pairs.source, pairs.target, rows[new], others[new])
        gain -= model.gains(pairs.source, pairs.target, rows[new], others[draw.permutation(new)])
        gains[offset] = float(gain.mean() / (gain.std() + 1e-9) * len(gain) ** 0.5)
    best = max(gains, key=lambda offset: gains[offset])
    return best if gains[best] > gains[0] + 4 else 0


def _find_blocks(judge: _Judge) -> list[Block]:
    """Return the misaligned blocks, with the offset of each if there is one."""
    near = _NEIGHBOURS if len(judge.pairs.lines) <= _SHORT_FILE else 1
    offsets = sorted({base + step for base in (0, judge.offset) for step in range(-near, near + 1)}, key=abs)
    odds = {offset: judge.shifted(offset) for offset in offsets}
    while True:
        clipped = [np.clip(odds[offset], -_MOST, 2 * _MOST) for offset in odds]
        blocks = []
        for start, end, state in _best_path(np.stack([*clipped, np.zeros(len(judge.pairs.lines))])):
            if state > 0 and end - start >= _SHORTEST:
                blocks.append(Block(start, end, _probe(judge, start, end)))
        added = {block.offset for block in blocks if block.offset is not None} - set(odds)
        if not added or len(odds) > _MOST_OFFSETS:
            break
        odds |= {offset: judge.shifted(offset) for offset in added}
    looks_random = odds[0] < np.quantile(judge.random, 0.75)
    found: list[Block] = []
    for block in blocks:
        is_shuffled = block.offset is None and _mean_of(looks_random, judge.pairs.rows, block) > 0.5
        if block.offset or is_shuffled:
            if found and found[-1].offset == block.offset and block.start - found[-1].end < _SHORTEST:
                block = found.pop()._replace(end=block.end)
            found.append(block)
    return found


def _mean_of(values: ndarray, rows: Rows, block: Block) -> float:
    """Return the mean over the rows of a block."""
    inside = values[rows[(rows >= block.start) & (rows < block.end)]]
    return float(inside.mean()) if len(inside) else 0.0


def _probe(judge: _Judge, start: int, end: int) -> int | None:
    """Return the offset with which the rows of a block fit far better than with all others; None if there is none."""
    pairs = judge.pairs
    rows = _sample(pairs.rows[(pairs.rows >= start) & (pairs.rows < end)], _PROBE, np.random.default_rng(4))
    shifted = [pairs.shift(rows, offset) for offset in range(-_FARTHEST, _FARTHEST + 1)]
    counts = np.array([len(some) for some, _ in shifted])
    odds = judge.odds(*(np.concatenate(side) for side in zip(*shifted, strict=True)))
    means = np.bincount(np.repeat(np.arange(len(counts)), counts), odds, len(counts)) / np.maximum(1, counts)
    means = np.where(2 * counts >= len(rows), means, -np.inf)
    middle, spread = _middle_and_spread(means[np.isfinite(means)])
    best = int(means.argmax())
    if means[best] > max(middle + 6 * spread, float(np.quantile(judge.random, 0.75))):
        return best - _FARTHEST
    # Loose translations fit badly, but better than the targets of their neighbours.
    return 0 if means[_FARTHEST] > middle + 3 * spread else None


def _best_path(odds: Float64[ndarray, "states pairs"]) -> list[tuple[int, int, int]]:
    """Return the most probable path of states over the rows by Viterbi's algorithm, as (start, end, state)."""
    num_rows = odds.shape[1]
    step = -(-num_rows // _STEPS)
    sums = np.add.reduceat(odds, np.arange(0, num_rows, step), axis=1).T
    best, previous = sums[0], []
    for row in sums[1:]:
        leader = int(best.argmax())
        switched = best[leader] - _SWITCH
        stays = best >= switched
        previous.append(np.where(stays, -1, leader))
        best = np.where(stays, best, switched) + row
    state = int(best.argmax())
    states = [state]
    for before in reversed(previous):
        state = state if before[state] < 0 else int(before[state])
        states.append(state)
    states.reverse()
    changes = [i for i in range(1, len(states)) if states[i] != states[i - 1]]
    cuts = [_refine(odds[states[i - 1]] - odds[states[i]], i * step, step) for i in changes]
    bounds = [0, *cuts, num_rows]
    return [(start, end, states[i]) for start, end, i in zip(bounds[:-1], bounds[1:], [0, *changes], strict=True)]


def _refine(gain: Odds, cut: int, step: int) -> int:
    """Return the row near `cut` up to which the sum of the gains is highest."""
    first = max(0, cut - step)
    return first + int(np.concatenate([[0.0], np.cumsum(gain[first : cut + step])]).argmax())
