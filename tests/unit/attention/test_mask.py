"""Masks against loops that ask the question of each single position."""

import pytest
import torch

from dragoman.attention import mask

LENGTHS = [1, 2, 3, 7]


def test_padding_hides_exactly_the_pad_tokens() -> None:
    tokens = torch.tensor([[5, 9, 2], [9, 2, 9], [4, 9, 9], [9, 9, 9]])
    visible = mask.padding(tokens, pad=9)
    assert visible.shape == (4, 1, 1, 3)
    assert visible[:, 0, 0].tolist() == [[token != 9 for token in row] for row in tokens.tolist()]


@pytest.mark.parametrize("length", LENGTHS)
def test_causal_hides_what_comes_after(length: int) -> None:
    assert mask.causal(length).tolist() == [[key <= query for key in range(length)] for query in range(length)]


@pytest.mark.parametrize("neighbours", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("length", LENGTHS)
def test_restricted_sees_its_neighbourhood(length: int, neighbours: int) -> None:
    truth = [[abs(query - key) <= neighbours for key in range(length)] for query in range(length)]
    assert mask.restricted(length, neighbours).tolist() == truth


def test_the_neighbourhood_of_table_1_has_twice_the_neighbours_and_itself() -> None:
    assert mask.restricted(20, neighbours=4)[10].sum() == 2 * 4 + 1


def test_a_negative_neighbourhood_is_refused() -> None:
    with pytest.raises(ValueError, match="neighbours -1 is negative"):
        mask.restricted(3, neighbours=-1)


def test_a_window_moves_with_its_centre() -> None:
    centre = torch.tensor([[0, 3, 6], [9, -4, 2]])
    truth = [[[abs(key - c) <= 2 for key in range(7)] for c in row] for row in centre.tolist()]
    assert mask.window(centre, keys=7, neighbours=2).tolist() == truth


def test_a_meeting_allows_what_all_masks_allow() -> None:
    padding = mask.padding(torch.tensor([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]]), pad=0)
    near, past = mask.restricted(5, neighbours=2), mask.causal(5)
    met = mask.meeting(padding, near, None, past)
    assert met is not None
    assert met.shape == (2, 1, 5, 5)
    for row in range(2):
        for query in range(5):
            for key in range(5):
                allowed = padding[row, 0, 0, key] and near[query, key] and past[query, key]
                assert met[row, 0, query, key] == allowed


def test_nothing_hides_nothing() -> None:
    past = mask.causal(3)
    assert mask.meeting() is None
    assert mask.meeting(None, None) is None
    assert torch.equal(mask.meeting(None, past), past)  # type: ignore[arg-type]


def test_a_meeting_leaves_its_masks_as_they_were() -> None:
    near, past = mask.restricted(4, neighbours=1), mask.causal(4)
    mask.meeting(past, near)
    assert torch.equal(past, mask.causal(4))
    assert torch.equal(near, mask.restricted(4, neighbours=1))
