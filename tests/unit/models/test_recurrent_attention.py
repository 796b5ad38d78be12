"""Where a recurrent decoder looks: the windows and the Gaussian of local attention, and what is done once a source."""

import math

import pytest
import torch
from torch import Tensor

from dragoman.attention.score import Additive
from dragoman.attention.tap import Tap
from dragoman.models.config import RecurrentConfig
from dragoman.models.recurrent import Recurrent
from dragoman.models.recurrent_attention import Predictive, PreparedSource, RecurrentAttention, monotonic
from dragoman.text.vocab import BOS, PAD

LENGTHS = (9, 5)
D = 2


def luong(locality: str) -> Recurrent:
    torch.manual_seed(2)
    options = {
        "context": "luong",
        "score": "general",
        "locality": locality,
        "window": D,
        "d_model": 6,
        "d_embedding": 5,
    }
    return Recurrent(RecurrentConfig(source_vocabulary=11, target_vocabulary=7, **options)).double().eval()


def seen(spare: int = 0) -> PreparedSource:
    """Two sources of different lengths with `spare` columns of padding after the longer one."""
    tokens = torch.full((2, max(LENGTHS) + spare), PAD)
    for row, length in zip(tokens, LENGTHS, strict=True):
        row[:length] = 5
    config = RecurrentConfig(source_vocabulary=8, target_vocabulary=8, context="luong", score="dot", d_model=6)
    return RecurrentAttention(config).remember(
        torch.randn(*tokens.shape, 6, dtype=torch.float64), (tokens != PAD)[:, None, None]
    )


def asking() -> Tensor:
    return 3 * torch.randn(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def predictive() -> Predictive:
    torch.manual_seed(4)
    return Predictive(6, D).double()


def test_monotonic_attention_sees_the_window_around_its_own_position_and_nothing_else() -> None:
    model = luong("local-m")
    source = torch.tensor([[4, 5, 6, 7, 8, 9, 4, 5, 2], [5, 6, 7, 8, 2, PAD, PAD, PAD, PAD]])
    with Tap(model) as tap:
        model(source, torch.full((2, 8), BOS))
    weights = tap["decoder.attention"]
    for row, step, key in torch.cartesian_prod(torch.arange(2), torch.arange(8), torch.arange(9)).tolist():
        inside = abs(key - step) <= D and key < LENGTHS[row]
        assert (weights[row, 0, step, key] > 0) == inside
    some_visible = torch.tensor([[1] * 8, [1] * 7 + [0]], dtype=torch.float64)
    torch.testing.assert_close(weights.sum(dim=-1)[:, 0], some_visible, rtol=0.0, atol=1e-12)


def test_a_target_far_past_its_source_has_a_context_of_zero() -> None:
    model = luong("local-m")
    memory = model.encode(torch.tensor([[4, 5, 2]]))
    assert memory.seen is not None
    near = monotonic(memory.seen, position=2 + D + 1, neighbours=D)
    context = model.decoder.attention(asking()[:1], near)
    assert torch.equal(context, torch.zeros(1, 6, dtype=torch.float64))


def test_the_gaussian_and_the_window_stand_around_the_predicted_position() -> None:
    source, query, module = seen(), asking(), predictive()
    near = module(query, source)
    assert near.reweight is not None
    for row, length in enumerate(LENGTHS):
        hidden = [math.tanh(_dot(weights, query[row].tolist())) for weights in module.hidden.weight.tolist()]
        centre = length / (1 + math.exp(-_dot(module.value.weight[0].tolist(), hidden)))
        for key in range(max(LENGTHS)):
            gaussian = math.exp(-((key - centre) ** 2) / (2 * (D / 2) ** 2))
            assert near.reweight[row, 0, 0, key].item() == pytest.approx(gaussian, rel=1e-10)
            inside = abs(key - round(centre)) <= D and key < length
            assert near.visible[row, 0, 0, key].item() == inside


def _dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_padding_does_not_move_the_predicted_position() -> None:
    tight, loose, query, module = seen(), seen(spare=4), asking(), predictive()
    near, far = module(query, tight), module(query, loose)
    torch.testing.assert_close(far.reweight[..., : max(LENGTHS)], near.reweight, rtol=0.0, atol=1e-12)
    assert torch.equal(far.visible[..., : max(LENGTHS)], near.visible)
    assert not far.visible[..., max(LENGTHS) :].any()


def test_the_end_of_the_source_is_in_reach_of_the_furthest_prediction() -> None:
    """p_t can be S, one past the last position: even the narrowest window then holds the last token."""
    source, module = seen(), Predictive(6, 1).double()
    torch.nn.init.constant_(module.hidden.weight, 100.0)
    torch.nn.init.constant_(module.value.weight, 100.0)
    near = module(torch.ones(2, 6, dtype=torch.float64), source)
    assert [row.nonzero().flatten().tolist() for row in near.visible[:, 0, 0]] == [[8], [4]]


def test_predicted_attention_is_the_softmax_of_the_window_times_the_gaussian() -> None:
    model = luong("local-p")
    source = torch.tensor([[4, 5, 6, 7, 8, 9, 4, 5, 2], [5, 6, 7, 8, 2, PAD, PAD, PAD, PAD]])
    memory = model.encode(source)
    assert memory.seen is not None
    near = model.decoder.centre(asking(), memory.seen)
    with Tap(model) as tap:
        model.decoder.attention(asking(), near)
    for row, weights in enumerate(tap["decoder.attention"][:, 0, 0]):
        inside = near.visible[row, 0, 0].nonzero().flatten().tolist()
        score = [math.exp((asking()[row] @ memory.seen.key[row, 0, key]).item()) for key in inside]
        expected = torch.zeros(9, dtype=torch.float64)
        expected[inside] = torch.tensor(score, dtype=torch.float64) / sum(score) * near.reweight[row, 0, 0, inside]
        torch.testing.assert_close(weights, expected, rtol=0.0, atol=1e-12)


def test_what_depends_on_the_source_alone_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[Tensor] = []
    prepare = Additive.prepare
    monkeypatch.setattr(Additive, "prepare", lambda score, key: prepared.append(key) or prepare(score, key))
    model = Recurrent(RecurrentConfig(source_vocabulary=11, target_vocabulary=7, d_model=6, d_embedding=5))
    memory = model.encode(torch.tensor([[4, 5, 2], [4, 2, PAD]]))
    model.decode(memory, torch.full((2, 4), BOS))
    _, state = model.step(torch.tensor([BOS, BOS]), model.start(memory))
    model.step(torch.tensor([5, 6]), state.select(torch.tensor([1, 0])))
    assert [tuple(key.shape) for key in prepared] == [(2, 3, 6)]
