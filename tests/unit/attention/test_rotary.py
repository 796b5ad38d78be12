"""Rotary positions against their formula in plain numbers, and what they are for: distances."""

import math

import pytest
import torch

from dragoman.attention.rotary import rotate

pytestmark = pytest.mark.usefixtures("float64")


def test_each_pair_turns_by_its_own_angle() -> None:
    x = torch.randn(2, 3, 5, 6)
    turned = rotate(x, start=4)
    for n in range(5):
        for i in range(3):
            angle = (4 + n) / 10_000 ** (2 * i / 6)
            a, b = x[1, 2, n, 2 * i].item(), x[1, 2, n, 2 * i + 1].item()
            assert turned[1, 2, n, 2 * i].item() == pytest.approx(a * math.cos(angle) - b * math.sin(angle), abs=1e-12)
            assert turned[1, 2, n, 2 * i + 1].item() == pytest.approx(
                a * math.sin(angle) + b * math.cos(angle), abs=1e-12
            )


def test_a_score_depends_on_the_distance_alone() -> None:
    query, key = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    scores = [(rotate(query, start + 3) * rotate(key, start)).sum().item() for start in (0, 1, 17, 900)]
    assert scores == pytest.approx([scores[0]] * 4, abs=1e-10)
    assert (rotate(query, 4) * rotate(key, 0)).sum().item() != pytest.approx(scores[0], abs=1e-3)


def test_lengths_stay_and_half_precision_too() -> None:
    x = torch.randn(1, 2, 7, 4)
    torch.testing.assert_close(rotate(x, 9).norm(dim=-1), x.norm(dim=-1), rtol=0, atol=1e-12)
    assert rotate(x.bfloat16(), 9).dtype == torch.bfloat16
