"""What one forced pass shows is what the model did: by hand, from its own matrices."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dragoman.attention.multihead import MultiHead
from dragoman.attention.tap import Sight, Tap
from dragoman.decoding.scoring import score
from dragoman.inspection.capture import capture, largest, value_norms
from dragoman.models.build import build
from dragoman.models.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import BOS, EOS

SOURCE, TARGET = [5, 9, 6, 11, EOS], [7, 4, 8, EOS]
CROSS = "decoder.layers.1.cross_attention"


def transformer(bias: bool = False) -> Seq2Seq:
    config = TransformerConfig(
        source_vocabulary=13, target_vocabulary=150, d_model=18, d_ff=11, num_heads=3, d_k=5, d_v=7,
        num_encoder_layers=1, num_decoder_layers=2, attention_bias=bias, tie="none",
    )  # fmt: skip
    return build(config).eval()


def recurrent() -> Seq2Seq:
    return build(RecurrentConfig(source_vocabulary=13, target_vocabulary=150, d_model=16, d_embedding=10)).eval()


def convolutional() -> Seq2Seq:
    sizes = {"d_model": 16, "d_embedding": 10, "num_encoder_layers": 2, "num_decoder_layers": 2}
    return build(ConvolutionalConfig(source_vocabulary=13, target_vocabulary=150, **sizes)).eval()


@pytest.mark.parametrize("make", [transformer, recurrent, convolutional])
def test_its_log_probabilities_are_those_of_scoring(make: Callable[[], Seq2Seq]) -> None:
    model = make()
    seen = capture(model, SOURCE, TARGET)
    expected = score(model, torch.tensor([SOURCE]), torch.tensor([TARGET]))[0]
    torch.testing.assert_close(torch.from_numpy(seen.log_probabilities), expected, rtol=0, atol=1e-5)


def test_the_alternatives_are_the_most_probable_tokens_best_first() -> None:
    model = transformer()
    seen = capture(model, SOURCE, TARGET, alternatives=3)
    logits = model(torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:-1]]]))[0].log_softmax(-1)
    best = logits.topk(3)
    assert seen.alternative_ids.tolist() == best.indices.tolist()
    torch.testing.assert_close(torch.from_numpy(seen.alternative_log_probabilities), best.values)


def test_there_are_no_more_alternatives_than_tokens() -> None:
    assert capture(transformer(), SOURCE, TARGET, alternatives=999).alternative_ids.shape == (len(TARGET), 150)
    assert capture(transformer(), SOURCE, TARGET, alternatives=0).alternative_ids.shape == (len(TARGET), 0)


@pytest.mark.parametrize(("n", "k"), [(3, 3), (64, 5), (65, 5), (1000, 7), (130, 130)])
def test_the_largest_are_found_wherever_they_stand(n: int, k: int) -> None:
    scores = torch.stack([torch.randperm(n) for _ in range(4)]).float()
    values, where = largest(scores, k)
    assert values.tolist() == [list(map(float, range(n - 1, n - 1 - k, -1)))] * 4
    assert torch.equal(scores.gather(1, where), values)


@torch.no_grad()
@pytest.mark.parametrize("bias", [False, True])
def test_a_norm_is_that_of_what_one_head_adds_for_one_key(bias: bool) -> None:
    """Kobayashi's ||alpha f(x)||, f(x) = (x W_V + b_V) W_O: added up over heads and keys, these vectors, and not their
    norms, are the output.
    """
    model = transformer(bias)
    inputs: list[tuple[Tensor, Tensor]] = []
    attention = model.get_submodule(CROSS)
    assert isinstance(attention, MultiHead)
    attention.value.register_forward_hook(lambda _, given, made: inputs.append((given[0], made)))
    outputs: list[Tensor] = []
    attention.register_forward_hook(lambda _, given, made: outputs.append(made))
    seen = capture(model, SOURCE, TARGET)
    weights = torch.from_numpy(seen.attention[CROSS])
    x, _ = inputs[0]
    added = torch.zeros(3, len(TARGET), len(SOURCE), 18)
    for head in range(3):
        part = slice(7 * head, 7 * head + 7)
        value = x[0] @ attention.value.weight[part].T + (attention.value.bias[part] if bias else 0.0)
        added[head] = weights[head, :, :, None] * (value @ attention.output.weight[:, part].T)[None]
    torch.testing.assert_close(torch.from_numpy(seen.norms[CROSS]), added.norm(dim=-1), rtol=0, atol=1e-5)
    whole = added.sum(dim=(0, 2)) + (attention.output.bias if bias else 0.0)
    torch.testing.assert_close(outputs[0][0], whole, rtol=0, atol=1e-5)


def test_in_a_recurrent_model_it_is_the_norm_of_the_weighted_state() -> None:
    model = recurrent()
    memory = model.encode(torch.tensor([SOURCE]))
    states = memory.seen.value[0, 0]
    seen = capture(model, SOURCE, TARGET)
    expected = torch.from_numpy(seen.attention["decoder.attention"][0]) * states.norm(dim=-1)
    torch.testing.assert_close(torch.from_numpy(seen.norms["decoder.attention"][0]), expected, rtol=0, atol=1e-5)
    assert value_norms(nn.Identity(), torch.tensor([[[3.0, 4.0]]])).tolist() == [[5.0]]


def test_in_convs2s_it_is_the_norm_of_what_is_added_to_the_state() -> None:
    model, name = convolutional(), "decoder.layers.1.attention"
    value = model.encode(torch.tensor([SOURCE])).source.value[0, 0]
    seen = capture(model, SOURCE, TARGET)
    attention = model.get_submodule(name)
    added = torch.from_numpy(seen.attention[name][0])[..., None] * (attention.output(value) - attention.output.bias)
    torch.testing.assert_close(torch.from_numpy(seen.norms[name][0]), added.norm(dim=-1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("make", [transformer, recurrent, convolutional])
def test_vectors_are_kept_on_request_and_give_the_weights(make: Callable[[], Seq2Seq]) -> None:
    model = make()
    assert capture(model, SOURCE, TARGET).vectors == {}
    seen = capture(model, SOURCE, TARGET, vectors=True)
    assert list(seen.vectors) == list(seen.attention)
    name = list(seen.attention)[-1]
    kept = seen.vectors[name]
    query, key = (torch.from_numpy(part)[None] for part in (kept.query, kept.key))
    scores = model.get_submodule(name).attend.score(query, key)
    torch.testing.assert_close(scores.softmax(-1)[0], torch.from_numpy(seen.attention[name]), rtol=0, atol=1e-6)
    assert kept.query.shape[1] == len(TARGET)
    assert kept.value.shape[:2] == (len(seen.attention[name]), len(SOURCE))


def test_under_an_editing_tap_the_edited_model_is_captured() -> None:
    model = transformer()

    def uniform(sight: Sight) -> Tensor | None:
        if sight.name != CROSS:
            return None
        return torch.full_like(sight.weights, 1 / len(SOURCE))

    plain = capture(model, SOURCE, TARGET)
    with Tap(model, edit=uniform):
        edited = capture(model, SOURCE, TARGET)
        expected = score(model, torch.tensor([SOURCE]), torch.tensor([TARGET]))[0]
    assert abs(edited.attention[CROSS] - 0.2).max() < 1e-7
    torch.testing.assert_close(torch.from_numpy(edited.log_probabilities), expected, rtol=0, atol=1e-5)
    assert abs(edited.log_probabilities - plain.log_probabilities).max() > 1e-4


def test_a_half_precision_model_gives_numbers_that_numpy_can_use() -> None:
    seen = capture(transformer().to(torch.bfloat16), SOURCE, TARGET, vectors=True)
    assert {str(array.dtype) for array in (*seen.attention.values(), *seen.norms.values())} == {"float32"}
    assert seen.vectors[CROSS].key.dtype == seen.log_probabilities.dtype == "float32"


def test_a_model_in_training_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.eval\(\)"):
        capture(transformer().train(), SOURCE, TARGET)
