"""What has ended, best first, and each rule by which it is enough."""

import math

import pytest

from dragoman.decoding.hypothesis import Candidate, Hypothesis
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.decoding.pool import Pool
from dragoman.text.vocab import EOS

PER_TOKEN = Penalty(formula="length", alpha=1.0)
"""The mean log-probability of a token."""


def pool(stop: str = "safe", beam_size: int = 3, num_best: int = 2, longest: int = 8) -> Pool:
    return Pool(SearchOptions(stop=stop, beam_size=beam_size, num_best=num_best, penalty=PER_TOKEN), longest)


def test_an_end_becomes_a_hypothesis() -> None:
    ended = pool(longest=4)
    ended.add([7, 5, EOS], [-0.5, -0.25, -1.5])
    assert ended.best == [Hypothesis((7, 5), (-0.5, -0.25, -1.5), score=-0.75, cut=False)]
    assert ended.num_ended == 1


@pytest.mark.parametrize(("longest", "cut"), [(3, True), (4, False)])
def test_a_hypothesis_is_cut_when_it_has_the_length_of_the_limit(longest: int, cut: bool) -> None:
    ended = pool(longest=longest)
    ended.add([7, 5, EOS], [-0.5, -0.25, -1.5])
    assert ended.best[0].cut == cut


def test_only_the_best_are_kept_in_order() -> None:
    ended = pool()
    for tokens, total in [([5], -4.0), ([6], -2.0), ([7], -3.0)]:
        ended.add([*tokens, EOS], [total, 0.0])
    assert [hypothesis.tokens for hypothesis in ended.best] == [(6,), (7,)]
    assert ended.num_ended == 3
    assert ended.result().hypotheses == tuple(ended.best)


def test_they_are_ranked_under_the_penalty() -> None:
    ended = pool()
    ended.add([5, EOS], [-1.0, -1.0])
    ended.add([6, 6, 6, EOS], [-0.75, -0.75, -0.75, -0.75])
    assert [hypothesis.tokens for hypothesis in ended.best] == [(6, 6, 6), (5,)]


def test_of_two_that_tie_the_first_to_end_comes_first() -> None:
    ended = pool(num_best=3)
    for token in (6, 5, 7):
        ended.add([token, EOS], [-1.0, -1.0])
    assert [hypothesis.tokens for hypothesis in ended.best] == [(6,), (5,), (7,)]
    full = pool(num_best=1)
    for token in (6, 5):
        full.add([token, EOS], [-1.0, -1.0])
    assert [hypothesis.tokens for hypothesis in full.best] == [(6,)]


@pytest.mark.parametrize("stop", ["safe", "count", "never"])
def test_without_a_live_hypothesis_there_is_nothing_to_wait_for(stop: str) -> None:
    assert pool(stop).is_enough(-math.inf, 1)


@pytest.mark.parametrize("stop", ["safe", "count", "never"])
def test_nothing_ended_is_never_enough(stop: str) -> None:
    assert not pool(stop).is_enough(-1e9, 7)


def test_never_waits_for_the_limit_whatever_has_ended() -> None:
    ended = pool("never", beam_size=1, num_best=1)
    for _ in range(3):
        ended.add([5, EOS], [-0.1, -0.1])
    assert ended.is_enough(-1e9, 7) is False


def test_count_stops_when_as_many_have_ended_as_the_beam_is_wide() -> None:
    ended = pool("count", beam_size=3, num_best=1)
    for enough in (False, False, True, True):
        ended.add([5, EOS], [-9.0, -9.0])
        assert ended.is_enough(-0.1, 2) == enough


def test_safe_waits_until_all_that_are_returned_have_ended() -> None:
    ended = pool("safe", num_best=2)
    ended.add([5, EOS], [-0.1, -0.1])
    assert not ended.is_enough(-1e9, 7)
    ended.add([6, EOS], [-0.1, -0.1])
    assert ended.is_enough(-1e9, 7)


@pytest.mark.parametrize(("best_live", "enough"), [(-8.0, True), (-8.01, True), (-7.99, False)])
def test_safe_stops_when_the_best_live_can_at_most_tie_at_the_length_limit(best_live: float, enough: bool) -> None:
    """The worse of the two has -1 a token: of 8 tokens at most, a live one must begin better than -8."""
    ended = pool("safe", num_best=2, longest=8)
    ended.add([6, EOS], [-0.5, -0.5])
    ended.add([5, EOS], [-1.0, -1.0])
    assert ended.is_enough(best_live, 3) == enough


@pytest.mark.parametrize(("best_live", "enough"), [(-1.0, True), (-1.01, True), (-0.99, False)])
def test_where_the_short_is_favoured_safe_counts_the_token_that_must_still_come(best_live: float, enough: bool) -> None:
    """Under n^-1 the best that two tokens can become is three tokens long: -1 * 3 ties with -1.5 * 2."""
    short = Penalty(formula="length", alpha=-1.0)
    ended = Pool(SearchOptions(stop="safe", beam_size=1, num_best=1, penalty=short), longest=8)
    ended.add([5, EOS], [-0.75, -0.75])
    assert ended.best[0].score == -3.0
    assert ended.is_enough(best_live, 2) == enough


def test_a_new_pool_is_empty_and_shares_nothing() -> None:
    one, other = pool(), pool()
    one.add([5, EOS], [-1.0, -1.0])
    one.history.append(())
    assert (other.num_ended, other.best, other.history) == (0, [], [])


def test_a_result_has_the_history_that_was_kept() -> None:
    ended = pool()
    ended.add([EOS], [-1.0])
    step = (Candidate(parent=0, token=EOS, log_probability=-1.0, place=None, ended=True),)
    ended.history.append(step)
    assert ended.result().history == (step,)
    assert ended.result().best.tokens == ()
