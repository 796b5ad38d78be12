"""The models of the lab: equations by hand, causality, gradients, taps, and that each learns what it is made for."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.attention.tap import Tap
from dragoman.decoding.search import greedy_search
from dragoman.lab.models.key_value_lm import AttentionLM, LanguageModel, NGramRNN, Split, before
from dragoman.lab.models.lstmn import LSTMN, Fusion, LSTMNTranslator, Tape
from dragoman.lab.models.rctm import RCTM, SentenceModel, kernels
from dragoman.lab.models.structured_self_attention import SentenceClassifier, penalty
from dragoman.lab.toy_training import VOCABULARY, accuracy, draw_sequences, reverse, train, train_seq2seq
from dragoman.models.seq2seq import Seq2Seq, shifted
from dragoman.text.vocab import EOS, NUM_SPECIALS, PAD

SPLITS: tuple[Split, ...] = ("attention", "key-value", "key-value-predict")
FUSIONS: tuple[Fusion, ...] = ("shallow", "deep")


def language_models() -> list[LanguageModel]:
    return [LanguageModel(9, 4, 4), *(AttentionLM(9, 4, split, span=3) for split in SPLITS), NGramRNN(9, 4, n=3)]


def translators() -> list[Seq2Seq]:
    recurrent = [RCTM(VOCABULARY, 8, longest=9, every_step=every) for every in (True, False)]
    return [*(LSTMNTranslator(VOCABULARY, 8, fusion) for fusion in FUSIONS), *recurrent]


def without_gradient(model: nn.Module) -> list[str]:
    return [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]


# Language models (Daniluk et al., 2017)


def test_a_later_word_never_changes_an_earlier_prediction_of_a_language_model() -> None:
    tokens = torch.randint(9, (3, 8))
    changed = tokens.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 9
    for model in language_models():
        with torch.no_grad():
            first, second = model(tokens), model(changed)
        assert first.shape == (3, 8, 9)
        assert torch.equal(first[:, :5], second[:, :5])
        assert not torch.allclose(first[:, 5], second[:, 5])
        assert model.losses(tokens).shape == (3, 7)


def test_losses_are_those_of_the_next_words() -> None:
    model, tokens = language_models()[0], torch.tensor([[1, 2, 3]])
    log_probabilities = model(tokens)[0].log_softmax(dim=-1)
    assert model.losses(tokens)[0].tolist() == pytest.approx(
        [-log_probabilities[0, 2].item(), -log_probabilities[1, 3].item()]
    )


@pytest.mark.parametrize(
    ("split", "value", "predict"), [("attention", 0, 0), ("key-value", 1, 1), ("key-value-predict", 1, 2)]
)
def test_attention_over_outputs_follows_equations_1_to_4(float64: None, split: Split, value: int, predict: int) -> None:
    k = 3
    model = AttentionLM(9, k, split, span=2)
    h = torch.randn(1, 4, model.num_parts * k)
    w_h, w_y, w = model.attend.score.query.weight, model.attend.score.key.weight, model.attend.score.value.weight[0]
    parts = h[0].reshape(4, -1, k)
    key, value_part, predict_part = parts[:, 0], parts[:, value], parts[:, predict]
    scores = torch.stack([w @ torch.tanh(w_y @ key[i] + w_h @ key[3]) for i in (1, 2)])
    alpha = scores.softmax(dim=0)
    r = alpha[0] * value_part[1] + alpha[1] * value_part[2]
    expected = torch.tanh(model.read.weight @ r + model.predict.weight @ predict_part[3])
    assert torch.allclose(model.combine(h)[0, 3], expected)
    first = torch.tanh(model.predict.weight @ predict_part[0])  # there is nothing to read yet
    assert torch.allclose(model.combine(h)[0, 0], first)


def test_the_n_gram_rnn_joins_part_i_of_the_output_i_minus_1_steps_before(float64: None) -> None:
    model = NGramRNN(9, 2, n=4)
    h = torch.randn(1, 5, 6)
    for t, parts in ((3, (h[0, 3, :2], h[0, 2, 2:4], h[0, 1, 4:])), (1, (h[0, 1, :2], h[0, 0, 2:4], torch.zeros(2)))):
        expected = torch.tanh(model.join.weight @ torch.cat(parts))
        assert torch.allclose(model.combine(h)[0, t], expected)


def test_attention_sees_the_span_before_a_word_and_its_rows_sum_to_one() -> None:
    assert before(4, 2).int().tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0]]
    for split in SPLITS:
        model = AttentionLM(9, 4, split, span=3)
        with Tap(model) as maps:
            model(torch.randint(9, (2, 7)))
        weights = maps["attend"]
        assert weights.shape == (2, 1, 7, 7)
        assert torch.allclose(weights.sum(dim=-1)[:, :, 1:], torch.ones(2, 1, 6))
        assert not weights[:, :, 0].any()
        assert torch.equal(weights[0, 0] > 0, before(7, 3))


def test_all_weights_of_the_language_models_are_trained() -> None:
    for model in language_models():
        model.losses(torch.randint(9, (4, 8))).sum().backward()
        assert without_gradient(model) == []


@pytest.mark.slow
def test_attention_finds_the_word_that_an_n_gram_does_not_reach() -> None:
    """Pairs of a name and a number: the number of a name is the same within a text."""

    def draw(num: int) -> Tensor:
        pairs = torch.stack([torch.arange(4).expand(num, 4), torch.randint(4, 8, (num, 4))], dim=2)
        name = torch.randint(4, (num, 1))
        return torch.cat([pairs.flatten(1), name, pairs[..., 1].gather(1, name)], dim=1)

    model = AttentionLM(8, 16, "key-value-predict", span=10)
    train(model, lambda: model.losses(draw(32))[:, -1].mean(), 300, 0.02)
    assert float(model.losses(draw(300))[:, -1].mean().detach()) < 0.5 * math.log(4)


# The LSTMN (Cheng et al., 2016)


def test_a_step_of_the_lstmn_follows_equations_4_to_9(float64: None) -> None:
    model = LSTMN(2, 3)
    x = torch.randn(1, 3, 2)
    tape = model(x[:, :2])
    (h_1, h_2), (c_1, c_2) = tape.hidden[0], tape.states[0, :, 3:]
    score = model.self_attention.attend.score
    w_x, w_read = score.query.weight[:, :2], score.query.weight[:, 2:]
    a = [
        score.value.weight[0] @ torch.tanh(score.key.weight @ h + w_x @ x[0, 2] + w_read @ tape.read[0])
        for h in (h_1, h_2)
    ]
    s = torch.stack(a).softmax(dim=0)  # (4), (5)
    h_read, c_read = s[0] * h_1 + s[1] * h_2, s[0] * c_1 + s[1] * c_2  # (6)
    gates = model.gates.weight @ torch.cat([h_read, x[0, 2]]) + model.gates.bias  # (7)
    i, f, o, candidate = gates[:3].sigmoid(), gates[3:6].sigmoid(), gates[6:9].sigmoid(), gates[9:].tanh()
    c = f * c_read + i * candidate  # (8)
    after = model.step(x[:, 2], tape)
    assert torch.allclose(after.states[0, 2], torch.cat([o * c.tanh(), c]))  # (9)
    assert torch.allclose(after.read[0], h_read)
    assert torch.equal(after.states[:, :2], tape.states)


def test_the_first_step_reads_nothing(float64: None) -> None:
    model, x = LSTMN(2, 3), torch.randn(2, 1, 2)
    i, _, o, candidate = (F.linear(x[:, 0], model.gates.weight[:, 3:]) + model.gates.bias).chunk(4, dim=-1)
    c = i.sigmoid() * candidate.tanh()
    assert torch.allclose(model(x).states[:, 0], torch.cat([o.sigmoid() * c.tanh(), c], dim=-1))


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_step_of_the_decoder_joins_both_tapes_by_its_fusion(float64: None, fusion: Fusion) -> None:
    model = LSTMNTranslator(VOCABULARY, 4, fusion)
    state = model.encode(torch.tensor([[5, 6, EOS]]))
    token = torch.tensor([7])
    x, y, a = model.target(token), state.source.hidden[0], state.source.states[0, :, 4:]
    score = model.cross_attention.attend.score
    p = torch.stack(
        [score.value.weight[0] @ torch.tanh(score.key.weight @ g + score.query.weight[:, :4] @ x[0]) for g in y]
    )
    p = p.softmax(dim=0)
    y_read, a_read = p @ y, p @ a
    if model.gate is None:
        expected = model.decoder.step(torch.cat([x, y_read[None]], dim=-1), state.target).states
    else:
        r = torch.sigmoid(model.gate.weight @ torch.cat([y_read, x[0]]) + model.gate.bias)
        plain = model.decoder.step(x, state.target).states
        gates = F.linear(
            torch.cat([torch.zeros(1, 4), x], dim=-1), model.decoder.gates.weight, model.decoder.gates.bias
        )
        c = plain[:, :, 4:] + r * a_read
        expected = torch.cat([gates[:, None, 8:12].sigmoid() * c.tanh(), c], dim=-1)
    logits, after = model.step(token, state)
    assert torch.allclose(after.target.states, expected)
    assert torch.allclose(logits, F.linear(expected[:, 0, :4], model.projection.weight))
    assert torch.allclose(after.source.read, y_read[None])


@pytest.mark.parametrize("fusion", FUSIONS)
def test_all_rows_of_the_tapes_sum_to_one_and_no_word_reads_a_later_one(fusion: Fusion) -> None:
    model = LSTMNTranslator(VOCABULARY, 8, fusion)
    source, target = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD]]), torch.tensor([[1, 5, 6], [1, 7, 8]])
    with Tap(model) as maps:
        model(source, target)
    for name, length in (("encoder.self_attention", 4), ("decoder.self_attention", 3)):
        weights = maps[name][:, 0]
        assert torch.allclose(weights.sum(dim=-1)[:, 1:], torch.ones(2, length - 1))
        assert torch.equal(weights > 0, torch.ones(length, length - 1).tril(-1).bool().expand(2, -1, -1))
    cross = maps["cross_attention"][:, 0]
    assert torch.allclose(cross.sum(dim=-1), torch.ones(2, 3))
    assert not cross[1, :, 2:].any()


def test_an_edit_of_the_tape_weights_changes_what_is_read() -> None:
    model, x = LSTMN(3, 4), torch.randn(2, 3, 3)

    def last(sight: object) -> Tensor:
        weights = sight.weights
        return (
            F.one_hot(torch.full(weights.shape[:-1], weights.shape[-1] - 1), weights.shape[-1]).float()
            if weights.shape[-1]
            else weights
        )

    with Tap(model, last):
        tape = model(x)
    assert torch.equal(tape.read, tape.hidden[:, 1])


def test_a_selected_tape_is_that_of_its_rows() -> None:
    tape = LSTMN(3, 4)(torch.randn(3, 2, 3)).select(torch.tensor([2, 0, 0]))
    assert isinstance(tape, Tape)
    assert tape.states.shape == (3, 2, 8)
    assert torch.equal(tape.read[1], tape.read[2])
    assert not torch.equal(tape.keys[0], tape.keys[1])


# Both translators


def test_steps_are_teacher_forcing_and_a_later_word_never_changes_an_earlier_prediction() -> None:
    source, target = draw_sequences(3, 2, 5), draw_sequences(3, 4, 4)
    changed = target.clone()
    changed[:, 2] = (changed[:, 2] + 1) % VOCABULARY
    for model in translators():
        with torch.no_grad():
            logits, other = model(source, target), model(source, changed)
            state, steps = model.start(model.encode(source)), []
            for tokens in target.unbind(1):
                step, state = model.step(tokens, state)
                steps.append(step)
        assert logits.shape == (3, 5, VOCABULARY)
        assert torch.allclose(torch.stack(steps, dim=1), logits, atol=1e-6)
        assert torch.equal(logits[:, :2], other[:, :2])
        assert not torch.allclose(logits[:, 2], other[:, 2])


def test_a_translation_does_not_depend_on_the_padding_of_its_batch() -> None:
    source, target = torch.tensor([[5, 6, EOS, PAD, PAD], [7, 8, 9, 5, EOS]]), torch.tensor([[1, 5], [1, 6]])
    for model in translators():
        with torch.no_grad():
            together, alone = model(source, target)[0], model(source[:1, :3], target[:1])[0]
        assert torch.allclose(together, alone, atol=1e-6)
        assert len(greedy_search(model.eval(), source)) == 2


def test_all_weights_of_the_translators_are_trained() -> None:
    for model in translators():
        source = torch.cat([F.pad(draw_sequences(6, length, length), (0, 7 - length)) for length in range(1, 8)])
        F.cross_entropy(model(source, shifted(source)).flatten(0, 1), source.flatten()).backward()
        assert without_gradient(model) == []


@pytest.mark.slow
@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_lstmn_learns_to_reverse(fusion: Fusion) -> None:
    model = LSTMNTranslator(VOCABULARY, 32, fusion)
    train_seq2seq(model, lambda: (tokens := draw_sequences(32, 1, 2), reverse(tokens)), 150, 0.01)
    tokens = draw_sequences(50, 2, 2)
    assert accuracy(model, (tokens, reverse(tokens))) > 0.5


@pytest.mark.slow
def test_the_rctm_learns_to_copy_two_words() -> None:
    model = RCTM(VOCABULARY, 48, longest=4)
    train_seq2seq(model, lambda: (draw_sequences(32, 1, 2),) * 2, 300, 0.01)
    tokens = draw_sequences(50, 2, 2)
    assert accuracy(model, (tokens, tokens)) > 0.8


# RCTM (Kalchbrenner and Blunsom, 2013)


def test_the_sentence_model_convolves_each_row_until_one_column_is_left(float64: None) -> None:
    model = SentenceModel(1, longest=6)
    assert set(model.kernels) == {"K2", "K3", "L2", "L3"}
    e = torch.randn(5)
    k_2, k_3, l_2 = (model.kernels[name].flatten() for name in ("K2", "K3", "L2"))
    pairs = [torch.tanh(k_2 @ e[i : i + 2]) for i in range(4)]  # 5 words: 4 columns, then 2, then 1
    triples = [torch.tanh(k_3 @ torch.stack(pairs[i : i + 3])) for i in range(2)]
    assert torch.allclose(model(e[None, None])[0, 0], torch.tanh(l_2 @ torch.stack(triples)))
    assert torch.equal(model(e[None, None, :1])[0], e[:1])


def test_the_kernels_leave_one_column_and_widen_with_the_root_of_the_length() -> None:
    assert list(kernels(11)) == [("K2", 10), ("K3", 8), ("K4", 5), ("L5", 1)]
    for length in range(1, 60):
        steps = list(kernels(length))
        assert length == 1 or steps[-1][1] == 1
        assert all(int(name[1:]) <= math.ceil(math.sqrt(2 * length)) for name, _ in steps)


def test_a_step_of_the_rctm_adds_the_sentence_vector(float64: None) -> None:
    source, tokens = torch.tensor([[5, 6, EOS]]), torch.tensor([1])
    for every_step in (True, False):
        model = RCTM(VOCABULARY, 4, longest=3, every_step=every_step)
        s = model.sentence.weight @ model.csm(model.source(source).transpose(1, 2))[0]
        y = model.target(tokens)[0]
        h_1 = torch.tanh(y + s)
        h_2 = torch.tanh(model.recurrent.weight @ h_1 + y + (s if every_step else 0))
        logits = model(source, torch.cat([tokens, tokens])[None])[0]
        assert torch.allclose(logits, torch.stack([h_1, h_2]) @ model.projection.weight.T)


def test_a_source_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="4 tokens"):
        RCTM(VOCABULARY, 4, longest=3).encode(torch.tensor([[5, 6, 7, EOS]]))


# Structured self-attention (Lin et al., 2017)


def classifier(r: int = 3) -> SentenceClassifier:
    return SentenceClassifier(vocabulary=12, num_classes=4, d_embedding=5, d_direction=3, d_a=4, r=r, d_hidden=6)


def test_the_sentence_embedding_follows_equations_6_and_7(float64: None) -> None:
    attention, h = classifier(2).self_attention, torch.randn(1, 3, 6)
    embedding, annotation = attention(h, torch.tensor([[[[True, True, False]]]]))
    scores = attention.queries.weight @ torch.tanh(attention.hidden.weight @ h[0, :2].T)
    expected = scores.softmax(dim=-1)
    assert torch.allclose(annotation[0, :, :2], expected)
    assert not annotation[0, :, 2].any()
    assert torch.allclose(embedding[0], expected @ h[0, :2])


def test_the_penalty_is_zero_for_sharp_rows_at_different_words() -> None:
    rows = {"different": [[1, 0, 0], [0, 0, 1]], "equal": [[1, 0, 0], [1, 0, 0]], "spread": [[0.5, 0.5, 0]] * 2}
    measured = {name: penalty(torch.tensor([row], dtype=torch.float)).item() for name, row in rows.items()}
    assert measured == pytest.approx({"different": 0.0, "equal": 2.0, "spread": 1.0})


def test_rows_of_a_sentence_sum_to_one_and_ignore_padding() -> None:
    model, tokens = classifier(), torch.tensor([[4, 5, 6, 7], [8, 9, PAD, PAD]])
    with Tap(model) as maps, torch.no_grad():
        logits, annotation = model(tokens)
    weights = maps["self_attention"]
    assert logits.shape == (2, 4)
    assert weights.shape == (2, 1, 3, 4)
    assert torch.equal(weights[:, 0], annotation)
    assert torch.allclose(weights.sum(dim=-1), torch.ones(2, 1, 3))
    assert not weights[1, :, :, 2:].any()
    with torch.no_grad():
        assert torch.allclose(model(tokens[1:, :2])[0], logits[1:], atol=1e-6)


def test_the_penalty_alone_makes_the_rows_of_a_classifier_differ() -> None:
    model, tokens = classifier(2), torch.randint(NUM_SPECIALS, 12, (8, 6))
    before_training = penalty(model(tokens)[1]).mean().item()
    train(model, lambda: penalty(model(tokens)[1]).mean(), 60, 0.05)
    assert penalty(model(tokens)[1]).mean().item() < 0.6 * before_training


def test_all_weights_of_the_classifier_are_trained_and_the_coefficient_counts() -> None:
    model, tokens, classes = classifier(), torch.randint(1, 12, (8, 6)), torch.randint(4, (8,))
    difference = model.loss(tokens, classes, 2.0) - model.loss(tokens, classes, 0.0)
    assert difference.item() == pytest.approx(2 * penalty(model(tokens)[1]).mean().item(), rel=1e-4)
    model.loss(tokens, classes, 1.0).backward()
    assert without_gradient(model) == []


@pytest.mark.slow
def test_the_classifier_finds_the_word_that_decides() -> None:
    def draw(num: int) -> tuple[Tensor, Tensor]:
        tokens, classes = torch.randint(NUM_SPECIALS, 8, (num, 8)), torch.randint(4, (num,))
        return tokens.scatter(1, torch.randint(8, (num, 1)), 8 + classes[:, None]), classes

    model = classifier()
    train(model, lambda: model.loss(*draw(32), 0.1), 150, 0.01)
    tokens, classes = draw(200)
    assert (model(tokens)[0].argmax(dim=-1) == classes).float().mean() > 0.9
