"""The bill of the recurrent models, held against torch's own counters on real ones."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from dragoman.attention.attend import Attend
from dragoman.models import cost
from dragoman.models.config import RecurrentConfig
from dragoman.models.recurrent import Recurrent

pytestmark = pytest.mark.usefixtures("float64")
"""In single precision an LSTM may run in a kernel of oneDNN's, into which torch's counters do not see."""

SOURCE, TARGET = 9, 11
SIZES = {"source_vocabulary": 23, "target_vocabulary": 29, "d_model": 14, "d_embedding": 10, "d_score": 6}
DECODERS: list[dict[str, object]] = [
    {"context": "first"},
    {"context": "every"},
    {"context": "bahdanau"},
    {"context": "luong", "score": "dot"},
    {"context": "luong", "score": "general", "input_feeding": False},
    {"context": "luong", "score": "concat", "locality": "local-m"},
    {"context": "luong", "score": "location", "max_locations": 12},
    {"context": "luong", "score": "cosine", "locality": "local-m"},
    {"context": "luong", "score": "biased-general"},
    {"context": "luong", "score": "activated-general"},
    {"context": "luong", "score": "general", "locality": "local-p"},
]
every_decoder = pytest.mark.parametrize("decoder", DECODERS, ids=str)
every_stack = pytest.mark.parametrize(
    "stack",
    [
        {"cell": "gru", "num_layers": 1, "bidirectional": True},
        {"cell": "gru", "num_layers": 3, "bidirectional": False},
        {"cell": "lstm", "num_layers": 2, "bidirectional": True},
        {"cell": "tanh", "num_layers": 2, "bidirectional": True},
    ],
    ids=str,
)


def make(*changes: dict[str, object]) -> tuple[RecurrentConfig, Recurrent]:
    """A model whose attention is computed as plain matrix products, which the counter sees."""
    fields = dict(SIZES)
    for change in changes:
        fields |= change
    config = RecurrentConfig.model_validate(fields)
    model = Recurrent(config)
    for module in model.modules():
        if isinstance(module, Attend):
            module.path = "explicit"
    return config, model


def pair() -> tuple[Tensor, Tensor]:
    return torch.randint(4, 23, (1, SOURCE)), torch.randint(4, 29, (1, TARGET))


@every_decoder
@every_stack
def test_parameters_are_those_the_model_has(decoder: dict[str, object], stack: dict[str, object]) -> None:
    for tie in ({"tie": "none"}, {"tie": "target"}, {"tie": "all", "target_vocabulary": 23}):
        config, model = make(decoder, stack, tie)
        assert cost.parameters(config) == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.slow
@every_decoder
@every_stack
def test_forward_flops_are_those_torch_counts(decoder: dict[str, object], stack: dict[str, object]) -> None:
    config, model = make(decoder, stack)
    with FlopCounterMode(display=False) as counter:
        model(*pair())
    assert cost.forward_flops(config, SOURCE, TARGET) == counter.get_total_flops()


@every_decoder
def test_a_target_costs_the_same_known_or_written_step_by_step(decoder: dict[str, object]) -> None:
    config, model = make(decoder)
    source, target = pair()
    with FlopCounterMode(display=False) as counter:
        state = model.start(model.encode(source))
        for token in target.unbind(1):
            _, state = model.step(token, state)
    assert cost.forward_flops(config, SOURCE, TARGET) == counter.get_total_flops()
    assert sum(cost.inference_flops(config, SOURCE, TARGET).values()) * TARGET == counter.get_total_flops()


@every_decoder
def test_a_tied_vocabulary_is_met_in_its_own_width(decoder: dict[str, object]) -> None:
    config, model = make(decoder, {"tie": "target"})
    with FlopCounterMode(display=False) as counter:
        model(*pair())
    assert cost.forward_flops(config, SOURCE, TARGET) == counter.get_total_flops()


@every_decoder
@every_stack
def test_each_part_has_the_parameters_of_its_modules(decoder: dict[str, object], stack: dict[str, object]) -> None:
    config, model = make(decoder, stack)
    ends = {
        "embedding": ("encoder.embedding", "embedding"),
        "encoder": ("encoder.layers",),
        "first state": ("decoder.summary", "decoder.first"),
        "attention": ("decoder.attention", "decoder.centre"),
        "decoder": ("decoder.cells",),
        "readout": ("decoder.readout", "decoder.combine"),
        "projection": ("projection",),
    }
    held = {
        name: sum(p.numel() for path, p in model.named_parameters() if path.startswith(starts))
        for name, starts in ends.items()
    }
    parts = {part.name: part.parameters for part in cost.parts(config)}
    assert parts == {name: count for name, count in held.items() if count or name in parts}


@every_decoder
@every_stack
def test_the_state_is_what_a_decoder_really_keeps(decoder: dict[str, object], stack: dict[str, object]) -> None:
    config, model = make(decoder, stack)
    source, target = pair()
    _, state = model.step(target[:, 0], model.start(model.encode(source)))
    memory = cost.memory(config)
    held = state.fed.numel() + sum(part.numel() for layer in state.layers for part in layer)
    seen = 0 if state.seen is None else state.seen.key.numel() + state.seen.value.numel()
    assert memory.cache_per_sentence == 4 * held
    assert memory.cache_per_source_token * SOURCE == 4 * seen
    assert memory.cache_per_target_token == 0


@pytest.mark.slow
@every_decoder
@every_stack
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_activations_are_those_autograd_keeps_within_5_percent(
    decoder: dict[str, object], stack: dict[str, object], dropout: float
) -> None:
    config = RecurrentConfig.model_validate(
        SIZES | {"d_model": 96, "d_embedding": 80, "d_score": 64, "dropout": dropout} | decoder | stack
    )
    model = Recurrent(config)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    source, target = pair()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = keep(model(source, target))
        F.cross_entropy(logits[0], target[0])
    measured = sum(tensor.untyped_storage().nbytes() // 8 for address, tensor in kept.items() if address not in own)
    estimate = sum(part.kept.at(SOURCE, TARGET) for part in cost.parts(config))
    assert 0.95 * measured < estimate < 1.05 * measured
