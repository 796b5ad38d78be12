"""Experiments with trained or timed models: their parts agree with the product and with sums by hand."""

import numpy as np
import pytest
import torch

from dragoman.bundle import demo_folder
from dragoman.decoding.scoring import score
from dragoman.decoding.search import greedy_search
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.intervene import counterfactual
from dragoman.lab.experiments import (
    attention_explains,
    coreference,
    label_smoothing,
    layer_costs,
    neighbours,
    previous_word,
    salience,
    word_senses,
)
from dragoman.lab.sentences import generate_sentences, open_demo
from dragoman.lab.source_attention import source_attention
from dragoman.text.vocab import EOS


def test_layers_are_counted_until_all_positions_are_connected() -> None:
    assert layer_costs.count_layers([layer_costs.taps(5, 1)]) == 1
    assert layer_costs.count_layers([layer_costs.taps(10, 1)] * 9) == 3
    assert layer_costs.count_layers(layer_costs.taps(25, 5**layer) for layer in range(9)) == 2
    assert layer_costs.count_layers(layer_costs.taps(26, 5**layer) for layer in range(9)) == 3


def test_a_model_that_is_sure_and_wrong_half_of_the_time_has_a_calibration_error_of_a_half() -> None:
    logits = torch.zeros(4, 6)
    logits[:, 2] = 100.0
    quality = label_smoothing.judge(logits, torch.tensor([2, 2, 3, 4]))
    assert (quality.accuracy, quality.calibration_error) == (0.5, pytest.approx(0.5))
    even = label_smoothing.judge(torch.zeros(3, 6), torch.tensor([1, 2, 3]))
    assert even.perplexity == pytest.approx(6.0)


def test_generated_sentences_differ_and_depend_on_the_seed_alone() -> None:
    first = generate_sentences(50, seed=1)
    assert len(set(first)) == 50
    assert first == generate_sentences(50, seed=1) != generate_sentences(50, seed=2)
    assert {4, 5, 6} & {len(text.split()) for text in first}


@pytest.mark.slow
def test_changed_attention_keeps_the_tokens_that_inspect_counts() -> None:
    inspector = Inspector.load(demo_folder())
    trace = inspector.trace("The teacher reads a book in the garden.")
    source, target = torch.tensor([trace.source.ids]), torch.tensor([trace.target.ids])
    counted = counterfactual(inspector.model, trace, seed=5)
    true = attention_explains.predict(inspector.model, source, target, []).argmax(dim=-1)
    first = true == target[0]
    change = [attention_explains.HeadsPermuted(where="cross", seed=5)]
    permuted = attention_explains.predict(inspector.model, source, target, change).argmax(dim=-1)
    assert (int(first.sum()), int((first & (permuted == target[0])).sum())) == (
        counted.num_tokens,
        counted.kept_permuted,
    )
    written = torch.tensor([[*greedy_search(inspector.model, source)[0].tokens, EOS]])
    attention = attention_explains.mean_attention(inspector.model, source, written)
    assert attention.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    assert attention_explains.rank_correlation(attention, attention[:, :-1]) == pytest.approx(1.0)
    assert attention_explains.rank_correlation(attention, -attention[:, :-1]) == pytest.approx(-1.0)


def test_both_sentences_of_a_pair_have_their_nouns_where_it_says() -> None:
    for of_animal, of_meal in coreference.draw_pairs(20, seed=1):
        words = [sentence.text.rstrip(".").split() for sentence in (of_animal, of_meal)]
        assert words[0][:-1] == words[1][:-1]
        assert (words[0][-1] in coreference.STATES[True], words[1][-1] in coreference.STATES[False]) == (True, True)
        animal, meal = (words[0][place] for place in of_animal.nouns)
        assert (of_animal.pronoun, of_meal.pronoun) == (coreference.ANIMALS[animal], coreference.PRONOUNS[meal])


@pytest.mark.slow
def test_the_lean_of_a_head_is_the_difference_of_its_weights_in_a_trace() -> None:
    bundle, inspector = open_demo(), Inspector.load(demo_folder())
    of_animal, _ = coreference.draw_pairs(1, seed=2)[0]
    trace = inspector.trace(of_animal.text)
    tokens, maps = source_attention(bundle, inspector.model, of_animal.text)
    assert tokens == trace.source
    expected = np.concatenate([trace.attention[name] for name in trace.names("encoder")])
    assert maps.numpy() == pytest.approx(expected, abs=1e-5)
    words = np.array(tokens.words)
    it = of_animal.text.split().index("it")
    [row] = np.flatnonzero(words == it)
    animal, meal = (expected[:, row, words == place].sum(axis=-1) for place in of_animal.nouns)
    assert coreference.lean(bundle, inspector.model, of_animal) == pytest.approx((animal - meal).tolist(), abs=1e-5)
    assert len(expected) == 12


@pytest.mark.slow
def test_shares_of_attention_by_distance_sum_to_one() -> None:
    measured = neighbours.measure(3, is_smallest=True)
    for curve in measured.panels[0].lines.values():
        assert sum(curve) == pytest.approx(1.0, abs=1e-4)
    assert 0 < measured.numbers["near_uniform"] < measured.numbers["near"] < 1


@pytest.mark.slow
def test_a_prediction_depends_only_on_tokens_before_it() -> None:
    model = Inspector.load(demo_folder()).model
    source, read = torch.tensor([[403, 1523, EOS]]), torch.tensor([[1, 500, 600, 700]])
    other = read.clone()
    other[0, 2] = 800
    moved = previous_word.distance(*(previous_word.predict(model, source, each) for each in (read, other)))[0]
    assert moved[:2].tolist() == pytest.approx([0.0, 0.0], abs=1e-4)
    assert moved[2] > 0.01
    even = torch.full((1, 1, 4), 0.25)
    assert previous_word.distance(even, torch.eye(4)[None, :1]).item() == pytest.approx(0.75)


@pytest.mark.slow
def test_removal_is_the_log_probability_lost_without_a_word_and_attention_sums_to_one() -> None:
    bundle, inspector = open_demo(), Inspector.load(demo_folder())
    trace = inspector.trace("The dog chased the ball.")
    target = torch.tensor([trace.target.ids])
    lost = salience.removal(inspector.model, trace.source, target)
    pieces = list(trace.source.pieces)
    assert pieces[-3:] == ["▁ball", ".", "</s>"]
    without_chased = torch.tensor(bundle.vocab.source.encode(["The dog the ball."]).rows())
    without_ball = torch.tensor([[*trace.source.ids[:-3], *trace.source.ids[-2:]]])
    full = score(inspector.model, torch.tensor([trace.source.ids]), target).sum()
    for place, without in ((2, without_chased), (4, without_ball)):
        assert lost[place] == pytest.approx(float(full - score(inspector.model, without, target).sum()), rel=1e-4)
    assert len(lost) == 5
    attention, gradient, _ = salience.saliences(bundle, inspector.model, "The dog chased the ball.")
    assert 0.5 < attention.sum() < 1  # the rest is on the full stop and EOS
    assert (gradient > 0).all()
    assert salience.rank_correlation(np.array([1.0, 2.0, 5.0]), np.array([0.0, 3.0, 4.0])) == pytest.approx(1.0)


def test_senses_are_found_by_the_other_frames_alone() -> None:
    def occurrence(sense: int, frame: int, state: list[float]) -> word_senses.Occurrence:
        states = np.array([state])
        return word_senses.Occurrence("bank", sense, frame, states, states)

    own_frame_only = [occurrence(s, f, [1.0, 0.0] if (s + f) % 2 else [0.0, 1.0]) for s in (0, 1) for f in (0, 1)]
    apart = [occurrence(s, f, [1.0, 0.1 * f] if s else [0.1 * f, 1.0]) for s in (0, 1) for f in (0, 1)]
    for seen, share in ((own_frame_only, 0.0), (apart, 1.0)):
        assert word_senses.tell_apart(seen, [each.states[0] for each in seen]) == share


@pytest.mark.slow
def test_the_last_state_of_a_word_is_the_output_of_the_encoder() -> None:
    model = Inspector.load(demo_folder()).model
    source = torch.tensor([[403, 1523, EOS]])
    encoder = model.get_submodule("encoder")
    states = word_senses.layer_states(model, source)
    assert len(states) == 4
    with torch.no_grad():
        assert torch.allclose(encoder.norm(states[-1]), model.encode(source).hidden, atol=1e-5)


def test_every_frame_has_its_word_once_and_the_person_second() -> None:
    for word, senses in word_senses.SENSES.items():
        for frame in (text for sense in senses for text in sense):
            words = [each.strip(".") for each in frame.split()]
            assert (words.count(word), words.index("{}")) == (1, 1)
