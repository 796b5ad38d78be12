"""Experiments that train small models on generated sequences: their tasks, networks and loops do what they describe."""

import numpy as np
import pytest
import torch

from dragoman.attention.multihead import MultiHead
from dragoman.attention.tap import Sight, Tap
from dragoman.lab.experiments import (
    attention_fusion,
    attention_penalty,
    causal_mask,
    exposure_bias,
    head_learning,
    long_distance,
    longer_sequences,
    memory_hops,
    memory_tape,
    norm_place,
    residuals,
    score_functions,
    several_heads,
    short_attention,
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


def test_a_near_text_has_the_probabilities_of_its_tables() -> None:
    torch.manual_seed(15)
    tables = short_attention.draw_tables()
    tokens, log_probabilities = short_attention.draw_near(tables, 3)
    assert log_probabilities.shape == (3, short_attention.LENGTH - 1)
    assert log_probabilities[:, :2].exp().flatten().tolist() == pytest.approx([1 / short_attention.VOCABULARY] * 6)
    one, three, word = tokens[1, 9], tokens[1, 7], tokens[1, 10]
    expected = (tables[0][one] + tables[1][three]).softmax(dim=0)[word]
    assert log_probabilities[1, 9].exp() == pytest.approx(float(expected), rel=1e-5)


def test_a_far_text_repeats_the_number_of_a_name_and_knows_it_for_sure() -> None:
    torch.manual_seed(16)
    tokens, log_probabilities = short_attention.draw_far(20)
    for text, truth in zip(tokens.tolist(), log_probabilities.exp().tolist(), strict=True):
        numbers: dict[int, int] = {}
        for place in range(0, len(text), 2):
            name, number = text[place : place + 2]
            assert truth[place] == pytest.approx(1.0 if name in numbers else 1 / short_attention.NUM_SYMBOLS)
            assert numbers.setdefault(name, number) == number >= short_attention.NUM_SYMBOLS > name
            if place:
                assert truth[place - 1] == pytest.approx(1 / short_attention.NUM_SYMBOLS)


def test_weights_are_counted_by_their_distance() -> None:
    length = 20
    weights = torch.zeros(1, length, length)
    for position in range(2, length):
        weights[0, position, position - 2] = 1.0
    counted = short_attention.by_distance(weights)
    assert counted == (0.0, 1.0) + (0.0,) * (short_attention.SPAN - 2)


def test_questions_are_about_the_facts_and_sums_about_the_values_so_far() -> None:
    torch.manual_seed(17)
    names, values, answers = memory_tape.draw_facts(10, 6)
    for name, value, answer in zip(names.tolist(), values.tolist(), answers.tolist(), strict=True):
        facts = dict(zip(name[:6], value[:6], strict=True))
        assert len(facts) == 6
        assert [facts[question] for question in name[6:]] == answer[6:]
        assert value[6:] == [memory_tape.NO_VALUE] * len(name[6:])
        assert answer[:6] == [memory_tape.NO_ANSWER] * 6
    _, values, answers = memory_tape.draw_sums(1, 4)
    assert answers[0].tolist() == [int(values[0, : place + 1].sum()) % memory_tape.MODULUS for place in range(4)]
    model = memory_tape.FactReader(has_tape=True)
    assert len(memory_tape.accuracy(model, memory_tape.draw_facts(5, 6))) == memory_tape.NUM_QUESTIONS
    sizes = [sum(weight.numel() for weight in memory_tape.FactReader(has).parameters()) for has in (True, False)]
    assert sizes[0] < sizes[1] < 1.1 * sizes[0]


def test_with_one_state_an_lstmn_reads_its_last_state_alone() -> None:
    torch.manual_seed(18)
    x = torch.randn(2, 3, attention_fusion.WIDTH)
    for has_tapes in (True, False):
        encoder = attention_fusion.build("deep", has_tapes).encoder
        tape = encoder(x)
        assert torch.equal(tape.read, tape.hidden[:, 1]) is not has_tapes


def test_the_class_of_a_sentence_follows_from_its_decisive_words() -> None:
    torch.manual_seed(19)
    for task, num_words in (("sum of four", 4), ("both of two", 2)):
        tokens, classes = attention_penalty.draw(task, 10)
        for sentence, label in zip(tokens.tolist(), classes.tolist(), strict=True):
            decisive = sorted(word for word in sentence if word >= attention_penalty.FIRST_SIGNAL)
            kinds = [(word - attention_penalty.FIRST_SIGNAL) % 3 for word in decisive]
            assert len(kinds) == num_words
            assert label == (sum(kinds) if num_words == 4 else 3 * kinds[0] + kinds[1])


def test_rows_are_alike_or_not_and_find_the_words_that_they_look_at_most() -> None:
    tokens = torch.tensor([[attention_penalty.FIRST_SIGNAL, 4, 5, attention_penalty.FIRST_SIGNAL + 4]])
    same = torch.tensor([[[0.7, 0.1, 0.1, 0.1], [0.7, 0.1, 0.1, 0.1]]])
    different = torch.tensor([[[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]])
    assert attention_penalty.look(same, tokens) == (pytest.approx(1.0), 0.5)
    assert attention_penalty.look(different, tokens) == (0.0, 1.0)
