"""Sampling from a unigram model: each segmentation comes as often as its probability."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from dragoman.text.subword_sampling import Pieces, UnigramSampling, split_characters
from dragoman.text.subwords import Subwords
from dragoman.text.vocab import VocabConfig, train_subwords

SYLLABLES = ["low", "er", "est", "new", "wid", "slow", "ban", "an", "as", "ing", "un", "in"]
RANDOM = np.random.default_rng(3)
WORDS = ["".join(RANDOM.choice(SYLLABLES, 1 + i % 4)) for i in range(600)]
TEXTS = [" ".join(WORDS[i : i + 5]) for i in range(0, 600, 3)]


@pytest.fixture(scope="module")
def model() -> Subwords:
    return train_subwords(TEXTS, VocabConfig(kind="unigram", size=330, character_coverage=1.0))


def segmentations(spelled: dict[str, int], word: str) -> Iterator[tuple[str, ...]]:
    if not word:
        yield ()
    for end in range(1, len(word) + 1):
        if word[:end] in spelled:
            yield from ((word[:end], *rest) for rest in segmentations(spelled, word[end:]))


@pytest.mark.parametrize("rate", [0.0, 0.2, 1.0])
def test_segmentations_come_as_often_as_their_probability_to_the_power_of_the_rate(
    model: Subwords, rate: float
) -> None:
    num_draws, pieces = 6_000, Pieces.of(model._processor)
    found = list(segmentations(pieces.spelled, "▁newestslow"))
    assert len(found) > 5
    weight = np.array([np.exp(rate * sum(pieces.scores[pieces.spelled[p]] for p in s)) for s in found])
    ids, offsets = model.sample(["newestslow"] * num_draws, rate, (3, 1))
    counted = Counter(tuple(ids[a : b - 1].tolist()) for a, b in pairwise(offsets))
    drawn = Counter({tuple(map(model.piece, tokens)): count for tokens, count in counted.items()})
    assert set(drawn) <= set(found)
    for segmentation, probability in zip(found, weight / weight.sum(), strict=True):
        deviation = (num_draws * probability * (1 - probability)) ** 0.5
        assert abs(drawn[segmentation] - num_draws * probability) <= 5 * deviation + 1


def test_a_very_high_power_leaves_the_best_segmentation(model: Subwords) -> None:
    pieces = Pieces.of(model._processor)
    texts = [*TEXTS, "", "lowestnewest  banana ", "日本 low x", "</s>"]
    spelled = split_characters(texts)
    best = UnigramSampling.of(pieces).segment(spelled, 2000.0, np.random.Philox(key=1))
    rows = pieces.rows(spelled, best, np.uint16)
    processor = model._processor
    for text, a, b in zip(texts, rows.offsets[:-1], rows.offsets[1:], strict=True):
        drawn, encoded = rows.ids[a : b - 1].tolist(), processor.encode(text)
        assert sum(map(processor.get_score, drawn)) == pytest.approx(sum(map(processor.get_score, encoded)), abs=1e-3)
        assert model.decode(drawn) == text
