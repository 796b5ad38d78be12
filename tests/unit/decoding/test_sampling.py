"""Edits against their definitions, draws against the distribution they are drawn from."""

import itertools
import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.sampling import Edit, _draw, sample, temperature, top_k, top_p
from dragoman.decoding.search import greedy_search
from dragoman.models.config import RecurrentConfig, TransformerConfig
from dragoman.models.recurrent import Recurrent
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import Transformer
from dragoman.text.vocab import BOS, EOS, PAD, UNK

NEVER = -math.inf
SOURCE = torch.tensor([[4, EOS]])
COIN = {BOS: {4: 0.5, 5: 0.3, EOS: 0.2}, 4: {4: 0.6, EOS: 0.4}, 5: {5: 0.9, EOS: 0.1}}


def three(limit: int = 3) -> SearchOptions:
    return SearchOptions(max_length=LengthLimit(ratio=0.0, extra=limit))


def kept(edit: Edit, scores: Tensor) -> list[set[int]]:
    """Which tokens an edit leaves, in each row; what it leaves, it leaves as it was."""
    edited = edit(scores)
    assert edited.shape == scores.shape
    assert torch.equal(edited[edited > NEVER], scores[edited > NEVER])
    return [set((row > NEVER).nonzero().flatten().tolist()) for row in edited]


@pytest.mark.parametrize("degree", [0.25, 1.0, 3.0])
def test_temperature_raises_probabilities_to_the_inverse_power(degree: float) -> None:
    scores = torch.randn(5, 13, dtype=torch.float64).log_softmax(-1)
    power = scores.exp() ** (1 / degree)
    truth = power / power.sum(dim=-1, keepdim=True)
    assert (temperature(degree)(scores).softmax(-1) - truth).abs().max() <= 1e-12


@pytest.mark.parametrize("k", [1, 2, 7, 12, 13, 50])
def test_top_k_keeps_the_k_most_probable(k: int) -> None:
    scores = torch.randn(5, 13).log_softmax(-1)
    for row, found in zip(scores.tolist(), kept(top_k(k), scores), strict=True):
        assert found == set(sorted(range(13), key=lambda token: -row[token])[:k])


def test_top_k_keeps_what_ties_with_the_last() -> None:
    scores = torch.tensor([[0.1, 0.3, 0.2, 0.2, 0.2]]).log()
    assert kept(top_k(2), scores) == [{1, 2, 3, 4}]
    assert kept(top_k(1), scores) == [{1}]


@pytest.mark.parametrize("p", [1e-6, 0.1, 0.5, 0.9, 0.999, 1.0])
def test_top_p_keeps_the_fewest_that_reach_p(p: float) -> None:
    scores = (3 * torch.randn(5, 13, dtype=torch.float64)).log_softmax(-1)
    for row, found in zip(scores.exp().tolist(), kept(top_p(p), scores), strict=True):
        ranked = sorted(range(13), key=lambda token: -row[token])
        fewest = next((n for n in range(1, 13) if sum(row[token] for token in ranked[:n]) >= p), 13)
        assert found == set(ranked[:fewest])


def test_top_p_counts_only_what_was_not_struck_out_before() -> None:
    """Of 0.4 and 0.1 that are left, the first alone has 80 per cent."""
    scores = torch.tensor([[0.4, 0.5, 0.1]]).log()
    scores[0, 1] = NEVER
    assert kept(top_p(0.75), scores) == [{0}]
    assert kept(top_p(0.85), scores) == [{0, 2}]


def test_a_nucleus_that_is_reached_exactly_is_full() -> None:
    scores = torch.tensor([[0.25, 0.5, 0.125, 0.125]], dtype=torch.float64).log()
    assert kept(top_p(0.5), scores) == [{1}]
    assert kept(top_p(0.75), scores) == [{0, 1}]


def test_a_nucleus_of_one_is_everything_however_large_the_vocabulary() -> None:
    scores = (4 * torch.randn(3, 40_000)).log_softmax(-1)
    assert [len(found) for found in kept(top_p(1.0), scores)] == [40_000] * 3


def test_a_nucleus_is_not_blurred_by_single_precision() -> None:
    scores = (4 * torch.randn(3, 40_000)).log_softmax(-1)
    assert kept(top_p(0.9999), scores) == kept(top_p(0.9999), scores.double())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: temperature(0.0), r"temperature 0\.0 is not above 0: .* greedy_search"),
        (lambda: temperature(-1.0), r"temperature -1\.0 is not above 0"),
        (lambda: top_k(0), "top_k 0 is below 1"),
        (lambda: top_p(0.0), r"top_p 0\.0 is out of range"),
        (lambda: top_p(1.01), r"top_p 1\.01 is out of range"),
    ],
)
def test_what_is_no_edit_is_refused(make: Callable[[], Edit], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_a_lot_falls_on_the_token_whose_stretch_it_is_in() -> None:
    """Four tokens over [0, 1): 0.25, nothing, 0.5, 0.25; a border belongs to the stretch it begins."""
    scores = torch.tensor([0.25, 0.0, 0.5, 0.25], dtype=torch.float64).log().expand(7, -1)
    lots = torch.tensor([0.0, 0.2, 0.25, 0.5, 0.7499, 0.75, 1 - 2**-53], dtype=torch.float64)
    assert _draw(scores, lots).tolist() == [0, 0, 2, 2, 2, 3, 3]


def test_what_is_struck_out_is_never_drawn() -> None:
    scores = torch.tensor([NEVER, NEVER, 0.0, NEVER]).expand(3, -1)
    assert _draw(scores, torch.tensor([0.0, 0.5, 1 - 2**-53], dtype=torch.float64)).tolist() == [2, 2, 2]


def test_scores_need_not_be_normalised_to_be_drawn_from() -> None:
    scores = torch.tensor([0.25, 0.5, 0.25]).log().expand(2, -1) + 7.0
    assert _draw(scores, torch.tensor([0.24, 0.26], dtype=torch.float64)).tolist() == [0, 1]


def transformer() -> Seq2Seq:
    layers = {"num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "tie": "none"}
    return Transformer(TransformerConfig(source_vocabulary=7, target_vocabulary=6, d_model=12, d_ff=16, **layers))


def recurrent() -> Seq2Seq:
    model = Recurrent(RecurrentConfig(source_vocabulary=7, target_vocabulary=6, d_model=12, d_embedding=10))
    model.projection.weight.data *= 4.0  # as it begins, all tokens are about equally probable
    return model


@torch.no_grad()
def chances(model: Seq2Seq, edits: list[Edit], longest: int) -> dict[tuple[int, ...], float]:
    """The probability of every target: at each step the model's, without PAD and BOS, edited and normalised."""
    targets = [t for n in range(longest) for t in itertools.product(range(UNK, model.vocabulary), repeat=n)]
    found = {}
    for target in targets:
        chance = 1.0
        for n, token in enumerate([*target, EOS][: longest - 1]):  # the token after that can only be EOS
            scores = model(SOURCE, torch.tensor([[BOS, *target[:n]]]))[:, -1].double().log_softmax(-1)
            scores[:, [PAD, BOS]] = NEVER
            for edit in edits:
                scores = edit(scores)
            chance *= scores.softmax(-1)[0, token].item()
        found[target] = chance
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-9)
    return found


def p_value(counts: Counter[tuple[int, ...]], chances: dict[tuple[int, ...], float]) -> float:
    """Pearson's chi-square test: how probable counts at least so far from what is expected would be."""
    num = counts.total()
    possible = {target: chance for target, chance in chances.items() if chance > 0.0}
    assert set(counts) <= set(possible)
    assert min(possible.values()) * num > 5  # below, the statistic does not follow its distribution
    statistic = sum((counts[target] - num * chance) ** 2 / (num * chance) for target, chance in possible.items())
    freedom = torch.tensor((len(possible) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, torch.tensor(statistic / 2, dtype=torch.float64)))


@pytest.mark.parametrize(("make", "edits"), [(transformer, []), (recurrent, [temperature(0.7), top_k(3)])])
def test_targets_are_drawn_as_often_as_they_are_probable(make: Callable[[], Seq2Seq], edits: list[Edit]) -> None:
    """3000 draws over all 13 targets of at most three tokens. The seeds are fixed, so this passes or fails for ever;
    had they been chosen by chance, a right sampler would fail once in a million. A temperature that is off by a third
    is far beyond that.
    """
    model, num = make().eval(), 3000
    drawn = sample(model, SOURCE.expand(num, -1), range(num), edits, three())
    counts = Counter(hypothesis.tokens for hypothesis in drawn)
    assert p_value(counts, chances(model, edits, 3)) > 1e-6
    assert p_value(counts, chances(model, [temperature(1.33), *edits], 3)) < 1e-6


def test_the_same_seed_draws_the_same_whatever_the_batch(bigram: Callable) -> None:
    model = bigram(COIN, vocabulary=6)
    seeds = [7, 3, 11, 3, 2**40]
    together = sample(model, SOURCE.expand(5, -1), seeds, options=three(9))
    alone = [sample(model, SOURCE, [seed], options=three(9))[0] for seed in seeds]
    assert together == alone
    assert together[1] == together[3]
    assert len({hypothesis.tokens for hypothesis in together}) > 2


def test_a_sample_reports_the_models_own_log_probabilities(bigram: Callable) -> None:
    model = bigram(COIN, vocabulary=6)
    for hypothesis in sample(model, SOURCE.expand(50, -1), range(50), [temperature(3.0), top_p(0.9)], three(6)):
        path = [BOS, *hypothesis.tokens, EOS]
        truth = [math.log(COIN[last][token]) for last, token in itertools.pairwise(path)]
        assert hypothesis.log_probabilities == pytest.approx(truth, abs=1e-6)
        assert hypothesis.score == pytest.approx(sum(truth) / ((5 + len(truth)) / 6) ** 0.6, abs=1e-5)
        assert hypothesis.cut == (len(truth) == 6)


def test_the_one_most_probable_token_is_greedy_search(bigram: Callable) -> None:
    model = bigram(COIN, vocabulary=6)
    drawn = sample(model, SOURCE.expand(8, -1), range(8), [temperature(5.0), top_k(1)], three(5))
    assert drawn == greedy_search(model, SOURCE.expand(8, -1), three(5))


def test_edits_act_in_the_order_given(bigram: Callable) -> None:
    """Of 0.5, 0.3 and 0.2, a nucleus of 0.45 is the first alone; once all are nearly equal, it needs two."""
    flat, nucleus = temperature(50.0), top_p(0.45)
    model, source = bigram(COIN, vocabulary=6), SOURCE.expand(60, -1)
    first = {hypothesis.tokens[:1] for hypothesis in sample(model, source, range(60), [nucleus, flat], three(2))}
    assert first == {(4,)}
    first = {hypothesis.tokens[:1] for hypothesis in sample(model, source, range(60), [flat, nucleus], three(2))}
    assert first == {(4,), (5,)}


def test_samples_keep_to_the_rules(bigram: Callable) -> None:
    model, source = bigram(COIN, vocabulary=6), SOURCE.expand(40, -1)
    options = SearchOptions(max_length=LengthLimit(ratio=0.0, extra=4), min_length=3)
    drawn = sample(model, source, range(40), options=options, prefixes=[[5]] * 40)
    assert {len(hypothesis.tokens) + 1 for hypothesis in drawn} == {3, 4}
    assert all(hypothesis.tokens[0] == 5 for hypothesis in drawn)
    short = bigram(COIN, vocabulary=6, max_target=2)
    assert max(len(hypothesis.tokens) for hypothesis in sample(short, source, range(40))) == 1


def test_left_to_itself_a_sample_may_be_50_tokens_longer_than_its_source(bigram: Callable) -> None:
    """A source of two tokens: 51 are written before the end is forced."""
    endless = bigram({BOS: {5: 1.0}, 5: {5: 1.0}}, vocabulary=6)
    (hypothesis,) = sample(endless, SOURCE, [0])
    assert hypothesis.tokens == (5,) * 51
    assert hypothesis.cut


def test_each_source_needs_its_seed(bigram: Callable) -> None:
    with pytest.raises(ValueError, match="2 seeds for 1 sources"):
        sample(bigram(COIN, vocabulary=6), SOURCE, [1, 2])


def test_a_model_in_training_is_refused(bigram: Callable) -> None:
    with pytest.raises(ValueError, match="training mode"):
        sample(bigram(COIN, vocabulary=6).train(), SOURCE, [1])
