"""Layers that are computed again, or compiled, compute the same."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.attention.tap import Tap
from dragoman.models.build import build
from dragoman.models.config import FAMILIES, Family
from dragoman.models.seq2seq import Seq2Seq
from dragoman.training.config import LossConfig
from dragoman.training.layer_execution import compile_layers, recompute_layers
from dragoman.training.loss import Objective

VOCABULARY = 19
every_layered_family = pytest.mark.parametrize("family", ["transformer", "convolutional"])


def model(dropout: float, family: Family = "transformer") -> Seq2Seq[Any, Any]:
    torch.manual_seed(3)
    sizes = {"d_model": 8, "num_encoder_layers": 3, "num_decoder_layers": 2, "dropout": dropout}
    sizes |= {"d_ff": 12, "num_heads": 2} if family == "transformer" else {"d_embedding": 6}
    vocabularies = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY}
    return build(FAMILIES[family].model_validate(vocabularies | sizes))


def batch(rows: int, length: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(rows)
    return torch.randint(5, VOCABULARY, (rows, length)), torch.randint(5, VOCABULARY, (rows, length + 2))


def gradients(made: Seq2Seq[Any, Any], rows: int = 4, length: int = 7) -> tuple[float, list[Tensor]]:
    made.zero_grad()
    sides = batch(rows, length)
    torch.manual_seed(5)
    loss = Objective(made, LossConfig())(*sides)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item(), [weight.grad.clone() for weight in made.parameters() if weight.grad is not None]


def kept_bytes(compute: Callable[[], object]) -> int:
    """The bytes of the tensors that the forward pass keeps for the backward pass."""
    sizes: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: (sizes.append(x.nbytes), x)[1], lambda x: x):
        compute()
    return sum(sizes)


@every_layered_family
def test_layers_computed_again_give_bitwise_the_same_gradients(family: Family) -> None:
    plain, again = model(0.3, family), model(0.3, family)
    recompute_layers(again.layers)
    (loss, expected), (other, found) = gradients(plain), gradients(again)
    assert loss == other
    assert len(found) == len(expected) > 30
    assert all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))


def test_layers_computed_again_keep_little() -> None:
    plain, again = model(0.3), model(0.3)
    recompute_layers(again.layers)
    source, target = batch(4, 7)
    most, least = (kept_bytes(lambda one=one: one.hidden(one.encode(source), target)) for one in (plain, again))
    assert least < most / 4


def test_layers_computed_again_can_be_tapped_without_gradients() -> None:
    again = model(0.0)
    recompute_layers(again.layers)
    source, target = batch(2, 3)
    with torch.no_grad(), Tap(again) as maps:
        again(source, target)
    assert len(maps) == 3 + 2 * 2


@pytest.mark.slow
@every_layered_family
@pytest.mark.parametrize("rate", [0.0, 0.3], ids=["without dropout", "with dropout"])
@pytest.mark.filterwarnings("ignore")  # of the compiler, about itself
def test_compiled_layers_give_the_same_gradients_for_batches_of_any_shape(
    family: Family, rate: float, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Each layer is one graph without breaks, with the dropout of accelerators."""
    if request.config.getoption("--jaxtyping-packages"):  # run-time checks of shapes cannot be compiled
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", request.node.nodeid]
        done = subprocess.run(command, cwd=request.config.rootpath, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        return
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    plain, compiled = model(rate, family), model(rate, family)
    monkeypatch.setattr("dragoman.layers.dropout.is_cpu", lambda _: False)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend, fullgraph=True))
    compile_layers(compiled.layers)
    for rows, length in ((4, 7), (3, 9), (6, 5), (5, 11)):
        (loss, expected), (other, found) = gradients(plain, rows, length), gradients(compiled, rows, length)
        assert other == pytest.approx(loss, rel=1e-6)
        for one, two in zip(found, expected, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
    assert len(graphs) <= 4  # of five layers and four shapes
    torch._dynamo.reset()
