"""What is minimised for a batch, put together by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.data.batches import Batch
from dragoman.models.config import TransformerConfig
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import Transformer
from dragoman.text.vocab import BOS
from dragoman.training.config import LossConfig
from dragoman.training.loss import Objective, label_smoothed, r_drop, shifted


@pytest.fixture
def pair(batches: list[Batch]) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(batches[1].source).long(), torch.from_numpy(batches[1].target).long()


def test_the_decoder_reads_what_stands_before() -> None:
    assert shifted(torch.tensor([[7, 8, 9], [5, 2, 0]])).tolist() == [[BOS, 7, 8], [BOS, 5, 2]]


@pytest.mark.parametrize("spread", ["all", "others"])
def test_without_r_drop_it_is_the_smoothed_loss_of_teacher_forcing(
    spread: str, model: Seq2Seq[Any, Any], pair: tuple[Tensor, Tensor]
) -> None:
    source, target = pair
    config = LossConfig.model_validate({"label_smoothing": 0.2, "spread": spread})
    objective = Objective(model, config).eval()
    expected = label_smoothed(model(source, shifted(target)), target, config).total
    torch.testing.assert_close(objective(source, target), expected, rtol=1e-5, atol=0.0)


def test_r_drop_reads_the_batch_twice_under_other_dropout(
    model: Seq2Seq[Any, Any], pair: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair
    read, seen = [], []
    encode, hidden = model.encode, model.hidden
    monkeypatch.setattr(model, "encode", lambda rows: read.append(rows) or encode(rows))
    monkeypatch.setattr(model, "hidden", lambda *given: seen.append(hidden(*given)) or seen[-1])
    objective = Objective(model.train(), LossConfig(r_drop=5.0))
    found = objective(source, target)
    assert torch.equal(read[0], torch.cat([source, source]))
    first, second = seen[0].chunk(2)
    assert all(not torch.equal(one, other) for one, other in zip(first, second, strict=True))
    expected = r_drop(model.projection(first), model.projection(second), target, LossConfig(r_drop=5.0))
    torch.testing.assert_close(found, expected.total, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("alpha", [0.0, 5.0])
def test_the_bias_of_the_output_counts(alpha: float, pair: tuple[Tensor, Tensor]) -> None:
    source, target = pair
    sizes: dict[str, Any] = {"d_model": 6, "d_ff": 10, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    most = int(max(source.max(), target.max())) + 1
    config = TransformerConfig(source_vocabulary=most, target_vocabulary=most, output_bias=True, **sizes)
    model = Transformer(config).eval()
    assert model.projection.bias is not None
    torch.nn.init.normal_(model.projection.bias)
    found = Objective(model, LossConfig(r_drop=alpha))(source, target)
    expected = label_smoothed(model(source, shifted(target)), target).total
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0.0)
    assert all(one.abs().sum() > 0 for one in torch.autograd.grad(found, [model.projection.bias]))


def test_without_dropout_r_drop_adds_nothing(model: Seq2Seq[Any, Any], pair: tuple[Tensor, Tensor]) -> None:
    plain, doubled = (Objective(model, LossConfig(r_drop=weight)).eval()(*pair) for weight in (0.0, 5.0))
    torch.testing.assert_close(doubled, plain, rtol=1e-5, atol=0.0)
