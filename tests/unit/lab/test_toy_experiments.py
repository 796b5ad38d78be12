"""Experiments that train small models on generated sequences: their tasks, networks and loops do what they describe."""

import numpy as np
import pytest
import torch

from dragoman.attention.multihead import MultiHead
from dragoman.attention.tap import Sight, Tap
from dragoman.lab.experiments import (
    causal_mask,
    exposure_bias,
    head_learning,
    long_distance,
    longer_sequences,
    memory_hops,
    norm_place,
    residuals,
    score_functions,
    several_heads,
    source_reversed,
    warm_up,
)
from dragoman.lab.toy_training import (
    NUM_SYMBOLS,
    VOCABULARY,
    Tagger,
    accuracy,
    build_recurrent,
    build_transformer,
    draw_sequences,
    reverse,
    train_seq2seq,
    warm_then_linear,
)
from dragoman.text.vocab import EOS, NUM_SPECIALS, PAD


def test_drawn_sequences_end_with_eos_and_have_all_lengths() -> None:
    torch.manual_seed(2)
    tokens = draw_sequences(200, 2, 5)
    assert tokens.shape == (200, 6)
    lengths = (tokens >= NUM_SPECIALS).sum(dim=1)
    assert set(lengths.tolist()) == {2, 3, 4, 5}
    assert (tokens.gather(1, lengths[:, None]) == EOS).all()
    assert ((tokens == PAD).sum(dim=1) == 5 - lengths).all()


def test_reversing_keeps_eos_and_padding_at_the_end() -> None:
    tokens = torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, PAD]])
    assert reverse(tokens).tolist() == [[7, 6, 5, EOS], [9, 8, EOS, PAD]]


def test_the_rate_increases_over_the_warmup_and_ends_near_zero() -> None:
    factors = [warm_then_linear(update, 100, 10) for update in range(100)]
    assert factors.index(max(factors)) == 9
    assert factors[0] == pytest.approx(0.1)
    assert factors[-1] == pytest.approx(0.01)
    assert warm_then_linear(0, 100, 0) == 1.0


@pytest.mark.slow
def test_a_small_transformer_learns_to_copy_and_accuracy_counts_places() -> None:
    torch.manual_seed(4)
    model = build_transformer(32, 1)
    before = accuracy(model.eval(), (draw_sequences(20, 3, 3),) * 2)
    model.train()
    losses = train_seq2seq(model, lambda: (draw_sequences(32, 1, 3),) * 2, 250, 0.01)
    tokens = draw_sequences(50, 3, 3)
    assert losses[-1] < 0.2 * losses[0]
    assert accuracy(model, (tokens, tokens)) > max(0.9, before)
    changed = tokens.clone()
    changed[:, 1] = (changed[:, 1] - NUM_SPECIALS + 1) % 12 + NUM_SPECIALS
    assert accuracy(model, (tokens, changed)) < 0.7
    assert accuracy(model, (tokens, changed), place=0) > 0.9
    assert accuracy(model, (tokens, changed), place=1) < 0.1


def test_a_story_has_a_chain_from_the_question_to_the_answer() -> None:
    torch.manual_seed(5)
    facts, question, answer = memory_hops.draw_stories(30, 3)
    assert facts.shape == (30, memory_hops.NUM_FACTS, 2)
    for story, name, last in zip(facts.tolist(), question.tolist(), answer.tolist(), strict=True):
        leads = dict(story)
        assert len(leads) == memory_hops.NUM_FACTS
        assert leads[leads[leads[name]]] == last
        assert last not in leads


def test_the_question_of_a_look_up_is_among_the_keys_and_the_answer_beside_it() -> None:
    torch.manual_seed(6)
    question, firsts, seconds, answer = score_functions.draw_questions(40)
    for wanted, keys, values, right in zip(
        *(part.tolist() for part in (question, firsts, seconds, answer)), strict=True
    ):
        assert len(set(keys)) == score_functions.NUM_KEYS
        assert values[keys.index(wanted)] == right


def test_without_residuals_a_layer_cannot_pass_its_input_on() -> None:
    """With all weights of the sub-layers zero, a stack with residuals is the identity before its last norm."""
    tokens = torch.tensor([[5, 6, 7, EOS]])
    visible = torch.ones(1, 1, 1, 4, dtype=torch.bool)
    for has_residuals in (True, False):
        encoder = residuals.build_tagger("pre", has_residuals, 2).encoder
        with torch.no_grad():
            for layer in encoder.layers:
                layer.self_attention.output.weight.zero_()
                layer.feed_forward.contract.weight.zero_()
                layer.feed_forward.contract.bias.zero_()
            out, embedded = encoder(tokens, visible), encoder.embedding(tokens)
            expected = encoder.norm(embedded if has_residuals else torch.zeros_like(embedded))
        assert torch.allclose(out, expected, atol=1e-6)


def test_only_the_source_is_reversed_and_one_direction_is_one_direction() -> None:
    torch.manual_seed(7)
    source, target = source_reversed.draw(3, 4, is_reversed=True)
    assert torch.equal(reverse(source), target)
    source, target = source_reversed.draw(3, 4, is_reversed=False)
    assert torch.equal(source, target)
    layers = [build_recurrent("first", 8, "lstm", both).encoder.layers[0] for both in (False, True)]
    assert [layer.bidirectional for layer in layers] == [False, True]


def test_a_tagger_counts_symbols_alone() -> None:
    torch.manual_seed(8)
    tokens = torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, PAD]])
    model = Tagger(8, 1)
    chosen = model(tokens).argmax(dim=-1)
    wrong = chosen.clone()
    wrong[0, 3] = (wrong[0, 3] + 1) % VOCABULARY
    wrong[1, 3] = (wrong[1, 3] + 1) % VOCABULARY
    assert model.accuracy(tokens, wrong) == 1.0
    wrong[0, 0] = (wrong[0, 0] + 1) % VOCABULARY
    assert model.accuracy(tokens, wrong) == pytest.approx(4 / 5)


def test_a_chain_reads_its_own_output_and_a_table_the_source() -> None:
    torch.manual_seed(9)
    table = torch.randint(NUM_SYMBOLS, (NUM_SYMBOLS, NUM_SYMBOLS))
    for with_memory in (True, False):
        source, target = exposure_bias.draw(table, 3, with_memory)
        for row, written in zip((source - NUM_SPECIALS).tolist(), (target - NUM_SPECIALS).tolist(), strict=True):
            before = [0, *(written if with_memory else row)]
            assert written[: len(row) - 1] == [int(table[b, x]) for b, x in zip(before, row[:-1], strict=False)]
        assert (target[:, -1] == EOS).all()


def test_free_and_forced_errors_are_the_same_at_the_first_position() -> None:
    torch.manual_seed(10)
    table = torch.randint(NUM_SYMBOLS, (NUM_SYMBOLS, NUM_SYMBOLS))
    model = build_transformer(8, 1).eval()
    pairs = exposure_bias.draw(table, 40, True)
    assert exposure_bias.forced_errors(model, pairs)[0] == exposure_bias.free_errors(model, pairs)[0] > 0.5


def test_the_symbols_to_name_are_at_their_offsets_from_the_middle_positions() -> None:
    torch.manual_seed(11)
    tokens, symbols = several_heads.draw(5, (-1, 2))
    margin = several_heads.MARGIN
    for place in range(several_heads.LENGTH):
        assert torch.equal(symbols[:, place, 0] + NUM_SPECIALS, tokens[:, margin + place - 1])
        assert torch.equal(symbols[:, place, 1] + NUM_SPECIALS, tokens[:, margin + place + 2])
    assert several_heads.logits(Tagger(8, 1, num_tags=2 * NUM_SYMBOLS), tokens, 2).shape == (5, 8, 2, NUM_SYMBOLS)


def test_the_largest_rate_is_the_last_at_which_a_model_learned() -> None:
    assert norm_place.largest_rate((0.1, 0.2, 0.4), (1.0, 0.9, 0.3)) == 0.2
    assert norm_place.largest_rate((0.1, 0.2, 0.4), (0.2, 0.9, 0.3)) == 0.2
    assert norm_place.largest_rate((0.1, 0.2, 0.4), (0.2, 0.2, 0.2)) == 0.05


def test_without_the_mask_a_prediction_depends_on_the_word_to_be_predicted() -> None:
    torch.manual_seed(12)
    source, read = torch.tensor([[5, 6, EOS]]), torch.tensor([[1, 5, 6]])
    other = torch.tensor([[1, 5, 9]])
    for is_masked in (True, False):
        model = causal_mask.build_decoder(is_masked).eval()
        with torch.no_grad():
            first, second = (model(source, each)[0, 0] for each in (read, other))
        assert torch.allclose(first, second, atol=1e-6) is is_masked
    assert isinstance(model.decoder.layers[0].cross_attention, MultiHead)
    assert not isinstance(model.decoder.layers[0].cross_attention, causal_mask.Unmasked)


def test_a_head_is_looked_at_where_the_next_symbol_of_the_reversal_is() -> None:
    weights = torch.eye(4).flip(0)[None]  # query i looks at key 3 - i
    assert head_learning.on(weights, torch.tensor([[3, 2, 1, 0]])).tolist() == [[1.0, 1.0, 1.0, 1.0]]
    assert head_learning.on(weights, torch.tensor([[3, 1, 1, 1]])).tolist() == [[1.0, 0.0, 1.0, 0.0]]
    assert head_learning.crossing(np.array([0.0, 0.2, 0.4, 0.8])) == pytest.approx(2.0)
    assert head_learning.crossing(np.array([0.0, 0.2, 0.6, 0.8])) == pytest.approx(1.5)
    model = build_transformer(8, 2).eval()

    def look_back(seen: Sight) -> torch.Tensor | None:
        if not seen.name.endswith("layers.1.cross_attention") or seen.visible is None:
            return None
        lengths = seen.visible.sum(dim=-1, keepdim=True) - 1
        query, key = torch.arange(seen.weights.shape[2])[:, None], torch.arange(seen.weights.shape[3])
        return (key == lengths - 1 - query).float().expand_as(seen.weights)

    with Tap(model, look_back):
        right, heads = head_learning.look(model, 20)
    assert 0 <= right <= 1
    assert heads[4:] == [1.0] * 4
    assert all(0 < weight < 1 for weight in heads[:4])


def test_a_recurrent_tagger_answers_at_the_end_and_can_see_the_first_symbol() -> None:
    torch.manual_seed(13)
    tokens = draw_sequences(2, 5, 5)
    other = tokens.clone()
    other[:, 0] = (other[:, 0] - NUM_SPECIALS + 1) % NUM_SYMBOLS + NUM_SPECIALS
    for cell in long_distance.CELLS.values():
        model = long_distance.LastStateTagger(cell)
        assert model(tokens).shape == (2, 1, VOCABULARY)
        assert not torch.allclose(model(tokens), model(other))


def test_scores_with_rotary_and_relative_positions_depend_on_the_offset_alone() -> None:
    torch.manual_seed(14)
    tokens = torch.full((1, 7), 5)
    for kind in ("rotary", "relative"):
        model = longer_sequences.build(kind).eval()
        layer = model.encoder.layers[0].self_attention
        if kind == "relative":
            torch.nn.init.normal_(layer.attend.score.bias)
        with Tap(layer) as maps:
            model(tokens)
        scores = next(iter(maps.values()))[0].log()  # rows are normalised: compare differences within a row
        steps = scores.diff(dim=-1)
        assert torch.allclose(steps[:, 1:, 1:], steps[:, :-1, :-1], atol=1e-4)
        assert steps.abs().max() > 1e-3


def test_positions_are_those_of_their_kind() -> None:
    tokens = torch.tensor([[5, 5, 5]])
    for kind in longer_sequences.KINDS:
        model = longer_sequences.build(kind).eval()
        with torch.no_grad():
            states = model.encoder.embedding(tokens)[0]
        assert torch.allclose(states[0], states[2]) is (kind not in ("sinusoidal", "learned"))
    assert isinstance(longer_sequences.build("learned").encoder.embedding.positions.table, torch.nn.Parameter)


def test_statistics_are_collected_while_the_rate_is_zero() -> None:
    assert [warm_up.after_statistics(update, 8, 4) for update in (0, 3)] == [0.0, 0.0]
    assert warm_up.after_statistics(4, 8, 4) == 0.5
