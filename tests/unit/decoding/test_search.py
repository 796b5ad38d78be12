"""Beam and greedy search on tables whose answers are worked out by hand."""

import math
from collections.abc import Callable
from unittest import mock

import pytest
import torch

from dragoman.decoding.hypothesis import Candidate
from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.decoding.search import beam_search, greedy_search
from dragoman.models.config import TransformerConfig
from dragoman.models.transformer import Transformer
from dragoman.text.vocab import BOS, EOS

GARDEN_PATH = {
    BOS: {4: 0.55, 5: 0.45},
    4: {4: 0.40, 5: 0.35, EOS: 0.25},
    5: {4: 0.10, EOS: 0.90},
}
"""Its first step is tempting and leads nowhere: greedy search writes 4 for ever."""
TERSE = {BOS: {EOS: 0.9, 4: 0.1}, 4: {EOS: 0.8, 5: 0.2}, 5: {4: 0.5, EOS: 0.5}}
ENDLESS = {BOS: {5: 0.7, 4: 0.3}, 5: {5: 0.95, EOS: 0.05}, 4: {4: 0.6, 5: 0.3, EOS: 0.1}}
PLAIN = Penalty(formula="none")
SOURCE = torch.tensor([[4, EOS]])


def options(longest: int, beam_size: int = 2, num_best: int = 2, **others: object) -> SearchOptions:
    limit = LengthLimit(ratio=0.0, extra=longest)
    return SearchOptions(
        **{"penalty": PLAIN, "max_length": limit, "beam_size": beam_size, "num_best": num_best} | others
    )


def logs(*probabilities: float) -> object:
    return pytest.approx([math.log(probability) for probability in probabilities], abs=1e-6)


def test_a_beam_sees_past_the_first_step(bigram: Callable) -> None:
    best, second = beam_search(bigram(GARDEN_PATH, vocabulary=6), SOURCE, options(3))[0].hypotheses
    assert best.tokens == (5,)
    assert best.log_probabilities == logs(0.45, 0.90)
    assert best.score == pytest.approx(math.log(0.405), abs=1e-6)
    assert not best.cut
    assert second.tokens == (4, 5)
    assert second.log_probabilities == logs(0.55, 0.35, 0.90)
    assert second.cut


def test_greedy_search_does_not(bigram: Callable) -> None:
    (found,) = greedy_search(bigram(GARDEN_PATH, vocabulary=6), SOURCE, options(3))
    assert found.tokens == (4, 4)
    assert found.log_probabilities == logs(0.55, 0.40, 0.25)
    assert found.score == pytest.approx(math.log(0.055), abs=1e-6)
    assert found.cut


def test_every_candidate_is_kept_on_request(bigram: Callable) -> None:
    result = beam_search(bigram(GARDEN_PATH, vocabulary=6), SOURCE, options(3, stop="never"), keep_history=True)[0]
    likely = [[c for c in step if c.log_probability > -1e3] for step in result.history]
    assert [[(c.parent, c.token, c.place, c.ended) for c in step] for step in likely] == [
        [(0, 4, 0, False), (0, 5, 1, False)],
        [(1, EOS, None, True), (0, 4, 0, False), (0, 5, 1, False), (0, EOS, None, False)],
        [(1, EOS, None, True), (0, EOS, None, True)],
    ]
    totals = [c.log_probability for step in likely for c in step]
    assert totals == logs(0.55, 0.45, 0.405, 0.22, 0.1925, 0.1375, 0.17325, 0.055)


def test_what_is_impossible_is_no_candidate(bigram: Callable) -> None:
    result = beam_search(bigram(GARDEN_PATH, vocabulary=6), SOURCE, options(3), [[5, 5]], keep_history=True)[0]
    assert [[(c.token, c.place) for c in step] for step in result.history] == [[(5, 0)], [(5, 0)], [(EOS, None)]]


def test_an_end_has_no_place_even_where_nothing_else_could_take_it(bigram: Callable) -> None:
    mute = bigram({BOS: {EOS: 1.0}}, vocabulary=3)
    result = beam_search(mute, SOURCE, options(4, beam_size=3), keep_history=True)[0]
    assert result.history == ((Candidate(parent=0, token=EOS, log_probability=0.0, place=None, ended=True),),)


def test_no_history_is_kept_by_default(bigram: Callable) -> None:
    assert beam_search(bigram(GARDEN_PATH, vocabulary=6), SOURCE, options(3))[0].history == ()


def test_the_penalty_ranks(bigram: Callable) -> None:
    for alpha, first in [(-1.0, (5,)), (0.0, (5,)), (1.0, (5,)), (2.0, (4, 5))]:
        per_token = Penalty(formula="length", alpha=alpha)
        found = beam_search(bigram(GARDEN_PATH, vocabulary=6), SOURCE, options(3, penalty=per_token))[0]
        by_hand = {(5,): math.log(0.405) / 2**alpha, (4, 5): math.log(0.17325) / 3**alpha}
        assert first == max(by_hand, key=by_hand.__getitem__)
        assert found.best.tokens == first
        assert found.best.score == pytest.approx(by_hand[first], abs=1e-6)


def test_where_the_short_is_favoured_stopping_safely_counts_the_tokens_written(bigram: Callable) -> None:
    """By n * log-probability, 4 can still become log(0.6) * 2 in its next token, better than the log(0.3) of the end
    at once; were it thought longer than it is, the search would stop there.
    """
    model = bigram({BOS: {4: 0.6, EOS: 0.3, 5: 0.1}, 4: {EOS: 0.99, 5: 0.01}, 5: {EOS: 1.0}}, vocabulary=6)
    short = Penalty(formula="length", alpha=-1.0)
    found = beam_search(model, SOURCE, options(6, num_best=1, penalty=short), keep_history=True)[0]
    assert found.best.tokens == (4,)
    assert found.best.score == pytest.approx(2 * math.log(0.6 * 0.99), abs=1e-6)
    assert len(found.history) == 2


def test_left_to_itself_a_search_is_the_papers(bigram: Callable) -> None:
    """A beam of four, one result, gnmt with alpha 0.6, at most 50 tokens more than the source."""
    model = bigram(GARDEN_PATH, ENDLESS, vocabulary=6)
    source = torch.tensor([[4, EOS], [5, EOS]])
    assert beam_search(model, source) == beam_search(model, source, SearchOptions())
    result = beam_search(model, source[:1])[0]
    assert len(result.hypotheses) == 1
    assert result.best.score == pytest.approx(math.log(0.405) / (7 / 6) ** 0.6, abs=1e-6)
    (greedy,) = greedy_search(model, source[1:])
    assert greedy.tokens == (5,) * 51
    assert greedy.score == pytest.approx(greedy.log_probability / (57 / 6) ** 0.6, rel=1e-6)
    assert greedy.cut


def test_each_source_has_its_own_answer_in_its_own_place(bigram: Callable) -> None:
    model = bigram(GARDEN_PATH, TERSE, ENDLESS, vocabulary=6)
    source = torch.tensor([[6, EOS], [5, EOS], [4, EOS], [5, EOS], [6, EOS]])
    found = beam_search(model, source, options(4, num_best=1))
    assert [result.best.tokens for result in found] == [(5, 5, 5)[:3], (), (5,), (), (5, 5, 5)]
    assert [result.best.cut for result in found] == [True, False, False, False, True]
    assert [hypothesis.tokens for hypothesis in greedy_search(model, source, options(4))] == [
        (5, 5, 5),
        (),
        (4, 4, 4),
        (),
        (5, 5, 5),
    ]


def test_a_source_that_is_done_leaves_the_batch(bigram: Callable) -> None:
    """TERSE is done at once, GARDEN_PATH after two steps, ENDLESS at the limit. Beams begin with one row each."""
    model = bigram(GARDEN_PATH, TERSE, ENDLESS, vocabulary=6)
    source = torch.tensor([[6, EOS], [5, EOS], [4, EOS]])
    with mock.patch.object(model, "step", wraps=model.step) as step:
        beam_search(model, source, options(4, num_best=1, stop="safe"))
    assert [len(call.args[0]) for call in step.call_args_list] == [3, 2 * 2, 2, 2]
    assert step.call_args_list[0].args[0].tolist() == [BOS] * 3


@pytest.mark.parametrize(("stop", "num_steps"), [("safe", 2), ("count", 3), ("never", 6)])
def test_each_stop_rule_stops_in_its_time(bigram: Callable, stop: str, num_steps: int) -> None:
    """The best ends in step 2, and nothing that lives then can pass it; the second end is that of 4 5 in step 3."""
    result = beam_search(
        bigram(GARDEN_PATH, vocabulary=6), SOURCE, options(6, num_best=1, stop=stop), keep_history=True
    )[0]
    assert len(result.history) == num_steps
    assert result.best.tokens == (5,)


def test_a_search_goes_no_further_than_the_model_can(bigram: Callable) -> None:
    for longest, limit in [(9, 3), (2, 2)]:
        model = bigram(ENDLESS, vocabulary=6, max_target=3)
        assert beam_search(model, SOURCE, options(longest, num_best=1))[0].best.tokens == (5,) * (limit - 1)
        (greedy,) = greedy_search(model, SOURCE, options(longest))
        assert greedy.tokens == (5,) * (limit - 1)
        assert greedy.cut


def test_a_transformer_writes_as_many_tokens_as_it_has_positions() -> None:
    layers = {"num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "max_positions": 6}
    model = Transformer(
        TransformerConfig(source_vocabulary=9, target_vocabulary=9, d_model=12, d_ff=16, **layers)
    ).eval()
    wordy = SearchOptions(min_length=50, beam_size=3, num_best=3)
    source = torch.tensor([[4, 5, 6, 7, 8, EOS], [8, EOS, 0, 0, 0, 0]])
    for result in beam_search(model, source, wordy):
        assert [(len(hypothesis.tokens), hypothesis.cut) for hypothesis in result.hypotheses] == [(5, True)] * 3
    assert [len(hypothesis.tokens) for hypothesis in greedy_search(model, source, wordy)] == [5, 5]


def test_nothing_ends_before_the_shortest_length(bigram: Callable) -> None:
    found = beam_search(bigram(TERSE, vocabulary=6), SOURCE, options(6, min_length=3))[0]
    assert found.best.tokens == (4, 5)
    assert found.best.log_probabilities == logs(0.1, 0.2, 0.5)
    assert min(len(hypothesis.tokens) for hypothesis in found.hypotheses) == 2


def test_a_prefix_is_written_first_and_its_log_probability_counts(bigram: Callable) -> None:
    model = bigram(GARDEN_PATH, vocabulary=6)
    source = SOURCE.expand(3, -1)
    prefixes = [[5, 4], [], [4]]
    forced, free, short = (result.best for result in beam_search(model, source, options(4), prefixes))
    assert forced.tokens == (5, 4, 5)
    assert forced.log_probabilities == logs(0.45, 0.10, 0.35, 0.90)
    assert free.tokens == (5,)
    assert short.tokens == (4, 5)
    greedy = greedy_search(model, source, options(4), prefixes)
    assert [hypothesis.tokens for hypothesis in greedy] == [(5, 4, 4), (4, 4, 4), (4, 4, 4)]
    assert greedy[0].log_probabilities == logs(0.45, 0.10, 0.40, 0.25)


def test_a_prefix_longer_than_the_limit_is_written_and_then_the_end(bigram: Callable) -> None:
    model = bigram(GARDEN_PATH, vocabulary=6)
    for hypothesis in (
        beam_search(model, SOURCE, options(2), [[4, 4, 4]])[0].best,
        *greedy_search(model, SOURCE, options(2), [[4, 4, 4]]),
    ):
        assert hypothesis.tokens == (4, 4, 4)
        assert hypothesis.cut


def test_prefixes_that_cannot_be_are_refused(bigram: Callable) -> None:
    model = bigram(GARDEN_PATH, vocabulary=6, max_target=3)
    for search in (beam_search, greedy_search):
        with pytest.raises(ValueError, match="0 prefixes for 1 sources"):
            search(model, SOURCE, options(4), [])
        with pytest.raises(ValueError, match="the limit is 2"):
            search(model, SOURCE, options(4), [[4, 4, 4]])


def test_a_model_in_training_is_refused_before_it_reads_anything(bigram: Callable) -> None:
    model = bigram(GARDEN_PATH, vocabulary=6).train()
    for search in (beam_search, greedy_search):
        with mock.patch.object(model, "encode") as encode, pytest.raises(ValueError, match="training mode"):
            search(model, SOURCE, options(4))
        encode.assert_not_called()


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_a_search_keeps_no_graph(bigram: Callable, search: Callable) -> None:
    model = bigram(GARDEN_PATH, vocabulary=6)
    grad = []
    encode = model.encode
    with mock.patch.object(
        model, "encode", side_effect=lambda source: grad.append(torch.is_grad_enabled()) or encode(source)
    ):
        search(model, SOURCE, options(4))
    assert grad == [False]


def test_a_beam_wider_than_the_vocabulary_fills_up_step_by_step(bigram: Callable) -> None:
    """One row, then the three tokens that go on, then as many places as the beam has."""
    model = bigram(GARDEN_PATH, vocabulary=6)
    with mock.patch.object(model, "step", wraps=model.step) as step:
        found = beam_search(model, SOURCE, options(4, beam_size=10, num_best=10, stop="never"))[0]
    assert [len(call.args[0]) for call in step.call_args_list] == [1, 6, 10, 10]
    likely = [hypothesis for hypothesis in found.hypotheses if hypothesis.log_probability > -1e3]
    truth = {(5,): 0.405, (4,): 0.1375, (4, 5): 0.17325, (4, 4): 0.055, (5, 4): 0.01125}
    truth |= {(4, 4, 5): 0.0693, (4, 4, 4): 0.022, (4, 5, 4): 0.0048125, (5, 4, 5): 0.014175, (5, 4, 4): 0.0045}
    assert [hypothesis.tokens for hypothesis in likely] == sorted(truth, key=lambda tokens: -truth[tokens])
    assert [math.exp(hypothesis.score) for hypothesis in likely] == pytest.approx(
        sorted(truth.values(), reverse=True), rel=1e-5
    )


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_a_model_of_nan_is_refused_and_not_searched_for_ever(bigram: Callable, search: Callable) -> None:
    model = bigram(GARDEN_PATH, ENDLESS, vocabulary=6)
    model.logits[1, 5, 4] = math.nan
    assert search(model, SOURCE, options(4))
    with pytest.raises(ValueError, match="scores are NaN"):
        search(model, torch.tensor([[4, EOS], [5, EOS]]), options(4))
