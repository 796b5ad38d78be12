"""What a tap shows is what the model does, what it edits is what changes, and without it nothing is kept or slowed."""

import gc
import threading
import weakref
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from dragoman.attention.multihead import MultiHead
from dragoman.attention.tap import Sight, Tap, seams
from dragoman.models.config import TransformerConfig
from dragoman.models.transformer import Transformer

ROWS, SOURCE, TARGET, HEADS = 4, 7, 6, 3
FLASH, SOFTMAX = "_scaled_dot_product_flash_attention_for_cpu", "_softmax"
NAMES = [
    "encoder.layers.0.self_attention",
    "encoder.layers.1.self_attention",
    "decoder.layers.0.self_attention",
    "decoder.layers.0.cross_attention",
    "decoder.layers.1.self_attention",
    "decoder.layers.1.cross_attention",
]
CROSS = NAMES[-1]


class Ops(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The kernels that run while it is open, in order, and every tensor of the size of an attention map they made."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []
        self.maps: list[weakref.ref[Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple) else (made,):
            if isinstance(tensor, Tensor) and is_map(tensor):
                self.maps.append(weakref.ref(tensor))
        return made


def is_map(tensor: Tensor) -> bool:
    """Of queries by keys, in whatever axes stand before them."""
    return tensor.is_floating_point() and tensor.shape[-2:] in {(SOURCE, SOURCE), (TARGET, TARGET), (TARGET, SOURCE)}


def built(norm: Literal["post", "pre"] = "post") -> Transformer:
    config = TransformerConfig(
        source_vocabulary=19,
        target_vocabulary=23,
        d_model=15,
        d_ff=11,
        num_heads=HEADS,
        num_encoder_layers=2,
        num_decoder_layers=2,
        tie="none",
        norm=norm,
    )
    model = Transformer(config)
    model.eval()
    return model


@pytest.fixture
def model() -> Transformer:
    return built()


def drawn() -> tuple[Tensor, Tensor]:
    source, target = torch.randint(4, 19, (ROWS, SOURCE)), torch.randint(4, 23, (ROWS, TARGET))
    source[1, 4:] = 0
    source[3, 2:] = 0
    target[:, 0] = 1
    return source, target


def stepwise(model: Transformer, source: Tensor, target: Tensor) -> Tensor:
    state = model.start(model.encode(source))
    logits = []
    for tokens in target.T:
        scores, state = model.step(tokens, state)
        logits.append(scores)
    return torch.stack(logits, dim=1)


def self_attention(attention: MultiHead, x: Tensor) -> Tensor:
    mixed: Tensor = attention(x, attention.remember(x))
    return mixed


# What is seen


def test_a_tap_reads_every_attention_by_name(model: Transformer) -> None:
    with Tap(model) as tap:
        assert len(tap) == 0
        model(*drawn())
    assert sorted(tap) == sorted(NAMES) == sorted(name for name, _ in seams(model))
    assert len(tap) == len(NAMES)
    sizes = {"encoder.self": (SOURCE, SOURCE), "decoder.self": (TARGET, TARGET), "decoder.cross": (TARGET, SOURCE)}
    for name, weights in tap.items():
        stack, kind = name.split(".")[0], name.split(".")[-1].removesuffix("_attention")
        assert weights.shape == (ROWS, HEADS, *sizes[f"{stack}.{kind}"])
        assert not weights.requires_grad


def test_the_weights_read_are_shares_of_what_is_visible(model: Transformer) -> None:
    source, target = drawn()
    with Tap(model) as tap:
        model(source, target)
    padding = (source == 0)[:, None, None, :]
    later = torch.ones(TARGET, TARGET, dtype=torch.bool).triu(diagonal=1)
    for name, weights in tap.items():
        hidden = later if name.startswith("decoder") and name.endswith("self_attention") else padding
        assert torch.equal(weights == 0, hidden.expand_as(weights))
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))


def test_the_weights_read_are_those_that_mix_the_values() -> None:
    attention = MultiHead(12, 3)
    x = torch.randn(2, 5, 12)
    with Tap(attention) as tap:
        mixed = self_attention(attention, x)
    by_hand = attention.output((tap["attend"] @ attention.remember(x).value).transpose(1, 2).flatten(2))
    torch.testing.assert_close(mixed, by_hand)


@pytest.mark.usefixtures("float64")
def test_teacher_forcing_and_step_by_step_decoding_show_the_same_maps() -> None:
    model = built()
    source, target = drawn()
    with Tap(model) as forced:
        logits = model(source, target)
    with Tap(model) as stepped:
        torch.testing.assert_close(stepwise(model, source, target), logits, rtol=0, atol=1e-10)
    assert sorted(stepped) == sorted(NAMES)
    for name in NAMES:
        torch.testing.assert_close(stepped[name], forced[name], rtol=0, atol=1e-10)
    assert [tuple(step.shape[-2:]) for step in stepped.steps(NAMES[2])] == [(1, i + 1) for i in range(TARGET)]
    assert [tuple(step.shape[-2:]) for step in stepped.steps(CROSS)] == [(1, SOURCE)] * TARGET


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_tapped_is_untapped(norm: Literal["post", "pre"]) -> None:
    model = built(norm)
    source, target = drawn()
    free, free_gradients = output_and_gradients(model, source, target)
    with Tap(model):
        tapped, tapped_gradients = output_and_gradients(model, source, target)
        stepped = stepwise(model, source, target)
    torch.testing.assert_close(tapped, free, rtol=0, atol=1e-5)
    torch.testing.assert_close(stepped, free, rtol=0, atol=1e-5)
    torch.testing.assert_close(tapped_gradients, free_gradients, rtol=1e-5, atol=1e-5)


def output_and_gradients(model: nn.Module, source: Tensor, target: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    logits = model(source, target)
    return logits, torch.autograd.grad(logits.logsumexp(dim=-1).mean(), list(model.parameters()))


# What is not seen, and costs nothing


@pytest.mark.parametrize("grad", [False, True])
def test_untapped_the_fused_kernel_runs_and_no_map_is_ever_made(model: Transformer, grad: bool) -> None:
    with torch.set_grad_enabled(grad), Ops() as ops:
        model(*drawn())
    assert ops.names.count(FLASH) == len(NAMES)
    assert SOFTMAX not in ops.names
    assert ops.maps == []


def test_a_closed_tap_leaves_the_same_kernels_as_before_it_opened(model: Transformer) -> None:
    source, target = drawn()
    with Ops() as before:
        model(source, target)
        stepwise(model, source, target)
    with Tap(model), Ops() as during:
        model(source, target)
    with Ops() as after:
        model(source, target)
        stepwise(model, source, target)
    assert during.names.count(SOFTMAX) == len(NAMES)
    assert FLASH not in during.names
    assert after.names == before.names


def test_maps_live_as_long_as_their_tap_and_no_module_keeps_them(model: Transformer) -> None:
    state = {name: dict(vars(module)) for name, module in model.named_modules()}
    tap = Tap(model)
    with tap, Ops() as ops:
        model(*drawn())
    gc.collect()
    alive = [made for made in ops.maps if made() is not None]
    assert 0 < len(alive) < len(ops.maps)
    del tap
    gc.collect()
    assert [made for made in ops.maps if made() is not None] == []
    for name, module in model.named_modules():
        assert vars(module).keys() == state[name].keys()


def test_a_tap_of_a_part_leaves_the_rest_alone(model: Transformer) -> None:
    with Tap(model.decoder) as tap, Ops() as ops:
        model(*drawn())
    assert sorted(tap) == sorted(name.removeprefix("decoder.") for name in NAMES[2:])
    assert ops.names.count(FLASH) == 2
    assert ops.names.count(SOFTMAX) == 4


def test_another_model_is_not_seen(model: Transformer) -> None:
    with Tap(model) as tap, Ops() as ops:
        built()(*drawn())
    assert len(tap) == 0
    assert SOFTMAX not in ops.names


def test_another_thread_is_neither_seen_nor_edited(model: Transformer) -> None:
    source, target = drawn()
    quiet = stepwise(model, source, target)
    heard: list[Tensor] = []
    other = threading.Thread(target=lambda: heard.append(stepwise(model, source, target)))
    with Tap(model, edit=lambda sight: torch.zeros_like(sight.weights)) as tap:
        other.start()
        other.join()
        assert len(tap) == 0
        model(source, target)
    assert torch.equal(heard[0], quiet)
    assert [len(tap.steps(name)) for name in NAMES] == [1] * len(NAMES)


def test_a_tap_closes_when_its_block_fails(model: Transformer) -> None:
    with pytest.raises(RuntimeError, match="on purpose"), Tap(model):
        raise RuntimeError("on purpose")
    with Ops() as ops:
        model(*drawn())
    assert SOFTMAX not in ops.names


# What is edited


def uniform(sight: Sight) -> Tensor:
    return torch.full_like(sight.weights, 1 / sight.weights.shape[-1])


def test_uniform_weights_give_the_mean_of_the_values() -> None:
    attention = MultiHead(12, 3)
    x = torch.randn(2, 5, 12)
    with Tap(attention, edit=uniform) as tap:
        edited = self_attention(attention, x)
    means = attention.value(x).mean(dim=1, keepdim=True).expand(-1, 5, -1)
    torch.testing.assert_close(edited, attention.output(means))
    assert torch.equal(tap["attend"], torch.full((2, 3, 5, 5), 1 / 5))
    assert (edited - self_attention(attention, x)).abs().max() > 0.01


def test_a_head_switched_off_takes_its_part_of_the_output_away() -> None:
    attention = MultiHead(12, 3)
    x = torch.randn(2, 5, 12)

    def without_head_1(sight: Sight) -> Tensor:
        kept = torch.tensor([1.0, 0.0, 1.0])
        return sight.weights * kept[:, None, None]

    with Tap(attention) as read:
        whole = self_attention(attention, x)
    with Tap(attention, edit=without_head_1):
        edited = self_attention(attention, x)
    head = read["attend"][:, 1] @ attention.remember(x).value[:, 1]
    part = head @ attention.output.weight[:, 4:8].T
    torch.testing.assert_close(edited, whole - part)
    assert part.abs().max() > 0.01


def test_a_whole_model_goes_on_with_the_edited_weights(model: Transformer) -> None:
    source, target = drawn()

    def only_the_first_word(sight: Sight) -> Tensor | None:
        if not sight.name.endswith("cross_attention"):
            return None
        return torch.zeros_like(sight.weights).index_fill(-1, torch.tensor([0]), 1.0)

    with Tap(model, edit=only_the_first_word):
        edited = model(source, target)
    memory = model.encode(source)
    # Seeing the first position alone is the same as a source whose every position is the first one.
    same = type(memory)(memory.hidden[:, :1].expand(-1, SOURCE, -1), memory.visible)
    torch.testing.assert_close(edited, model.decode(same, target), rtol=0, atol=1e-5)
    assert (edited - model(source, target)).abs().max() > 0.01


def test_an_edit_is_told_where_it_is_and_what_may_be_seen(model: Transformer) -> None:
    source, target = drawn()
    sights: list[Sight] = []
    with Tap(model):
        read = model(source, target)
    with Tap(model, edit=sights.append):
        assert torch.equal(model(source, target), read)  # an edit that gives None changes nothing
    assert sorted(sight.name for sight in sights) == sorted(NAMES)
    assert {sight.position for sight in sights} == {0}
    for sight in sights:
        assert sight.visible is not None
        assert torch.equal(sight.weights > 0, sight.visible.expand_as(sight.weights))


def test_an_edit_is_told_the_position_of_the_step(model: Transformer) -> None:
    sights: list[Sight] = []
    with Tap(model, edit=sights.append):
        stepwise(model, *drawn())
    assert [sight.position for sight in sights if sight.name == CROSS] == list(range(TARGET))


def test_gradients_flow_through_what_an_edit_sees(model: Transformer) -> None:
    gates = {name: torch.ones(HEADS, 1, 1, requires_grad=True) for name in NAMES}
    with Tap(model, edit=lambda sight: sight.weights * gates[sight.name]):
        model(*drawn()).square().sum().backward()
    for name in NAMES:
        gradient = gates[name].grad
        assert gradient is not None
        assert (gradient != 0).all()
    assert all(weight.grad is not None and weight.grad.any() for weight in model.parameters())


def test_taps_nest_and_the_outer_edits_first() -> None:
    attention = MultiHead(12, 3)
    x = torch.randn(2, 5, 12)
    met: list[Tensor] = []

    def halve(sight: Sight) -> Tensor:
        met.append(sight.weights)
        return sight.weights / 2

    with Tap(attention, edit=uniform) as outer, Tap(attention, edit=halve) as inner, Tap(attention) as innermost:
        mixed = self_attention(attention, x)
    assert torch.equal(met[0], torch.full((2, 3, 5, 5), 1 / 5))
    assert torch.equal(outer["attend"], torch.full((2, 3, 5, 5), 1 / 5))
    assert torch.equal(inner["attend"], torch.full((2, 3, 5, 5), 1 / 10))
    assert torch.equal(innermost["attend"], inner["attend"])
    means = attention.value(x).mean(dim=1, keepdim=True).expand(-1, 5, -1) / 2
    torch.testing.assert_close(mixed, attention.output(means))


def test_closing_the_inner_tap_leaves_the_outer_one_open(model: Transformer) -> None:
    source, target = drawn()
    with Tap(model) as outer:
        with Tap(model.encoder) as inner:
            model(source, target)
        model(source, target)
    assert [len(outer.steps(name)) for name in NAMES] == [2] * len(NAMES)
    assert sorted(inner) == ["layers.0.self_attention", "layers.1.self_attention"]
    assert [len(inner.steps(name)) for name in inner] == [1, 1]


# What is refused


def test_an_edit_of_the_wrong_shape_is_refused(model: Transformer) -> None:
    said = r"encoder\.layers\.0\.self_attention returned shape \(4, 1, 7, 7\): return shape \(4, 3, 7, 7\)"
    with Tap(model, edit=lambda sight: sight.weights[:, :1]), pytest.raises(ValueError, match=said):
        model(*drawn())


def test_an_unknown_name_is_refused_with_the_known_ones(model: Transformer) -> None:
    with Tap(model) as tap:
        model(*drawn())
    with pytest.raises(KeyError, match=r"decoder\.layer\.0.*the model has: .*decoder\.layers\.0\.cross_attention"):
        tap["decoder.layer.0.cross_attention"]
    with pytest.raises(KeyError, match="no attention map named"):
        tap.steps("attend")
    assert "attend" not in tap
    assert CROSS in tap


def test_a_tap_is_not_opened_twice_at_once(model: Transformer) -> None:
    tap = Tap(model)
    with tap, pytest.raises(ValueError, match="already open"):
        tap.__enter__()


def test_steps_of_different_rows_are_read_one_by_one(model: Transformer) -> None:
    source, target = drawn()
    with Tap(model) as tap:
        state = model.start(model.encode(source))
        _, state = model.step(target[:, 0], state)
        model.step(target[:2, 1], state.select(torch.tensor([3, 0])))
    with pytest.raises(ValueError, match=r"different numbers of rows \(\[2, 4\]\).*steps\(\)"):
        tap[CROSS]
    assert [step.shape[0] for step in tap.steps(CROSS)] == [4, 2]


def test_a_tap_tells_what_it_has_seen_even_where_maps_cannot_be_stacked(model: Transformer) -> None:
    source, _ = drawn()
    with Tap(model) as tap:
        model.encode(source)
        model.encode(source[:1])
    assert "encoder.layers.0.self_attention" in tap
    assert "decoder.layers.0.self_attention" not in tap
    with pytest.raises(ValueError, match="different numbers of rows"):
        tap["encoder.layers.0.self_attention"]


def test_a_closed_tap_keeps_no_other_tap_alive(model: Transformer) -> None:
    outer = Tap(model)
    with outer, Tap(model) as inner:
        model(*drawn())
    kept = weakref.ref(outer)
    del outer
    gc.collect()
    assert kept() is None
    assert len(inner) > 0
