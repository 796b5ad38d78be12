"""An ensemble writes by the mean of its models' probabilities, in search, scoring and sampling alike."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.bundle import Bundle, open_bundle
from dragoman.decoding.engine import open_engine, search
from dragoman.decoding.ensemble import Ensemble
from dragoman.decoding.options import EngineOptions, LengthLimit, SamplingOptions, SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.decoding.search import beam_search, greedy_search
from dragoman.decoding.torch_engine import TorchEngine, load_model
from dragoman.models.build import build
from dragoman.models.config import RecurrentConfig, TransformerConfig
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import BOS, EOS, PAD

GOLDEN = Path(__file__).parents[2] / "golden"
FIRST = {BOS: {4: 0.6, 5: 0.4}, 4: {EOS: 1.0}, 5: {EOS: 1.0}}
SECOND = {BOS: {4: 0.1, 5: 0.9}, 4: {4: 0.5, EOS: 0.5}, 5: {5: 0.2, EOS: 0.8}}
SOURCE = torch.tensor([[4, EOS]])
OPTIONS = SearchOptions(
    beam_size=2, num_best=2, penalty=Penalty(formula="none"), max_length=LengthLimit(ratio=0.0, extra=3)
)


def random_models() -> list[Seq2Seq[Any, Any]]:
    """Models of two families and three sizes."""
    torch.manual_seed(5)
    sizes = {"source_vocabulary": 11, "target_vocabulary": 11}
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 1}
    transformers = [TransformerConfig(**sizes, **layers, d_model=d, d_ff=12, num_heads=2) for d in (8, 16)]
    configs = [*transformers, RecurrentConfig(**sizes, d_model=6, d_embedding=10)]
    return [build(config).eval() for config in configs]


def test_the_mean_decides(bigram: Callable[..., Seq2Seq[Any, Any]]) -> None:
    first, second = (bigram(table, vocabulary=6) for table in (FIRST, SECOND))
    assert [greedy_search(model, SOURCE, OPTIONS)[0].tokens for model in (first, second)] == [(4,), (5,)]
    best, other = beam_search(Ensemble([first, second]).eval(), SOURCE, OPTIONS)[0].hypotheses
    # (0.4 + 0.9) / 2 and (1.0 + 0.8) / 2, against (0.6 + 0.1) / 2 and (1.0 + 0.5) / 2
    assert (best.tokens, other.tokens) == ((5,), (4,))
    assert best.log_probability == pytest.approx(math.log(0.65 * 0.9), abs=1e-6)
    assert other.log_probability == pytest.approx(math.log(0.35 * 0.75), abs=1e-6)


def test_teacher_forcing_equals_step_by_step_and_both_are_the_mean() -> None:
    models = random_models()
    ensemble = Ensemble(models)
    source = torch.tensor([[4, 5, 6, EOS], [7, EOS, PAD, PAD]])
    target = torch.tensor([[BOS, 8, 9], [BOS, 4, 10]])
    expected = torch.stack([model(source, target).softmax(dim=-1) for model in models]).mean(dim=0)
    with torch.no_grad():
        assert torch.allclose(ensemble(source, target).exp(), expected, atol=1e-6)
        state = ensemble.start(ensemble.encode(source))
        for position in range(3):
            logits, state = ensemble.step(target[:, position], state)
            assert torch.allclose(logits.exp(), expected[:, position], atol=1e-6)
        state = ensemble.start(ensemble.encode(source)).select(torch.tensor([1, 0, 1]))
        logits, _ = ensemble.step(torch.tensor([BOS] * 3), state)
        assert torch.allclose(logits.exp(), expected[[1, 0, 1], 0], atol=1e-6)


def test_several_times_the_same_model_is_the_model() -> None:
    model = random_models()[0]
    sources = [[4, 5, 6, EOS], [9, EOS]]
    alone, together = TorchEngine(model), TorchEngine(Ensemble([model] * 3).eval())
    assert together.longest == alone.longest
    for one, other in zip(search(alone, sources, OPTIONS), search(together, sources, OPTIONS), strict=True):
        assert [each.tokens for each in one.hypotheses] == [each.tokens for each in other.hypotheses]
        assert other.best.score == pytest.approx(one.best.score, abs=1e-4)
    targets = [[5, 6], [7]]
    for some, others in zip(alone.score(sources, targets), together.score(sources, targets), strict=True):
        assert others == pytest.approx(some, abs=1e-5)
    drawn = [dict(engine.sample(sources, OPTIONS, SamplingOptions(seed=3))) for engine in (alone, together)]
    assert [drawn[0][row].best.tokens for row in range(2)] == [drawn[1][row].best.tokens for row in range(2)]


def test_the_shortest_limit_is_that_of_the_ensemble(bigram: Callable[..., Seq2Seq[Any, Any]]) -> None:
    def limit(*limits: int | None) -> int | None:
        return Ensemble([bigram(FIRST, vocabulary=6, max_target=each) for each in limits]).max_target

    assert limit(9, 5, None) == 5
    assert limit(None, None) is None


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return open_bundle(GOLDEN / "v1")


def test_an_ensemble_runs_on_torch_with_the_reason(bundle: Bundle) -> None:
    opened = open_engine(bundle, OPTIONS, others=[bundle])
    assert isinstance(opened.engine, TorchEngine)
    assert isinstance(opened.engine.model, Ensemble)
    assert opened.engine.aligning is opened.engine.model.members[0]
    assert "ensemble" in str(opened.reason)
    with pytest.raises(ValueError, match="ensemble"):
        open_engine(bundle, OPTIONS, EngineOptions("ctranslate2"), others=[bundle])
    source = bundle.vocab.source.encode(["two red dogs."]).rows()
    alone = search(TorchEngine(load_model(bundle)), source, OPTIONS)
    assert search(opened.engine, source, OPTIONS)[0].best.tokens == alone[0].best.tokens


def test_models_with_different_vocabularies_are_refused(bundle: Bundle) -> None:
    other = open_bundle(GOLDEN / "v1-recurrent")
    assert other.vocab.sha256 != bundle.vocab.sha256
    with pytest.raises(ValueError, match="different vocabularies") as caught:
        open_engine(bundle, OPTIONS, others=[bundle, other])
    assert str(other.folder) in str(caught.value)
