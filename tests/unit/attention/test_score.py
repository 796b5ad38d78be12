"""Each score against its formula, written out in loops over plain numbers."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dragoman.attention.score import Additive, Concat, Dot, General, ScaledDot, Score

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


def every_score() -> list[tuple[Score, int]]:
    """Each with the width of its keys."""
    return [
        (Dot(), D_QUERY),
        (ScaledDot(), D_QUERY),
        (General(D_QUERY, D_KEY), D_KEY),
        (Additive(D_QUERY, D_KEY, D_HIDDEN), D_KEY),
        (Concat(D_QUERY, D_KEY, D_HIDDEN), D_KEY),
    ]


def test_leading_axes_are_compared_one_by_one() -> None:
    for score, d_key in every_score():
        query, key = torch.randn(2, 8, QUERIES, D_QUERY), torch.randn(2, 8, KEYS, d_key)
        scores = score(query, score.prepare(key))
        assert scores.shape == (2, 8, QUERIES, KEYS)
        for i in range(2):
            for j in range(8):
                close(scores[i, j], score(query[i, j], score.prepare(key[i, j])))


def test_no_score_has_a_bias() -> None:
    for score, d_key in every_score():
        zero = score(torch.zeros(QUERIES, D_QUERY), score.prepare(torch.zeros(KEYS, d_key)))
        assert torch.equal(zero, torch.zeros(QUERIES, KEYS))


def test_a_score_that_may_be_fused_is_the_dot_product_times_its_power_of_the_width() -> None:
    query, key = drawn(D_QUERY, D_QUERY)
    for score in (Dot(), ScaledDot()):
        assert score.power is not None
        close(score(query, key), pairwise(dot, query, key) * D_QUERY**score.power)
    assert [score.power for score, _ in every_score()[2:]] == [None, None, None]


def test_preparing_a_dot_product_changes_nothing() -> None:
    key = torch.randn(KEYS, D_KEY)
    assert Dot().prepare(key) is key
    assert ScaledDot().prepare(key) is key
