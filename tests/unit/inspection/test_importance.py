"""Importance is a slope: the same as what a small change of the mask does to the loss."""

import pytest
import torch

from dragoman.attention.tap import Sight, Tap
from dragoman.data.vocab import EOS
from dragoman.decoding.scoring import score
from dragoman.inspection.importance import GivenUpError, head_importance
from dragoman.models.build import build
from dragoman.models.config import RecurrentConfig, TransformerConfig
from dragoman.models.seq2seq import Seq2Seq

PAIRS = [([5, 9, 6, 11, EOS], [7, 4, 8, EOS]), ([6, 5, EOS], [4, 9, EOS])]


def make(name: str) -> Seq2Seq:
    torch.manual_seed(4)
    if name == "recurrent":
        config = RecurrentConfig(source_vocabulary=13, target_vocabulary=17, d_model=8, d_embedding=6)
        return build(config).double().eval()
    return build(
        TransformerConfig(
            source_vocabulary=13, target_vocabulary=17, d_model=12, d_ff=10, num_heads=3, d_k=5, d_v=7,
            num_encoder_layers=1, num_decoder_layers=2, norm=name, tie="none",
        )
    ).double().eval()  # fmt: skip


def loss(model: Seq2Seq, pair: tuple[list[int], list[int]], name: str, head: int, by: float) -> float:
    def edit(sight: Sight) -> torch.Tensor:
        weights = sight.weights.clone()
        if sight.name == name:
            weights[:, head] *= by
        return weights

    with Tap(model, edit):
        return -float(score(model, torch.tensor([pair[0]]), torch.tensor([pair[1]])).sum())


@pytest.mark.parametrize("name", ["post", "pre", "recurrent"])
def test_it_is_the_slope_of_the_loss_added_up_over_sentences(name: str) -> None:
    model = make(name)
    found = head_importance(model, PAIRS)
    assert len(found) == (1 if name == "recurrent" else 5 * 3)
    for one in found[-2:]:
        slopes = [
            loss(model, pair, one.name, one.head, 1 + 1e-4) - loss(model, pair, one.name, one.head, 1 - 1e-4)
            for pair in PAIRS
        ]
        assert one.importance == pytest.approx(sum(abs(slope) / 2e-4 for slope in slopes), rel=1e-4)
        assert one.importance > 0
        assert one.num_sentences == 2


def test_it_can_be_normalised_in_each_layer() -> None:
    model = make("post")
    plain, normed = (head_importance(model, PAIRS, per_layer=flag) for flag in (False, True))
    size = sum(one.importance**2 for one in plain[:3]) ** 0.5
    assert [one.importance for one in normed[:3]] == pytest.approx([one.importance / size for one in plain[:3]])


def test_it_leaves_no_gradient_behind_and_works_where_none_are_kept() -> None:
    model = make("post")
    with torch.inference_mode():
        head_importance(model, PAIRS[:1])
    assert all(parameter.grad is None for parameter in model.parameters())


def test_it_tells_how_far_it_is_and_can_be_given_up() -> None:
    told: list[tuple[int, int]] = []
    head_importance(make("pre"), PAIRS, progress=lambda *done: told.append(done))
    assert told == [(1, 2), (2, 2)]
    with pytest.raises(GivenUpError, match="after 1 of 2"):
        head_importance(make("pre"), PAIRS, progress=lambda done, total: False)


def test_what_has_no_heads_or_no_sentences_is_refused() -> None:
    config = RecurrentConfig(source_vocabulary=13, target_vocabulary=17, d_model=8, d_embedding=6, context="first")
    with pytest.raises(ValueError, match="no attention"):
        head_importance(build(config).eval(), PAIRS)
    with pytest.raises(ValueError, match="at least one pair"):
        head_importance(make("pre"), [])
    with pytest.raises(ValueError, match=r"call model\.eval"):
        head_importance(make("pre").train(), PAIRS)
