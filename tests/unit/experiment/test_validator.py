"""What a validation measures, against direct computations with the golden bundle's model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from torch import Tensor

from dragoman.bundle import open_bundle
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.torch_engine import TorchEngine, load_model
from dragoman.evaluation.metric_options import MetricOptions
from dragoman.evaluation.metrics import corpus_value
from dragoman.experiment.held_out import TextPairs
from dragoman.experiment.validator import Validator, held_out_loss, translate_together
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import BOS, Vocab
from dragoman.training.parallel import Group
from dragoman.translation.translator import Translator

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"
SEARCH = SearchOptions(beam_size=2)
PAIRS = TextPairs(
    "few",
    ["four green women and three old tables.", "two red dogs.", "ten", "three old houses."],
    ["vier grüne Frauen und drei alte Tische.", "zwei ROTE Hunde.", "elf", "drei alte Häuser."],
)


@pytest.fixture(scope="module")
def vocab() -> Vocab:
    return open_bundle(GOLDEN).vocab


@pytest.fixture
def model() -> Seq2Seq[Any, Any]:
    return load_model(open_bundle(GOLDEN))


def ids(vocab: Vocab, source: str, target: str) -> tuple[Tensor, Tensor]:
    source_ids, target_ids = (
        side.encode([text]).ids.astype(np.int64) for side, text in ((vocab.source, source), (vocab.target, target))
    )
    return torch.from_numpy(source_ids)[None], torch.from_numpy(target_ids)


def one_by_one(model: Seq2Seq[Any, Any], vocab: Vocab, pairs: TextPairs) -> float:
    total, num_tokens = 0.0, 0
    for source, target in zip(pairs.source, pairs.target, strict=True):
        read, written = ids(vocab, source, target)
        with torch.no_grad():
            logits = model(read, torch.cat([torch.tensor([BOS]), written[:-1]])[None])[0]
        total += torch.nn.functional.cross_entropy(logits.double(), written, reduction="sum").item()
        num_tokens += len(written)
    return total / num_tokens


def test_the_loss_is_that_of_all_tokens_without_smoothing_or_dropout(model: Seq2Seq[Any, Any], vocab: Vocab) -> None:
    expected = one_by_one(model, vocab, PAIRS)
    model.train()
    assert held_out_loss(model, [PAIRS], vocab, Group()) == pytest.approx(expected, rel=1e-5)
    assert model.training


def test_text_is_repaired_before_it_is_encoded_as_it_was_for_training(model: Seq2Seq[Any, Any], vocab: Vocab) -> None:
    untidy = TextPairs("few", [f"  {text}\r" for text in PAIRS.source], [f"\ufeff{text} " for text in PAIRS.target])
    expected = held_out_loss(model, [PAIRS], vocab, Group())
    assert held_out_loss(model, [untidy], vocab, Group()) == pytest.approx(expected, rel=1e-6)


def test_a_pair_that_is_too_long_for_the_model_does_not_end_the_run(model: Seq2Seq[Any, Any], vocab: Vocab) -> None:
    assert model.max_target is not None
    monster = "dogs " * model.max_target
    longer = TextPairs("few", [*PAIRS.source, monster, "ten"], [*PAIRS.target, "Hunde", monster])
    expected = held_out_loss(model, [PAIRS], vocab, Group())
    assert held_out_loss(model, [longer], vocab, Group()) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match=r"every pair of few is longer .* raise model\.max_positions"):
        held_out_loss(model, [TextPairs("few", [monster], ["Hunde"])], vocab, Group())


def test_scores_are_sacrebleus_and_samples_are_the_first(model: Seq2Seq[Any, Any], vocab: Vocab) -> None:
    translated = Translator(TorchEngine(model), vocab, SEARCH).translate(PAIRS.source)
    scores = Validator([PAIRS], vocab, SEARCH, MetricOptions(), 2)(model.train())
    assert scores["bleu"] == sacrebleu.corpus_bleu(translated, [list(PAIRS.target)]).score
    assert scores["chrf"] == sacrebleu.corpus_chrf(translated, [list(PAIRS.target)]).score
    assert 10.0 < scores["bleu"] < 100.0
    assert scores["samples"] == list(zip(PAIRS.source, PAIRS.target, translated, strict=True))[:2]
    lowered = Validator([PAIRS], vocab, SEARCH, MetricOptions(lower_case=True))(model)
    assert lowered["bleu"] > scores["bleu"]
    assert lowered["loss"] == scores["loss"]


def test_a_recipe_can_add_metrics_for_symbols(model: Seq2Seq[Any, Any], vocab: Vocab) -> None:
    translated = Translator(TorchEngine(model), vocab, SEARCH).translate(PAIRS.source)
    sets = [PAIRS, PAIRS.first(2)]
    scores = Validator(sets, vocab, SEARCH, MetricOptions(), metrics=("bleu", "chrf", "per", "exact"))(model)
    rates = [corpus_value("per", translated[:n], [PAIRS.target[:n]]) for n in (4, 2)]
    assert scores["per"] == pytest.approx(sum(rates) / 2)
    assert [of_set["per"] for of_set in scores["sets"]] == pytest.approx(rates)
    assert scores["exact"] == scores["sets"][0]["exact"] / 2 + scores["sets"][1]["exact"] / 2


@pytest.mark.parametrize("num_processes", [1, 2, 3, 5])
def test_what_processes_translate_together_is_in_order(
    num_processes: int, model: Seq2Seq[Any, Any], vocab: Vocab, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [Group(rank, num_processes) for rank in range(num_processes)]
    shares: list[list[str]] = []

    def kept(_: Group, thing: Any) -> Any:
        shares.append(thing)
        return [["?"] * len(PAIRS.source[rank::num_processes]) for rank in range(num_processes)]

    monkeypatch.setattr(Group, "all_gather", kept)
    for group in groups:
        translate_together(model, vocab, PAIRS.source, SEARCH, group)
    monkeypatch.setattr(Group, "all_gather", lambda *_: shares)
    expected = Translator(TorchEngine(model), vocab, SEARCH).translate(PAIRS.source)
    for group in groups:
        assert translate_together(model, vocab, PAIRS.source, SEARCH, group) == expected


def test_the_first_few_pairs_can_be_taken() -> None:
    assert PAIRS.first(2) == TextPairs("few", PAIRS.source[:2], PAIRS.target[:2])
    assert len(PAIRS.first(None)) == len(PAIRS) == 4


def test_a_model_that_is_hardly_trained_is_searched_greedily_and_ends_early(vocab: Vocab) -> None:
    validator = Validator([PAIRS], vocab, SEARCH, MetricOptions())
    assert validator.search_for(2.0) == SEARCH
    quick = validator.search_for(6.0)
    assert quick.beam_size == 1
    assert quick.max_length.tokens(20) < 40 < SEARCH.max_length.tokens(20)
