"""Alignment error rate, precision and recall, counted by hand."""

import pytest

from dragoman.alignment.error_rate import alignment_score
from dragoman.alignment.links import swap
from dragoman.alignment.moses import read_gold

FOUND = [frozenset({(0, 0), (1, 2), (2, 2)}), frozenset({(0, 0)})]
GOLD = list(read_gold(["1-1 2-2 2p3", "1-1"]))


def test_one_sentence() -> None:
    # |A| 3, |S| 2, |A ∩ S| 1, |A ∩ P| 2.
    score = alignment_score(FOUND[:1], GOLD[:1])
    assert score.aer == pytest.approx(1 - 3 / 5)
    assert score.precision == pytest.approx(2 / 3)
    assert score.recall == pytest.approx(1 / 2)


def test_sentences_are_counted_together_not_averaged() -> None:
    score = alignment_score(FOUND, GOLD)
    assert score.counts.tolist() == [[3, 2, 1, 2], [1, 1, 1, 1]]
    assert score.aer == pytest.approx(1 - 5 / 7)
    assert score.precision == pytest.approx(3 / 4)
    assert score.recall == pytest.approx(2 / 3)


def test_all_sure_and_nothing_else_is_no_error_and_nothing_is_all_error() -> None:
    assert alignment_score([gold.sure for gold in GOLD], GOLD).aer == 0.0
    nothing = alignment_score([frozenset()] * 2, GOLD)
    assert (nothing.aer, nothing.precision, nothing.recall) == (1.0, 0.0, 0.0)


def test_the_sides_may_be_swapped_together() -> None:
    swapped = alignment_score([swap(links) for links in FOUND], [gold.swapped() for gold in GOLD])
    assert swapped.counts.tolist() == alignment_score(FOUND, GOLD).counts.tolist()


def test_the_interval_holds_the_rate_and_is_the_same_each_time() -> None:
    score = alignment_score(FOUND * 20, GOLD * 20)
    low, high = score.interval()
    assert low < score.aer < high
    assert score.interval() == (low, high)
    same = alignment_score(FOUND[:1] * 20, GOLD[:1] * 20)
    assert same.interval() == pytest.approx((same.aer, same.aer))


def test_what_does_not_go_line_by_line_is_refused() -> None:
    with pytest.raises(ValueError, match="there are 1 sentences but more gold lines"):
        alignment_score(FOUND[:1], GOLD)
    with pytest.raises(ValueError, match="there are 1 gold lines but more sentences"):
        alignment_score(FOUND, GOLD[:1])


@pytest.mark.parametrize("lines", [[], ["1p1", ""]])
def test_gold_without_a_sure_link_is_refused(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="no sure link"):
        alignment_score([frozenset()] * len(lines), read_gold(lines))
