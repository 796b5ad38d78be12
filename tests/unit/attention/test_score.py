"""Each score against its formula, written out in loops over plain numbers."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dragoman.attention.score import (
    ActivatedGeneral,
    Additive,
    BiasedGeneral,
    Concat,
    Cosine,
    Dot,
    General,
    Location,
    ScaledDot,
    Score,
)

pytestmark = pytest.mark.usefixtures("float64")

QUERIES, KEYS, D_QUERY, D_KEY, D_HIDDEN = 3, 4, 5, 6, 7
Vector = list[float]
Matrix = list[list[float]]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def times(matrix: Matrix, vector: Vector) -> Vector:
    return [dot(row, vector) for row in matrix]


def tanh_of_sum(a: Vector, b: Vector) -> Vector:
    return [math.tanh(x + y) for x, y in zip(a, b, strict=True)]


def pairwise(formula: Callable[[Vector, Vector], float], queries: Tensor, keys: Tensor) -> Tensor:
    return torch.tensor([[formula(q, k) for k in keys.tolist()] for q in queries.tolist()])


def drawn(d_query: int, d_key: int) -> tuple[Tensor, Tensor]:
    return torch.randn(QUERIES, d_query), torch.randn(KEYS, d_key)


def close(ours: Tensor, truth: Tensor) -> None:
    torch.testing.assert_close(ours, truth, rtol=0, atol=1e-12)


def test_dot_is_the_inner_product() -> None:
    query, key = drawn(D_QUERY, D_QUERY)
    close(Dot()(query, key), pairwise(dot, query, key))


def test_scaled_dot_divides_by_the_root_of_the_width() -> None:
    query, key = drawn(D_QUERY, D_QUERY)
    close(ScaledDot()(query, key), pairwise(lambda q, k: dot(q, k) / math.sqrt(D_QUERY), query, key))


def test_general_puts_a_matrix_between_query_and_key() -> None:
    query, key = drawn(D_QUERY, D_KEY)
    score = General(D_QUERY, D_KEY)
    w = score.key.weight.tolist()
    close(score(query, score.prepare(key)), pairwise(lambda q, k: dot(q, times(w, k)), query, key))


def test_additive_is_bahdanaus_small_network() -> None:
    query, key = drawn(D_QUERY, D_KEY)
    score = Additive(D_QUERY, D_KEY, D_HIDDEN)
    w, u, v = score.query.weight.tolist(), score.key.weight.tolist(), score.value.weight[0].tolist()
    truth = pairwise(lambda q, k: dot(v, tanh_of_sum(times(w, q), times(u, k))), query, key)
    close(score(query, score.prepare(key)), truth)


def test_concat_is_one_matrix_over_query_and_key_joined() -> None:
    query, key = drawn(D_QUERY, D_KEY)
    score = Concat(D_QUERY, D_KEY, D_HIDDEN)
    w, v = score.joint.weight.tolist(), score.value.weight[0].tolist()
    truth = pairwise(lambda q, k: dot(v, [math.tanh(x) for x in times(w, q + k)]), query, key)
    close(score(query, score.prepare(key)), truth)


def test_cosine_is_the_dot_product_of_directions_times_a_learned_factor() -> None:
    query, key = drawn(D_QUERY, D_QUERY)
    score = Cosine()
    score.log_sharpness.data.fill_(math.log(3.0))

    def formula(q: Vector, k: Vector) -> float:
        return 3.0 * dot(q, k) / math.sqrt(dot(q, q) * dot(k, k))

    close(score(query, score.prepare(key)), pairwise(formula, query, key))
    close(score(query * 7.0, score.prepare(key * 0.1)), score(query, score.prepare(key)))


def test_biased_general_asks_with_a_bias() -> None:
    query, key = drawn(D_QUERY, D_KEY)
    score = BiasedGeneral(D_QUERY, D_KEY)
    w, b = score.query.weight.tolist(), score.query.bias.tolist()
    truth = pairwise(lambda q, k: dot(k, [x + y for x, y in zip(times(w, q), b, strict=True)]), query, key)
    close(score(query, score.prepare(key)), truth)


def test_activated_general_is_tanh_of_a_general_score_with_a_bias() -> None:
    query, key = drawn(D_QUERY, D_KEY)
    score = ActivatedGeneral(D_QUERY, D_KEY)
    score.bias.data.fill_(0.7)
    w = score.key.weight.tolist()
    truth = pairwise(lambda q, k: math.tanh(dot(q, times(w, k)) + 0.7), query, key)
    close(score(query, score.prepare(key)), truth)


def test_location_asks_for_positions_and_ignores_those_it_does_not_know() -> None:
    query, key = drawn(D_QUERY, D_KEY)
    enough, short = Location(D_QUERY, KEYS + 2), Location(D_QUERY, KEYS - 1)
    w = enough.position.weight.tolist()
    truth = torch.tensor([times(w, q)[:KEYS] for q in query.tolist()])
    close(enough(query, enough.prepare(key)), truth)
    close(enough(query, torch.randn(KEYS, D_KEY)), truth)  # whatever the keys are
    scores = short(query, key)
    close(scores[:, :-1], query @ short.position.weight.T)
    assert (scores.softmax(-1)[:, -1] == 0).all()


def every_score() -> list[tuple[Score, int]]:
    """Each with the width of its keys."""
    return [
        (Dot(), D_QUERY),
        (ScaledDot(), D_QUERY),
        (General(D_QUERY, D_KEY), D_KEY),
        (Additive(D_QUERY, D_KEY, D_HIDDEN), D_KEY),
        (Concat(D_QUERY, D_KEY, D_HIDDEN), D_KEY),
        (Cosine(), D_QUERY),
        (ActivatedGeneral(D_QUERY, D_KEY), D_KEY),
        (Location(D_QUERY, KEYS), D_KEY),
        (BiasedGeneral(D_QUERY, D_KEY), D_KEY),
    ]


def test_leading_axes_are_compared_one_by_one() -> None:
    for score, d_key in every_score():
        query, key = torch.randn(2, 8, QUERIES, D_QUERY), torch.randn(2, 8, KEYS, d_key)
        scores = score(query, score.prepare(key))
        assert scores.shape == (2, 8, QUERIES, KEYS)
        for i in range(2):
            for j in range(8):
                close(scores[i, j], score(query[i, j], score.prepare(key[i, j])))


def test_at_first_no_score_but_the_biased_one_prefers_a_key() -> None:
    for score, d_key in every_score()[:-1]:
        zero = score(torch.zeros(QUERIES, D_QUERY), score.prepare(torch.zeros(KEYS, d_key)))
        assert torch.equal(zero, torch.zeros(QUERIES, KEYS))


def test_a_score_that_may_be_fused_is_the_dot_product_times_its_power_of_the_width() -> None:
    query, key = drawn(D_QUERY, D_QUERY)
    for score in (Dot(), ScaledDot()):
        assert score.power is not None
        close(score(query, key), pairwise(dot, query, key) * D_QUERY**score.power)
    assert [score.power for score, _ in every_score()[2:]] == [None] * 7


def test_preparing_a_dot_product_changes_nothing() -> None:
    key = torch.randn(KEYS, D_KEY)
    assert Dot().prepare(key) is key
    assert ScaledDot().prepare(key) is key
