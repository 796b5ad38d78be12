"""ConvS2S through the interface every model has, and its blocks against the paper's formulas, number by number."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from dragoman.attention.attend import Attend
from dragoman.attention.tap import Sight, Tap, cross_attentions
from dragoman.models import cost
from dragoman.models.build import build
from dragoman.models.config import ConvolutionalConfig
from dragoman.models.convolutional import (
    Convolution,
    Convolutional,
    ConvolutionalState,
    DecoderBlock,
    EncoderBlock,
)
from dragoman.text.vocab import BOS, EOS, NUM_SPECIALS, PAD

SIZES = {"source_vocabulary": 17, "target_vocabulary": 13, "d_model": 10, "d_embedding": 7, "max_positions": 19}
LAYERS = {"num_encoder_layers": 2, "num_decoder_layers": 3}
SHAPES: list[dict[str, Any]] = [
    {},
    {"weight_norm": False, "kernel_size": 5},
    {"kernel_size": 1, "tie": "target"},
    {"kernel_size": 5, "tie": "all", "target_vocabulary": 17, "num_encoder_layers": 1},
]
every_shape = pytest.mark.parametrize("changes", SHAPES, ids=str)
exactly = {"rtol": 0.0, "atol": 1e-10}


def make(**changes: Any) -> Convolutional:
    torch.manual_seed(3)
    config = ConvolutionalConfig.model_validate(SIZES | LAYERS | {"dropout": 0.3} | changes)
    model = Convolutional(config).double().eval()
    for name, parameter in model.named_parameters():  # no bias left at zero
        if name.endswith("bias"):
            nn.init.normal_(parameter, std=0.4)
    return model


def drawn(vocabulary: int = 13) -> tuple[Tensor, Tensor]:
    """Sources of lengths 8, 4, 1 and 6; targets of 5 that begin with BOS."""
    source = torch.randint(NUM_SPECIALS, 17, (4, 8))
    for row, length in enumerate([8, 4, 1, 6]):
        source[row, length - 1] = EOS
        source[row, length:] = PAD
    target = torch.randint(NUM_SPECIALS, vocabulary, (4, 5))
    target[:, 0] = BOS
    return source, target


def stepped(model: Convolutional, state: ConvolutionalState, target: Tensor) -> tuple[Tensor, ConvolutionalState]:
    logits = []
    for tokens in target.unbind(1):
        scores, state = model.step(tokens, state)
        logits.append(scores)
    return torch.stack(logits, dim=1), state


# The blocks beside the paper's formulas.

Array = NDArray[np.float64]


def array(tensor: Tensor) -> Array:
    return tensor.detach().numpy()


def linear(layer: nn.Module, x: Array) -> Array:
    """W x + b, with the rows of W made of their length and direction if they are normalised."""
    weights = {name: array(parameter) for name, parameter in layer.named_parameters()}
    if "direction" in weights:
        rows = weights["direction"]
        matrix = np.array([g * v / math.sqrt(sum(v**2)) for g, v in zip(weights["norm"], rows, strict=True)])
    else:
        matrix = weights["weight"]
    return matrix @ x + weights["bias"]


def gated(convolution: Convolution, window: list[Array]) -> Array:
    """GLU of the convolution: [A; B] = W [x_1; ...; x_k] + b, A * sigmoid(B)."""
    both = linear(convolution.linear, np.concatenate(window))
    half = len(both) // 2
    return both[:half] / (1 + np.exp(-both[half:]))


def padded(x: Array, before: int, after: int) -> list[Array]:
    zero = np.zeros(x.shape[1])
    return [zero] * before + list(x) + [zero] * after


@every_shape
def test_an_encoder_block_is_the_formula_of_the_paper(changes: dict[str, Any]) -> None:
    model, x = make(**changes), torch.randn(1, 6, 10, dtype=torch.float64)
    block = model.encoder.layers[0]
    assert isinstance(block, EncoderBlock)
    is_token = torch.tensor([[True] * 4 + [False] * 2])[..., None]
    k = model.config.kernel_size
    seen = padded(array(x)[0, :4], k // 2, k)
    expected = [(array(x)[0, i] + gated(block.convolution, seen[i : i + k])) * math.sqrt(0.5) for i in range(4)]
    np.testing.assert_allclose(array(block(x, is_token))[0, :4], expected, atol=1e-12, rtol=0)


@every_shape
def test_a_decoder_block_is_the_formula_of_the_paper(changes: dict[str, Any]) -> None:
    model, (source, _) = make(**changes), drawn()
    memory = model.encode(source[1:2])
    x, embedded = torch.randn(1, 5, 10, dtype=torch.float64), torch.randn(1, 5, 7, dtype=torch.float64)
    block, k = model.decoder.layers[1], model.config.kernel_size
    assert isinstance(block, DecoderBlock)
    attention, key = block.attention, array(memory.source.key)[0, 0, :4]
    value = (key + array(model.encoder.embedding(source[1:2]))[0, :4]) * math.sqrt(0.5)
    seen, expected = padded(array(x)[0], k - 1, 0), []
    for i in range(5):
        h = gated(block.convolution, seen[i : i + k])
        d = (linear(attention.query, h) + array(embedded)[0, i]) * math.sqrt(0.5)
        weights = np.exp(key @ d) / np.exp(key @ d).sum()
        c = 4 * math.sqrt(1 / 4) * weights @ value  # m sqrt(1/m) for m = 4 source tokens
        h = (h + linear(attention.output, c)) * math.sqrt(0.5)
        expected.append((array(x)[0, i] + h) * math.sqrt(0.5))
    window = torch.zeros(1, k - 1, 10, dtype=torch.float64)
    out, window = block(x, window, embedded, memory.source, memory.visible)
    np.testing.assert_allclose(array(out)[0], expected, atol=1e-12, rtol=0)
    assert torch.equal(window, x[:, 5 - (k - 1) :])


def test_a_convolution_is_that_of_torch() -> None:
    model, x = make(weight_norm=False, kernel_size=5), torch.randn(2, 9, 10, dtype=torch.float64)
    convolution = model.encoder.layers[0].convolution
    kernel = convolution.linear.weight.view(20, 5, 10).transpose(1, 2)
    expected = F.conv1d(x.transpose(1, 2), kernel, convolution.linear.bias).transpose(1, 2)
    torch.testing.assert_close(convolution(x), F.glu(expected), **exactly)


def test_the_encoder_is_told_each_gradient_once() -> None:
    """The gradients of the encoder's blocks are divided by the number of attentions (section 3.5)."""
    model, (source, target) = make(), drawn()
    memory = model.encode(source)
    model.decode(memory, target).square().sum().backward()
    blocks = model.encoder.leave.bias.grad
    key = memory.source.key.detach().requires_grad_()
    value = memory.source.value.detach().requires_grad_()
    given = type(memory)(type(memory.source)(key, value), memory.visible)
    model.decode(given, target).square().sum().backward()
    assert key.grad is not None
    assert value.grad is not None
    length = (source != PAD).sum(dim=1).double()
    whole = key.grad + value.grad * (length / 2).sqrt()[:, None, None, None]
    torch.testing.assert_close(blocks, whole.sum(dim=(0, 1, 2)) / 3, **exactly)


# What search and training rely on.


@every_shape
def test_steps_score_as_teacher_forcing_does(changes: dict[str, Any]) -> None:
    model = make(**changes)
    source, target = drawn()
    logits, state = stepped(model, model.start(model.encode(source)), target)
    torch.testing.assert_close(logits, model(source, target), **exactly)
    assert state.position == 5
    assert [window.shape for window in state.windows] == [(4, model.config.kernel_size - 1, 10)] * 3


@every_shape
def test_a_position_does_not_see_what_comes_after_it(changes: dict[str, Any]) -> None:
    model = make(**changes)
    source, target = drawn()
    before = model(source, target)
    for position in range(1, 5):
        other = target.clone()
        other[:, position:] = NUM_SPECIALS + (other[:, position:] + 1 - NUM_SPECIALS) % (13 - NUM_SPECIALS)
        after = model(source, other)
        assert torch.equal(after[:, :position], before[:, :position])
        assert not torch.isclose(after[:, position], before[:, position]).all()


def test_a_decoder_of_one_block_sees_a_window() -> None:
    model, (source, target) = make(num_decoder_layers=1), drawn()
    other = target.clone()
    other[:, 1] = NUM_SPECIALS + (other[:, 1] + 1 - NUM_SPECIALS) % (13 - NUM_SPECIALS)
    same = torch.isclose(model(source, target), model(source, other), **exactly).all(dim=(0, 2))
    assert same.tolist() == [True, False, False, False, True]  # kernels of 3: positions 1 to 3 see it


@every_shape
def test_a_sentence_scores_the_same_in_any_company(changes: dict[str, Any]) -> None:
    model = make(**changes)
    source, target = drawn()
    together = model(F.pad(source, (0, 3), value=PAD), target)
    for row, length in enumerate([8, 4, 1, 6]):
        alone = model(source[row : row + 1, :length], target[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone, **exactly)


@pytest.mark.parametrize("steps_before", [0, 2])
@pytest.mark.parametrize("rows", [[2, 0, 0], [3, 2, 1, 0], [0, 1, 2, 3]], ids=str)
def test_selected_rows_go_on_as_if_they_had_always_been_those(rows: list[int], steps_before: int) -> None:
    model, (source, target) = make(), drawn()
    state = model.start(model.encode(source))
    if steps_before:
        _, state = stepped(model, state, target[:, :steps_before])
    order = torch.tensor(rows)
    logits, _ = stepped(model, state.select(order), target[order, steps_before:])
    torch.testing.assert_close(logits, model(source, target)[order, steps_before:], **exactly)


def test_the_source_is_not_copied_while_rows_stay_in_their_sentence() -> None:
    model, (source, _) = make(), drawn()
    state = model.start(model.encode(source)).select(torch.tensor([0, 0, 1, 1]))
    moved = state.select(torch.tensor([1, 0, 3, 3]))
    assert moved.source.key is state.source.key
    assert moved.visible is state.visible
    assert state.select(torch.tensor([0, 2, 2, 3])).source.key is not state.source.key


def test_what_is_longer_than_max_positions_is_refused() -> None:
    model = make(max_positions=6)
    source, target = drawn()
    with pytest.raises(ValueError, match="8 tokens"):
        model.encode(source)
    state = model.start(model.encode(source[1:, :6]))
    _, state = stepped(model, state, target[1:])
    _, state = model.step(target[1:, 0], state)
    with pytest.raises(ValueError, match="7 tokens"):
        model.step(target[1:, 0], state)
    assert model.max_target == 6


def test_every_block_has_an_attention_that_a_tap_reads_and_replaces() -> None:
    model, (source, target) = make(), drawn()
    plain = model(source, target)
    names = [f"decoder.layers.{i}.attention" for i in range(3)]
    assert cross_attentions(model) == names
    with Tap(model) as forced:
        torch.testing.assert_close(model(source, target), plain, **exactly)
    assert list(forced) == names
    for name in names:
        assert forced[name].shape == (4, 1, 5, 8)
        torch.testing.assert_close(forced[name].sum(dim=-1), torch.ones(4, 1, 5, dtype=torch.float64), **exactly)
        assert (forced[name] * (source == PAD)[:, None, None]).sum() == 0
    with Tap(model) as steps:
        stepped(model, model.start(model.encode(source)), target)
    for name in names:
        torch.testing.assert_close(steps[name], forced[name], **exactly)

    def blind(seen: Sight) -> Tensor:
        return torch.zeros_like(seen.weights)

    with Tap(model, edit=blind):
        unseeing = model(source, target)
        other = model(source.flip(0), target)
    torch.testing.assert_close(unseeing, other, **exactly)
    assert not torch.allclose(unseeing, plain)


# What it is made of.


def test_weights_begin_as_the_paper_writes() -> None:
    wide = {"d_model": 300, "d_embedding": 200, "dropout": 0.2, "source_vocabulary": 500, "max_positions": 400}
    torch.manual_seed(5)
    model = Convolutional(ConvolutionalConfig.model_validate(SIZES | LAYERS | wide))
    block, attention = model.decoder.layers[2], model.decoder.layers[2].attention
    stds = {
        model.encoder.embedding.tokens.weight: 0.1,
        model.decoder.embedding.positions.table: 0.1,
        model.encoder.enter.weight: math.sqrt(0.8 / 200),  # after dropout
        block.convolution.linear.weight: math.sqrt(4 * 0.8 / (3 * 300)),  # before a gate
        attention.query.weight: math.sqrt(1 / 300),
        attention.output.weight: math.sqrt(1 / 200),
        model.decoder.leave.weight: math.sqrt(1 / 300),
    }
    for weight, std in stds.items():
        assert weight.std().item() == pytest.approx(std, rel=0.02)
        assert abs(weight.mean().item()) < 0.02 * std
    assert all((p == 0).all() for name, p in model.named_parameters() if name.endswith("bias"))


def test_weight_normalisation_separates_length_and_direction() -> None:
    plain, normed = make(weight_norm=False), make()
    weights = {name: parameter.detach() for name, parameter in plain.named_parameters()}
    for name, parameter in normed.named_parameters():
        weight = weights[name.replace(".direction", ".weight").replace(".norm", ".weight")]
        parameter.data.copy_(torch.linalg.vector_norm(weight, dim=1) if name.endswith(".norm") else weight)
    source, target = drawn()
    torch.testing.assert_close(normed(source, target), plain(source, target), **exactly)
    layer = normed.decoder.enter
    before = layer.weight.detach().clone()
    layer.direction.data.mul_(7.0)
    torch.testing.assert_close(layer.weight, before)
    layer.norm.data[2] *= 3.0
    torch.testing.assert_close(layer.weight[2], 3.0 * before[2])


def test_tying_makes_matrices_one() -> None:
    one = make(tie="all", target_vocabulary=17)
    assert one.projection.weight is one.encoder.embedding.tokens.weight is one.decoder.embedding.tokens.weight
    target = make(tie="target")
    assert target.projection.weight is target.decoder.embedding.tokens.weight
    assert target.projection.weight is not target.encoder.embedding.tokens.weight


@every_shape
def test_every_parameter_learns(changes: dict[str, Any]) -> None:
    model = make(**changes)
    source, target = drawn()
    model(source, target).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_dropout_stands_on_embeddings_before_convolutions_and_before_the_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = make().train()
    dropped: list[tuple[int, ...]] = []

    def note(x: Tensor, rate: float) -> Tensor:
        dropped.append(tuple(x.shape))
        return torch.ones_like(x)

    monkeypatch.setattr("dragoman.layers.dropout.keep_mask", note)
    model(*drawn())
    assert dropped == [(4, 8, 7), *[(4, 8 + 2, 10)] * 2, (4, 5, 7), *[(4, 2 + 5, 10)] * 3, (4, 5, 7)]


def test_autocast_computes_in_bfloat16() -> None:
    model, (source, target) = make().float().train(), drawn()
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(source, target)
    assert logits.dtype == torch.bfloat16
    logits.float().square().sum().backward()
    torch.testing.assert_close(make().float()(source, target), make().float().eval()(source, target))


# The bill, held against torch's counters.


def explicit(model: Convolutional) -> Convolutional:
    """Compute attention as plain matrix products, which the counter sees."""
    for module in model.modules():
        if isinstance(module, Attend):
            module.path = "explicit"
    return model


@every_shape
def test_parameters_are_those_the_model_has(changes: dict[str, Any]) -> None:
    model = make(**changes)
    assert cost.parameters(model.config) == sum(parameter.numel() for parameter in model.parameters())
    starts = {
        "encoder maps": ("encoder.enter", "encoder.leave"),
        "decoder maps": ("decoder.enter", "decoder.leave"),
        "encoder convolutions": ("encoder.layers",),
        "positions": ("encoder.embedding.positions", "decoder.embedding.positions"),
        "projection": ("projection",),
    }
    parts = {part.name: part.parameters for part in cost.parts(model.config)}
    for name, start in starts.items():
        assert parts[name] == sum(p.numel() for path, p in model.named_parameters() if path.startswith(start)), name
    attentions = [p.numel() for path, p in model.named_parameters() if ".attention." in path]
    assert parts["decoder attention"] == sum(attentions)


@every_shape
def test_flops_are_those_torch_counts(changes: dict[str, Any]) -> None:
    model = explicit(make(**changes))
    source, target = drawn()
    with FlopCounterMode(display=False) as counter:
        model(source[:1], target[:1])
    assert cost.forward_flops(model.config, 8, 5) == counter.get_total_flops()
    with FlopCounterMode(display=False) as counter:
        stepped(model, model.start(model.encode(source[:1])), target[:1])
    assert sum(cost.inference_flops(model.config, 8, 5).values()) * 5 == counter.get_total_flops()


@every_shape
def test_the_state_is_what_a_decoder_really_keeps(changes: dict[str, Any]) -> None:
    model = make(**changes)
    source, target = drawn()
    _, state = model.step(target[:1, 0], model.start(model.encode(source[:1])))
    memory = cost.memory(model.config)
    assert memory.cache_per_sentence == 4 * sum(window.numel() for window in state.windows)
    assert memory.cache_per_source_token * 8 == 4 * (state.source.key.numel() + state.source.value.numel())
    assert memory.cache_per_target_token == 0


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("kernel_size", [3, 5])
def test_activations_are_those_autograd_keeps_within_5_percent(kernel_size: int, dropout: float) -> None:
    sizes = {"d_model": 96, "d_embedding": 80, "kernel_size": kernel_size, "dropout": dropout, "weight_norm": False}
    config = ConvolutionalConfig.model_validate(SIZES | LAYERS | sizes)
    model = build(config)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    source, target = torch.randint(4, 17, (3, 9)), torch.randint(4, 13, (3, 11))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = keep(model(source, target))
        F.cross_entropy(logits.flatten(0, 1), target.flatten())
    measured = sum(tensor.untyped_storage().nbytes() // 4 for address, tensor in kept.items() if address not in own)
    estimate = 3 * sum(part.kept.at(9, 11) for part in cost.parts(config))
    assert 0.95 * measured < estimate < 1.05 * measured


def test_an_even_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel_size 4"):
        make(kernel_size=4)
