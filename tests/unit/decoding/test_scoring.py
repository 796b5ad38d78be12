"""Forced scores against a log-softmax read off by hand."""

from collections.abc import Callable

import pytest
import torch

from dragoman.decoding.scoring import score
from dragoman.models.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from dragoman.models.convolutional import Convolutional
from dragoman.models.recurrent import Recurrent
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import Transformer
from dragoman.text.vocab import BOS, EOS, PAD

SOURCE = torch.tensor([[5, 7, 9, 4, EOS], [8, EOS, PAD, PAD, PAD], [6, 6, 7, EOS, PAD]])
TARGET = torch.tensor([[4, 6, 5, EOS], [EOS, PAD, PAD, PAD], [5, EOS, PAD, PAD]])


def transformer() -> Seq2Seq:
    layers = {"num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "tie": "target"}
    return Transformer(TransformerConfig(source_vocabulary=11, target_vocabulary=7, d_model=12, d_ff=16, **layers))


def recurrent() -> Seq2Seq:
    return Recurrent(RecurrentConfig(source_vocabulary=11, target_vocabulary=7, d_model=12, d_embedding=10))


def convolutional() -> Seq2Seq:
    sizes = {"d_model": 12, "d_embedding": 10, "num_encoder_layers": 1, "num_decoder_layers": 2}
    return Convolutional(ConvolutionalConfig(source_vocabulary=11, target_vocabulary=7, **sizes))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("make", [transformer, recurrent, convolutional])
def test_a_score_is_the_log_softmax_at_each_token_given_those_before(make: Callable[[], Seq2Seq]) -> None:
    model = make().eval()
    scores = score(model, SOURCE, TARGET)
    assert scores.shape == TARGET.shape
    for row in range(len(TARGET)):
        written = [BOS]
        for position, token in enumerate(TARGET[row].tolist()):
            if token == PAD:
                assert scores[row, position] == 0.0
                continue
            alone = SOURCE[row : row + 1, SOURCE[row] != PAD]
            logits = model(alone, torch.tensor([written]))[0, -1]
            truth = logits[token] - logits.exp().sum().log()
            assert abs(scores[row, position] - truth) <= 1e-10
            written.append(token)


def test_all_targets_of_a_length_share_what_the_model_has_to_give() -> None:
    """Over every token of a vocabulary, probabilities add up to one."""
    model = transformer().eval()
    every = torch.arange(1, 7)[:, None]
    found = score(model, SOURCE[:1].expand(6, -1), every)[:, 0].exp().sum()
    pad = model(SOURCE[:1], torch.tensor([[BOS]])).softmax(-1)[0, 0, PAD]
    assert abs(found + pad - 1.0) <= 1e-6


def test_scoring_leaves_no_graph_behind() -> None:
    assert not score(transformer().eval(), SOURCE, TARGET).requires_grad


def test_a_model_in_training_is_refused() -> None:
    with pytest.raises(ValueError, match=r"training mode.*model\.eval\(\)"):
        score(transformer().train(), SOURCE, TARGET)


def test_scores_of_a_half_precision_model_are_in_single_precision() -> None:
    model = transformer().eval().to(torch.bfloat16)
    assert score(model, SOURCE, TARGET).dtype == torch.float32
