"""The Transformer's bill, held part by part against torch's own counters on a real model."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from dragoman.attention.attend import Attend
from dragoman.models import cost
from dragoman.models.config import TransformerConfig
from dragoman.models.transformer import Transformer

SOURCE, TARGET = 9, 11
SIZES = {
    "source_vocabulary": 23,
    "target_vocabulary": 29,
    "d_model": 12,
    "d_ff": 20,
    "num_heads": 3,
    "num_encoder_layers": 2,
    "num_decoder_layers": 4,
    "tie": "target",
}
UNEQUAL_HEADS = SIZES | {"d_k": 5, "d_v": 7}


def make(**changes: object) -> tuple[TransformerConfig, Transformer]:
    """A model whose attention is computed as plain matrix products, which the counter sees."""
    config = TransformerConfig.model_validate(UNEQUAL_HEADS | changes)
    model = Transformer(config)
    for module in model.modules():
        if isinstance(module, Attend):
            module.path = "explicit"
    return config, model


def pair() -> tuple[Tensor, Tensor]:
    return torch.randint(4, 23, (1, SOURCE)), torch.randint(4, 29, (1, TARGET))


def counted(counter: FlopCounterMode, *names: str) -> int:
    """FLOPs in the modules whose names end so. An attention's keys and values are made outside its forward."""
    ends = [f".{name}{part}" for name in names for part in ("", ".key", ".value")]
    return sum(sum(ops.values()) for path, ops in counter.get_flop_counts().items() if path.endswith(tuple(ends)))


@pytest.mark.parametrize("changes", [{}, {"positions": "rotary", "d_k": 6}], ids=str)
def test_forward_flops_are_those_torch_counts(changes: dict[str, object]) -> None:
    config, model = make(**changes)
    with FlopCounterMode(display=False) as counter:
        model(*pair())
    assert cost.forward_flops(config, SOURCE, TARGET) == counter.get_total_flops()


def test_each_part_has_the_flops_torch_counts_in_its_modules() -> None:
    config, model = make()
    with FlopCounterMode(display=False) as counter:
        model(*pair())
    flops = {part.name: 2 * part.products.at(SOURCE, TARGET) for part in cost.parts(config)}
    encoder = [f"encoder.layers.{i}" for i in range(2)]
    decoder = [f"decoder.layers.{i}" for i in range(4)]
    assert flops == {
        "embedding": 0,
        "encoder self-attention": counted(counter, *(f"{layer}.self_attention" for layer in encoder)),
        "encoder feed-forward": counted(counter, *(f"{layer}.feed_forward" for layer in encoder)),
        "encoder norms": 0,
        "decoder self-attention": counted(counter, *(f"{layer}.self_attention" for layer in decoder)),
        "decoder cross-attention": counted(counter, *(f"{layer}.cross_attention" for layer in decoder)),
        "decoder feed-forward": counted(counter, *(f"{layer}.feed_forward" for layer in decoder)),
        "decoder norms": 0,
        "projection": counted(counter, "projection"),
    }


@pytest.mark.slow
def test_written_step_by_step_a_target_costs_what_torch_counts() -> None:
    config, model = make()
    source, target = pair()
    with FlopCounterMode(display=False) as counter:
        state = model.start(model.encode(source))
        for token in target.unbind(1):
            _, state = model.step(token, state)
    assert sum(cost.inference_flops(config, SOURCE, TARGET).values()) * TARGET == counter.get_total_flops()


def test_the_backward_pass_costs_twice_the_forward_pass() -> None:
    config, model = make()
    with FlopCounterMode(display=False) as counter:
        model(*pair()).sum().backward()
    assert 3 * cost.forward_flops(config, SOURCE, TARGET) == counter.get_total_flops()


@pytest.mark.parametrize(
    "changes",
    [
        {"tie": "none"},
        {"tie": "all", "target_vocabulary": 23},
        {"attention_bias": True},
        {"output_bias": True},
        {"output_bias": True, "tie": "none"},
        {"norm": "pre"},
        {"positions": "learned", "max_positions": 17},
        {"positions": "sinusoidal-halves"},
    ],
    ids=str,
)
def test_every_option_that_changes_the_parameters_is_counted(changes: dict[str, object]) -> None:
    config, model = make(**changes)
    assert cost.parameters(config) == sum(parameter.numel() for parameter in model.parameters())


def test_each_part_has_the_parameters_of_its_modules() -> None:
    config, model = make(attention_bias=True, output_bias=True, positions="learned", tie="none", norm="pre")

    def held(stack: str, word: str) -> int:
        return sum(p.numel() for name, p in model.named_parameters() if name.startswith(stack) and f".{word}" in name)

    assert {part.name: part.parameters for part in cost.parts(config)} == {
        "embedding": held("", "embedding.tokens"),
        "positions": held("", "embedding.positions"),
        "encoder self-attention": held("encoder", "self_attention"),
        "encoder feed-forward": held("encoder", "feed_forward"),
        "encoder norms": held("encoder", "norm"),
        "decoder self-attention": held("decoder", "self_attention"),
        "decoder cross-attention": held("decoder", "cross_attention"),
        "decoder feed-forward": held("decoder", "feed_forward"),
        "decoder norms": held("decoder", "norm"),
        "projection": sum(p.numel() for p in model.projection.parameters()),
    }


def test_the_cache_is_what_a_decoder_really_keeps() -> None:
    config, model = make()
    source, target = pair()
    state = model.start(model.encode(source))
    for token in target.unbind(1):
        _, state = model.step(token, state)
    memory = cost.memory(config)
    assert memory.cache_per_target_token * TARGET == sum(part.nbytes for cache in state.written for part in cache)
    assert memory.cache_per_source_token * SOURCE == sum(part.nbytes for cache in state.source for part in cache)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("activation", ["relu", "swish", "gelu", "gelu-sigmoid"])
def test_activations_are_those_autograd_keeps_within_2_percent(activation: str, dropout: float) -> None:
    """Left out, because they are small: token ids, and for each token the statistics of norms and of the softmax."""
    config = TransformerConfig.model_validate(
        SIZES | {"d_model": 96, "d_ff": 160, "dropout": dropout, "activation": activation}
    )
    model = Transformer(config)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    source, target = pair()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = keep(model(source, target))
        F.cross_entropy(logits[0], target[0])
    measured = sum(tensor.untyped_storage().nbytes() for address, tensor in kept.items() if address not in own)
    estimate = 4 * sum(part.kept.at(SOURCE, TARGET) for part in cost.parts(config))
    assert 0.98 * measured < estimate <= measured
