"""Pieces merged to words, and links from weights, on maps small enough to work out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dragoman.alignment.links import WordMap, diagonal, links, steps, swap, word_map
from dragoman.bundle.alignment_head import AlignmentHead, Rows

SOURCE = (0, 1, 1, -1)
"""Two words, the second of two pieces, and EOS."""
TARGET = (0, 0, 1, 2, -1)
"""Three words, the first of two pieces, and EOS."""
WEIGHTS = np.array(
    [
        [0.5, 0.25, 0.125, 0.125],
        [0.25, 0.25, 0.25, 0.25],
        [0.125, 0.5, 0.25, 0.125],
        [0.0, 0.25, 0.0, 0.75],
        [1.0, 0.0, 0.0, 0.0],
    ],
    np.float32,
)


def test_a_source_word_has_the_sum_and_a_target_word_the_mean_of_its_pieces() -> None:
    words, eos = word_map(WEIGHTS, SOURCE, TARGET, "written")
    assert words.tolist() == [[0.375, 0.4375], [0.125, 0.75], [0.0, 0.25]]
    assert eos.tolist() == [0.1875, 0.125, 0.75]


def test_what_was_read_is_looked_up_one_row_further_on() -> None:
    words, eos = word_map(WEIGHTS, SOURCE, TARGET, "read")
    assert words.tolist() == [[0.1875, 0.625], [0.0, 0.25], [1.0, 0.0]]
    assert eos.tolist() == [0.1875, 0.75, 0.0]


def test_every_token_but_eos_has_a_row_either_way() -> None:
    rows = ["writes 0", "writes 1, reads 0", "writes EOS, reads 1"]
    assert rows[steps("written", 3)] == rows[:2]
    assert rows[steps("read", 3)] == rows[1:]


def test_heads_are_merged_each_for_itself() -> None:
    heads = np.stack([WEIGHTS, WEIGHTS[:, ::-1]])
    both = word_map(heads, SOURCE, TARGET, "read")
    for head in range(2):
        alone = word_map(heads[head], SOURCE, TARGET, "read")
        assert np.array_equal(both.words[head], alone.words)
        assert np.array_equal(both.eos[head], alone.eos)


@st.composite
def sides(draw: st.DrawFn) -> tuple[int, ...]:
    """Words of one to three pieces, then EOS."""
    sizes = draw(st.lists(st.integers(1, 3), max_size=4))
    return (*(word for word, size in enumerate(sizes) for _ in range(size)), -1)


@settings(max_examples=30, deadline=None)
@given(source=sides(), target=sides(), rows=st.sampled_from(["written", "read"]), seed=st.integers(0, 99))
def test_rows_that_sum_to_one_still_do(source: tuple[int, ...], target: tuple[int, ...], rows: Rows, seed: int) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(source)), size=(2, len(target)))
    words, eos = word_map(weights, source, target, rows)
    assert words.shape == (2, max(target) + 1, max(source) + 1)
    assert np.allclose(words.sum(-1) + eos, 1.0, rtol=0, atol=1e-12)


def test_a_word_that_left_no_piece_has_its_place_and_no_weight() -> None:
    words, _ = word_map(WEIGHTS[:3, :3], (0, 2, -1), (1, 1, -1), "written", num_words=(4, 3))
    assert words.shape == (3, 4)
    assert words[0].tolist() == words[2].tolist() == [0.0] * 4
    assert words[1].tolist() == [0.375, 0.0, 0.25, 0.0]


def test_maps_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit 5 target and 4 source tokens"):
        word_map(WEIGHTS[:, :3], SOURCE, TARGET, "written")
    with pytest.raises(ValueError, match="does not end with EOS"):
        word_map(WEIGHTS[:4], SOURCE, TARGET[:4], "read")


MAP = WordMap(
    np.array([[0.5, 0.25, 0.125], [0.25, 0.125, 0.25], [0.125, 0.25, 0.125], [0.0, 0.0, 0.0]]),
    np.array([0.125, 0.375, 0.5, 1.0]),
)


def test_a_target_word_is_linked_to_the_source_word_with_most_weight() -> None:
    assert links(MAP) == {(0, 0), (0, 1), (1, 2)}
    assert links(WordMap(40 * MAP.words, 40 * MAP.eos)) == links(MAP)  # norms have any scale


def test_no_source_word_means_no_link() -> None:
    assert links(word_map(np.ones((3, 1)), (-1,), (0, 1, -1), "written")) == frozenset()


def test_swapping_goes_there_and_back() -> None:
    assert swap(frozenset({(0, 3), (2, 1)})) == {(3, 0), (1, 2)}


@pytest.mark.parametrize(
    ("num_source", "num_target", "expected"),
    [(3, 3, {(0, 0), (1, 1), (2, 2)}), (2, 4, {(0, 0), (0, 1), (1, 2), (1, 3)}), (5, 1, {(2, 0)}), (0, 2, set())],
)
def test_the_diagonal_keeps_to_relative_places(
    num_source: int, num_target: int, expected: set[tuple[int, int]]
) -> None:
    assert diagonal(num_source, num_target) == expected


def test_a_head_is_kept_as_json_and_counts_as_a_key() -> None:
    head = AlignmentHead(layer="decoder.layers.1.cross_attention", head=None, rows="read", measure="norm")
    again = AlignmentHead.model_validate_json(head.model_dump_json())
    assert {head: 1}[again] == 1
    with pytest.raises(ValidationError):
        AlignmentHead(layer="decoder.attention", head=-1)
