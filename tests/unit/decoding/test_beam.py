"""The decision of one step, against a plain sort of all extensions and by hand; and the beam after it."""

import math

import pytest
import torch
from torch import Tensor

from dragoman.decoding.beam import DEAD, Beam, Decision, decide
from dragoman.text.vocab import EOS

NEVER = -math.inf


def by_sorting(
    total: list[float], table: list[list[float]], beam_size: int
) -> list[tuple[int, int, float, bool, bool]]:
    """Parent, token, total, ended and live of one source's candidates."""
    every = [(t + p, parent, token) for parent, t in enumerate(total) for token, p in enumerate(table[parent])]
    every = sorted(every, key=lambda one: -one[0])[: 2 * beam_size]
    candidates, num_live = [], 0
    for rank, (score, parent, token) in enumerate(every):
        live = token != EOS and num_live < beam_size
        num_live += live
        candidates.append((parent, token, score, token == EOS and rank < beam_size and score > NEVER, live))
    return candidates


@pytest.mark.parametrize(("beam", "beam_size"), [(1, 1), (1, 3), (2, 2), (4, 4), (3, 5)])
@pytest.mark.parametrize("louder", [0.0, 3.0])
def test_a_decision_is_what_sorting_all_extensions_gives(beam: int, beam_size: int, louder: float) -> None:
    num_sources, vocabulary = 7, 11
    total = -5 * torch.rand(num_sources, beam, dtype=torch.float64)
    scores = torch.randn(num_sources, beam, vocabulary, dtype=torch.float64)
    scores[:, :, EOS] += louder
    log_probabilities = scores.log_softmax(-1)
    decision = decide(total, log_probabilities, beam_size)
    for source in range(num_sources):
        truth = by_sorting(total[source].tolist(), log_probabilities[source].tolist(), beam_size)
        columns = (decision.parent, decision.token, decision.total, decision.ends)
        found = list(zip(*(column[source].tolist() for column in columns), strict=True))
        assert found == [candidate[:4] for candidate in truth]
        assert decision.live[source].tolist() == [rank for rank, candidate in enumerate(truth) if candidate[4]]
        own = [log_probabilities[source, parent, token].item() for parent, token, *_ in truth]
        assert decision.log_probability[source].tolist() == own


def log_probabilities(rows: list[dict[int, float]], vocabulary: int) -> Tensor:
    """One source's table; what is not mentioned is impossible."""
    table = torch.full((1, len(rows), vocabulary), NEVER)
    for place, row in enumerate(rows):
        for token, log_probability in row.items():
            table[0, place, token] = log_probability
    return table


def of(decision: Decision) -> list[tuple[int, int, float, bool]]:
    columns = (decision.parent, decision.token, decision.total, decision.ends)
    return [row for row in zip(*(column[0].tolist() for column in columns), strict=True) if row[2] > NEVER]


def test_an_end_counts_only_among_the_best() -> None:
    """Ranks 1 and 2 of a beam of two; the third is not one of the two best, however probable it is for its parent."""
    table = log_probabilities([{5: -1.0, EOS: -2.0}, {EOS: -0.5, 6: -0.25}], vocabulary=8)
    decision = decide(torch.tensor([[-1.0, -2.0]]), table, beam_size=2)
    assert of(decision) == [(0, 5, -2.0, False), (1, 6, -2.25, False), (1, EOS, -2.5, False), (0, EOS, -3.0, False)]
    assert decision.live.tolist() == [[0, 1]]


def test_the_last_of_the_best_still_ends() -> None:
    table = log_probabilities([{5: -1.0, EOS: -1.5}, {6: -0.25}], vocabulary=8)
    decision = decide(torch.tensor([[-1.0, -2.5]]), table, beam_size=2)
    assert of(decision) == [(0, 5, -2.0, False), (0, EOS, -2.5, True), (1, 6, -2.75, False)]
    assert decision.live.tolist() == [[0, 2]]


def test_the_places_of_all_that_ended_are_filled_again() -> None:
    table = log_probabilities([{EOS: -0.5, 6: -4.0, 7: -5.0}, {EOS: -0.25, 5: -6.0}], vocabulary=8)
    decision = decide(torch.tensor([[-1.0, -1.5]]), table, beam_size=2)
    assert of(decision)[:2] == [(0, EOS, -1.5, True), (1, EOS, -1.75, True)]
    assert decision.live.tolist() == [[2, 3]]
    assert [of(decision)[i][:3] for i in (2, 3)] == [(0, 6, -5.0), (0, 7, -6.0)]


def test_with_a_beam_of_one_an_end_is_the_most_probable_token() -> None:
    ends, goes_on = log_probabilities([{EOS: -0.5, 6: -0.75}], 8), log_probabilities([{EOS: -0.75, 6: -0.5}], 8)
    assert decide(torch.zeros(1, 1), ends, 1).ends.tolist() == [[True, False]]
    assert decide(torch.zeros(1, 1), goes_on, 1).ends.tolist() == [[False, False]]


def test_what_extends_a_dead_place_neither_ends_nor_lives() -> None:
    table = log_probabilities([{EOS: -0.5, 6: -1.0}, {EOS: -0.1, 5: -0.1}], vocabulary=8)
    decision = decide(torch.tensor([[-1.0, DEAD]]), table, beam_size=2)
    assert of(decision) == [(0, EOS, -1.5, True), (0, 6, -2.0, False)]
    assert decision.ends.sum() == 1
    after = Beam(torch.tensor([[-1.0, DEAD]]), torch.tensor([[[4], [7]]]), torch.zeros(1, 2, 1)).survivors(decision)
    assert after.total.tolist() == [[-2.0, NEVER]]


def test_an_impossible_end_is_no_end() -> None:
    decision = decide(torch.tensor([[DEAD]]), torch.zeros(1, 1, 3), beam_size=3)
    assert EOS in decision.token.tolist()[0]
    assert not decision.ends.any()


def test_a_place_that_only_an_end_could_fill_is_dead() -> None:
    """Both hypotheses can but end: nothing lives on."""
    table = log_probabilities([{EOS: -0.5}, {EOS: -0.25}], vocabulary=3)
    beam = Beam(torch.tensor([[-1.0, -2.0]]), torch.tensor([[[4], [7]]]), torch.tensor([[[-1.0], [-2.0]]]))
    decision = decide(beam.total, table, beam_size=2)
    assert decision.ends.sum() == 2
    assert beam.survivors(decision).total.tolist() == [[NEVER, NEVER]]


def test_a_live_end_is_never_carried_on() -> None:
    """Where fewer go on than there are places, an end stands among the live; its total is not that of a hypothesis."""
    decision = Decision(
        parent=torch.tensor([[0, 1]]),
        token=torch.tensor([[EOS, 6]]),
        total=torch.tensor([[-1.0, -3.0]]),
        log_probability=torch.tensor([[-0.5, -0.25]]),
        ends=torch.tensor([[True, False]]),
        live=torch.tensor([[1, 0]]),
    )
    beam = Beam(torch.tensor([[-0.5, -2.75]]), torch.tensor([[[4], [7]]]), torch.tensor([[[-0.5], [-2.75]]]))
    assert beam.survivors(decision).total.tolist() == [[-3.0, NEVER]]


def test_there_are_no_more_candidates_than_extensions() -> None:
    decision = decide(torch.zeros(2, 1), torch.randn(2, 1, 5).log_softmax(-1), beam_size=4)
    assert decision.token.shape == (2, 5)
    assert decision.live.shape == (2, 4)
    narrow = decide(torch.zeros(2, 1), torch.randn(2, 1, 3).log_softmax(-1), beam_size=4)
    assert narrow.token.shape == (2, 3)
    assert narrow.live.shape == (2, 3)


def test_there_are_twice_as_many_candidates_as_places() -> None:
    decision = decide(torch.zeros(2, 3), torch.randn(2, 3, 7).log_softmax(-1), beam_size=3)
    assert decision.token.shape == decision.ends.shape == (2, 6)
    assert decision.live.shape == (2, 3)


def test_an_empty_beam_has_one_hypothesis_for_each_source_and_no_tokens() -> None:
    beam = Beam.empty(3, torch.device("cpu"))
    assert beam.total.tolist() == [[0.0]] * 3
    assert beam.tokens.shape == beam.log_probabilities.shape == (3, 1, 0)
    assert beam.tokens.dtype == torch.int64


def test_all_of_it_stays_on_its_device() -> None:
    there = torch.device("meta")
    beam = Beam.empty(3, there)
    decision = decide(beam.total, torch.zeros(3, 1, 7, device=there), beam_size=2)
    for part in (beam, decision, beam.survivors(decision)):
        assert {field.device for field in vars(part).values()} == {there}


@pytest.fixture
def beam() -> Beam:
    """Two sources, three places, two steps done."""
    return Beam(
        total=torch.tensor([[-1.0, -2.0, -3.0], [-1.5, -2.5, -3.5]]),
        tokens=torch.tensor([[[4, 5], [6, 7], [8, 9]], [[10, 11], [12, 13], [14, 15]]]),
        log_probabilities=torch.tensor(
            [[[-0.25, -0.75], [-1.0, -1.0], [-2.0, -1.0]], [[-1.0, -0.5], [-2.0, -0.5], [-3.0, -0.5]]]
        ),
    )


@pytest.fixture
def decision() -> Decision:
    return Decision(
        parent=torch.tensor([[2, 0, 0, 1], [1, 1, 0, 2]]),
        token=torch.tensor([[20, EOS, 21, 22], [23, 24, 25, EOS]]),
        total=torch.tensor([[-3.25, -3.5, -3.75, -4.0], [-4.25, -4.5, -4.75, -5.0]]),
        log_probability=torch.tensor([[-0.25, -2.5, -2.75, -2.0], [-1.75, -2.0, -3.25, -1.5]]),
        ends=torch.tensor([[False, True, False, False], [False, False, False, False]]),
        live=torch.tensor([[0, 2, 3], [0, 1, 2]]),
    )


def test_survivors_are_their_parents_and_one_token_more(beam: Beam, decision: Decision) -> None:
    after = beam.survivors(decision)
    assert after.total.tolist() == [[-3.25, -3.75, -4.0], [-4.25, -4.5, -4.75]]
    assert after.tokens.tolist() == [
        [[8, 9, 20], [4, 5, 21], [6, 7, 22]],
        [[12, 13, 23], [12, 13, 24], [10, 11, 25]],
    ]
    assert after.log_probabilities.tolist() == [
        [[-2.0, -1.0, -0.25], [-0.25, -0.75, -2.75], [-1.0, -1.0, -2.0]],
        [[-2.0, -0.5, -1.75], [-2.0, -0.5, -2.0], [-1.0, -0.5, -3.25]],
    ]


def test_a_candidate_becomes_a_whole_hypothesis(beam: Beam, decision: Decision) -> None:
    assert beam.extended(decision, 0, 1) == ([4, 5, EOS], [-0.25, -0.75, -2.5])
    assert beam.extended(decision, 1, 3) == ([14, 15, EOS], [-3.0, -0.5, -1.5])


def test_survivors_know_the_rows_they_extend(beam: Beam, decision: Decision) -> None:
    """Row = source * places + place."""
    assert beam.rows(decision, torch.tensor([0, 1])).tolist() == [2, 0, 1, 3 + 1, 3 + 1, 3 + 0]
    assert beam.rows(decision, torch.tensor([1])).tolist() == [4, 4, 3]


def test_a_beam_can_be_narrowed_to_some_sources(beam: Beam) -> None:
    chosen = beam.select(torch.tensor([1]))
    assert chosen.total.tolist() == beam.total[1:].tolist()
    assert chosen.tokens.tolist() == beam.tokens[1:].tolist()
    assert chosen.log_probabilities.tolist() == beam.log_probabilities[1:].tolist()
