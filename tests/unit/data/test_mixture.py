from collections import Counter
from itertools import accumulate

import pytest

from dragoman.data.order import BLOCK, batches_per_epoch, locate, shuffle_nearby, temper_weights


@pytest.mark.parametrize("counts", [[1], [5, 3], [3, 0, 7, 1], [1, 1, 1, 1], [100, 7, 33]])
def test_every_batch_of_every_corpus_has_exactly_one_place(counts: list[int]) -> None:
    found = [locate(place, counts) for place in range(sum(counts))]
    assert sorted(found) == [(corpus, number) for corpus, count in enumerate(counts) for number in range(count)]


@pytest.mark.parametrize("counts", [[500, 250, 125, 125], [7, 900, 80, 13]])
def test_at_any_time_each_corpus_has_come_as_often_as_its_share_says(counts: list[int]) -> None:
    """Rounding down once a corpus and passing the rest on leaves each within as many batches as there are corpora."""
    total = sum(counts)
    corpora = [locate(place, counts)[0] for place in range(total)]
    for corpus, count in enumerate(counts):
        so_far = accumulate(int(found == corpus) for found in corpora)
        errors = [abs(seen - (place + 1) * count / total) for place, seen in enumerate(so_far)]
        assert max(errors) <= len(counts)


def test_batches_of_a_corpus_come_in_their_order() -> None:
    found = [locate(place, [40, 9, 26]) for place in range(75)]
    for corpus in range(3):
        numbers = [number for which, number in found if which == corpus]
        assert numbers == sorted(numbers)


def test_places_are_shuffled_within_their_block() -> None:
    total = 2 * BLOCK + 31
    places = [shuffle_nearby(place, total, name=5) for place in range(total)]
    assert sorted(places) == list(range(total))
    assert places != sorted(places)
    assert [place // BLOCK for place in places] == [place // BLOCK for place in range(total)]
    first, second = places[:BLOCK], [place - BLOCK for place in places[BLOCK : 2 * BLOCK]]
    assert first != second
    assert places != [shuffle_nearby(place, total, name=6) for place in range(total)]


@pytest.mark.parametrize(
    ("weight", "num_batches", "expected"),
    [(1.0, 31, 31), (2.0, 31, 62), (2.5, 31, 78), (0.1, 31, 3), (1e-9, 31, 1), (0.3, 1, 1), (3.0, 0, 0)],
)
def test_a_weight_is_how_often_the_batches_come(weight: float, num_batches: int, expected: int) -> None:
    """2.5 times 31 is 77.5: rounded to the even neighbour."""
    assert batches_per_epoch(weight, num_batches) == expected


@pytest.mark.parametrize("weight", [0.0, -1.0, float("inf"), float("nan")])
def test_a_weight_that_means_nothing_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="remove the corpus"):
        batches_per_epoch(weight, 10)


def test_temperature_one_leaves_the_weights_alone() -> None:
    assert temper_weights([1.0, 0.7, 3.0], [10, 2000, 0], 1.0) == [1.0, 0.7, 3.0]


def test_temperature_makes_sizes_into_their_root() -> None:
    """Corpora of 100 and 10,000 pairs at T = 2 should stand as 10 to 100: the small one comes ten times."""
    assert temper_weights([1.0, 1.0], [100, 10_000], 2.0) == pytest.approx([10.0, 1.0])


def test_a_high_temperature_makes_all_corpora_equal() -> None:
    sizes = [50, 400, 8000]
    weights = temper_weights([1.0, 1.0, 1.0], sizes, 1e9)
    assert [weight * size for weight, size in zip(weights, sizes, strict=True)] == pytest.approx([8000] * 3, rel=1e-6)


def test_a_temperature_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="give 1 or more"):
        temper_weights([1.0], [10], 0.5)


def test_shuffled_places_mix_two_corpora_like_coins() -> None:
    """Two equal corpora would take turns, never the same twice. Shuffled, half of the neighbours agree: 1023 fair coins
    give 511.5 heads, with a standard deviation of 16.
    """
    corpora = [locate(shuffle_nearby(place, 1024, name=9), [512, 512])[0] for place in range(1024)]
    same = Counter(a == b for a, b in zip(corpora[1:], corpora[:-1], strict=True))[True]
    assert 511.5 - 4 * 16 < same < 511.5 + 4 * 16
