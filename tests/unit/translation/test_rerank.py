"""The choice among hypotheses: by their likeness, which is sacreBLEU's chrF, and by a reverse model."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from dragoman.bundle import Bundle, open_bundle
from dragoman.decoding.options import EngineOptions, SamplingOptions
from dragoman.decoding.penalty import Penalty
from dragoman.decoding.torch_engine import TorchEngine, load_model
from dragoman.translation.rerank import ExpectedChrf, ReverseModel, _chrf, _count_ngrams, rerank
from dragoman.translation.translator import Choices, Translator

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"
SOURCES = ["two red dogs.", "ten old houses.", "", "four green women."]
TEXT = st.text(alphabet="abc d", max_size=12)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return open_bundle(GOLDEN)


@pytest.fixture(scope="module")
def translator(bundle: Bundle) -> Translator:
    return Translator.load(bundle, EngineOptions("torch", beam_size=4))


@given(TEXT, TEXT)
def test_the_likeness_of_two_texts_is_sacrebleus_chrf(one: str, other: str) -> None:
    expected = CHRF().sentence_score(one, [other]).score
    assert _chrf(_count_ngrams(one), _count_ngrams(other)) == pytest.approx(expected, abs=1e-9)


def test_the_hypothesis_that_is_most_like_the_probable_ones_wins() -> None:
    texts = ("red dogs", "two red dogs", "two red cats")
    even = Choices("x", texts, (0.0,) * 3, (-1.0, -1.0, -1.0))
    [scores] = ExpectedChrf(is_sampled=False)([even])
    means = [sum(CHRF().sentence_score(one, [other]).score for other in texts) / 3 for one in texts]
    assert scores == pytest.approx(means)
    assert max(scores) == scores[1]
    likely = even._replace(log_probabilities=(-1.0, -9.0, -9.0))
    [scores] = ExpectedChrf(is_sampled=False)([likely])
    assert max(scores) == scores[0]


def test_samples_count_by_their_number() -> None:
    row = Choices("x", ("aa", "bb", "bb"), (0.0,) * 3, (-0.1, -8.0, -8.0))
    [scores] = ExpectedChrf(is_sampled=True)([row])
    assert scores == pytest.approx([100 / 3, 200 / 3, 200 / 3])


def test_minimum_bayes_risk_is_a_choice_among_the_best(translator: Translator) -> None:
    chosen = rerank(translator, 6, None)
    assert (chosen.options.beam_size, chosen.options.num_best) == (6, 6)
    plain = replace(chosen, ranker=None).sentences(SOURCES)
    for source, found, before in zip(SOURCES, chosen.sentences(SOURCES), plain, strict=True):
        assert sorted(each.text for each in found.hypotheses) == sorted(each.text for each in before.hypotheses)
        scores = [each.score for each in found.hypotheses]
        assert scores == sorted(scores, reverse=True)
        if source:
            rows = [Choices(source, *zip(*before.hypotheses, strict=True))]
            [expected] = ExpectedChrf(is_sampled=False)(rows)
            assert found.score == pytest.approx(max(expected))
    assert chosen.translate(SOURCES[::-1]) == chosen.translate(SOURCES)[::-1]


def test_samples_are_those_of_as_many_seeds(bundle: Bundle) -> None:
    def load(seed: int) -> Translator:
        return Translator.load(bundle, EngineOptions("torch"), SamplingOptions(temperature=2.0, seed=seed))

    single = [load(seed).translate(SOURCES[:2]) for seed in (5, 6, 7)]
    several = rerank(load(5), 3, None)
    for number, sentence in enumerate(several.sentences(SOURCES[:2])):
        assert sorted(each.text for each in sentence.hypotheses) == sorted(drawn[number] for drawn in single)


def test_the_reverse_model_adds_what_it_gives_the_source(bundle: Bundle) -> None:
    engine, penalty = TorchEngine(load_model(bundle)), Penalty(formula="length", alpha=0.6)
    texts = ("two red dogs.", "ten")
    rows = [
        Choices("zwei rote Hunde.", texts, (-1.0, -2.0), (-3.0, -3.0)),
        Choices("zehn", ("four",), (-1.0,), (-3.0,)),
    ]
    target, sources = (
        bundle.vocab.target.encode(["zwei rote Hunde."]).rows()[0],
        bundle.vocab.source.encode(list(texts)).rows(),
    )
    expected = []
    for score, source in zip((-1.0, -2.0), sources, strict=True):
        [found] = engine.score([source], [target[:-1]])
        assert len(found) == len(target)
        expected.append(score + penalty.score(sum(found), len(found)))
    scores = ReverseModel(engine, bundle.vocab, penalty)(rows)
    assert scores[0] == pytest.approx(expected, abs=1e-4)
    assert scores[0][0] > scores[0][1]
    assert len(scores[1]) == 1


def test_a_text_that_is_too_long_for_the_reverse_model_leaves_the_order(bundle: Bundle) -> None:
    class ShortEngine(TorchEngine):
        longest = 6

    ranker = ReverseModel(ShortEngine(load_model(bundle)), bundle.vocab, Penalty())
    long, short = "two red dogs. " * 4, "ten"
    rows = [Choices("zwei", (long, short), (-1.0, -2.0), (-1.0, -2.0)), Choices("zehn", (short,), (-3.0,), (-3.0,))]
    first, second = ranker(rows)
    assert first == [-1.0, -2.0]
    assert second[0] < -3.0


def test_a_model_of_the_same_direction_is_refused(translator: Translator, bundle: Bundle) -> None:
    with pytest.raises(ValueError, match="opposite direction"):
        rerank(translator, None, bundle)
    unknown = replace(bundle, info=bundle.info.model_copy(update={"target_language": None}))
    assert rerank(translator, None, unknown).options.num_best == translator.options.beam_size
    assert rerank(translator, None, None) is translator
