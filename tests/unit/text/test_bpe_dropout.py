"""BPE-dropout: without dropping it is SentencePiece's own encoding; with it, the distribution the paper describes."""

from collections import Counter
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.subword_sampling import BPEDropout, Pieces, chance, split_characters
from dragoman.text.subwords import Subwords
from dragoman.text.vocab import VocabConfig, train_subwords

WORDS = [
    "lower",
    "lowest",
    "newer",
    "newest",
    "wider",
    "widest",
    "slow",
    "slower",
    "low",
    "new",
    "aaaa",
    "aaa",
    "banana",
    "bananas",
]
TEXTS = [" ".join(WORDS[(i * k + 5 * k) % len(WORDS)] for k in range(1, 7)) for i in range(120)]


@pytest.fixture(scope="module")
def model() -> Subwords:
    return train_subwords(TEXTS, VocabConfig(size=310, character_coverage=1.0))


def merges(spelled: dict[str, int], symbols: tuple[str, ...]) -> list[tuple[int, int]]:
    """Every possible merge of a word: (rank, position)."""
    joined = [a + b for a, b in pairwise(symbols)]
    return [(spelled[piece], i) for i, piece in enumerate(joined) if piece in spelled]


def exact(spelled: dict[str, int], word: str, rate: float) -> dict[tuple[str, ...], float]:
    """The probability of every segmentation: all subsets of merges that a round may drop, round after round."""

    @cache
    def after(symbols: tuple[str, ...]) -> tuple[tuple[tuple[str, ...], float], ...]:
        possible = merges(spelled, symbols)
        found: Counter[tuple[str, ...]] = Counter()
        for dropped in product([True, False], repeat=len(possible)):
            probability = float(np.prod([rate if drop else 1 - rate for drop in dropped]))
            left = [merge for merge, drop in zip(possible, dropped, strict=True) if not drop]
            if not left:
                found[symbols] += probability
                continue
            _, i = min(left)
            for result, chance_of_it in after((*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :])):
                found[result] += probability * chance_of_it
        return tuple(found.items())

    return dict(after(tuple(word)))


def test_without_dropping_it_is_sentencepieces_own_encoding(model: Subwords) -> None:
    texts = [*TEXTS, "", " ", "aaaaaaaaaaa", "lowestnewest  banana ", "日本 low", "</s>"]
    sampled, encoded = model.sample(texts, 0.0, (1,)), model.encode(texts)
    assert sampled.ids.tolist() == encoded.ids.tolist()
    assert sampled.offsets.tolist() == encoded.offsets.tolist()


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(st.text(st.one_of(st.sampled_from("lowernsta  "), st.characters(exclude_categories=["Cs"])))))
def test_without_dropping_any_texts_are_encoded_as_by_sentencepiece(model: Subwords, texts: list[str]) -> None:
    sampled, encoded = model.sample(texts, 0.0, (1,)), model.encode(texts)
    assert sampled.ids.tolist() == encoded.ids.tolist()
    assert sampled.offsets.tolist() == encoded.offsets.tolist()


def test_dropping_every_merge_leaves_the_characters(model: Subwords) -> None:
    ids = model.sample(["lowest banana"], 1.0, (1,)).ids
    assert [model.piece(token) for token in ids[:-1].tolist()] == list("▁lowest▁banana")


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_segmentations_come_as_often_as_the_algorithm_says(model: Subwords, rate: float) -> None:
    num_draws = 6_000
    ids, offsets = model.sample(["banana"] * num_draws, rate, (3, 1))
    counted = Counter(tuple(ids[a : b - 1].tolist()) for a, b in pairwise(offsets))
    drawn = Counter({tuple(map(model.piece, tokens)): count for tokens, count in counted.items()})
    expected = exact(Pieces.of(model._processor).spelled, "▁banana", rate)
    assert len(expected) > 5
    assert set(drawn) <= set(expected)
    for segmentation, probability in expected.items():
        deviation = (num_draws * probability * (1 - probability)) ** 0.5
        assert abs(drawn[segmentation] - num_draws * probability) <= 5 * deviation + 1


def test_a_draw_changes_nothing_it_was_given(model: Subwords) -> None:
    sampler = BPEDropout.of(Pieces.of(model._processor))
    spelled = split_characters(TEXTS[:5])
    before = [array.copy() for array in (*spelled[:3], sampler.letters)]
    sampler.segment(spelled, 0.2, np.random.Philox(key=1))
    assert all((a == b).all() for a, b in zip(before, (*spelled[:3], sampler.letters), strict=True))


def test_chance_is_as_often_true_as_its_rate() -> None:
    random = np.random.Philox(key=5)
    assert not chance(0.0, 1000, random).any()
    assert chance(1.0, 1000, random).all()
    assert abs(int(chance(0.3, 100_000, random).sum()) - 30_000) <= 5 * (100_000 * 0.3 * 0.7) ** 0.5
