"""The file of weights, byte for byte as CTranslate2's own converter writes it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from dragoman.bundle import Bundle, BundleInfo, Card
from dragoman.bundle.info import ExportStore
from dragoman.export.ctranslate2 import weights_file
from dragoman.layers.sinusoids import sinusoids, sinusoids_in_halves
from dragoman.models.config import TransformerConfig
from dragoman.models.transformer import Transformer
from dragoman.models.weights import weights_of

specs = pytest.importorskip("ctranslate2.specs")

Activation = pytest.importorskip("ctranslate2.specs.common_spec").Activation
ACTIVATIONS = {
    "relu": Activation.RELU,
    "swish": Activation.SWISH,
    "gelu": Activation.GELU,
    "gelu-sigmoid": Activation.GELUSigmoid,
}
STORES: list[ExportStore] = ["float32", "int16", "int8"]


def config(**changes: Any) -> TransformerConfig:
    sizes = {"d_model": 12, "d_ff": 20, "num_heads": 3, "num_encoder_layers": 2, "num_decoder_layers": 1}
    words = {"source_vocabulary": 17, "target_vocabulary": 17, "max_positions": 9}
    return TransformerConfig.model_validate({**sizes, **words, **changes})


def model(shape: TransformerConfig, seed: int = 3) -> Transformer:
    """Every weight, bias and gain a draw of its own, so that none stands for another."""
    torch.manual_seed(seed)
    made = Transformer(shape)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_()
    return made.eval()


def linear(spec: Any, *parts: torch.nn.Linear) -> None:
    spec.weight = np.concatenate([part.weight.detach().numpy().copy() for part in parts])
    if parts[0].bias is not None:
        spec.bias = np.concatenate([part.bias.detach().numpy().copy() for part in parts])


def norm(spec: Any, ours: torch.nn.LayerNorm) -> None:
    spec.gamma, spec.beta = ours.weight.detach().numpy().copy(), ours.bias.detach().numpy().copy()


def embedded(spec: Any, ours: Any, shape: TransformerConfig) -> None:
    spec.weight = ours.tokens.weight.detach().numpy().copy()


def positions(ours: Any, shape: TransformerConfig) -> np.ndarray:
    match shape.positions:
        case "learned":
            return ours.positions.table.detach().numpy().copy()
        case "sinusoidal":
            return sinusoids(shape.max_positions, shape.d_model).astype(np.float32)
        case _:
            return sinusoids_in_halves(shape.max_positions, shape.d_model).astype(np.float32)


def converted(ours: Transformer, shape: TransformerConfig, store: ExportStore, folder: Path) -> bytes:
    """As a converter would do it, from the modules themselves."""
    layers = (shape.num_encoder_layers, shape.num_decoder_layers)
    spec = specs.TransformerSpec.from_config(
        layers, shape.num_heads, pre_norm=shape.norm == "pre", activation=ACTIVATIONS[shape.activation]
    )
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = True
    embedded(spec.encoder.embeddings[0], ours.encoder.embedding, shape)
    embedded(spec.decoder.embeddings, ours.decoder.embedding, shape)
    spec.encoder.position_encodings.encodings = positions(ours.encoder.embedding, shape)
    spec.decoder.position_encodings.encodings = positions(ours.decoder.embedding, shape)
    spec.decoder.projection.weight = ours.projection.weight.detach().numpy().copy()
    if ours.projection.bias is not None:
        spec.decoder.projection.bias = ours.projection.bias.detach().numpy().copy()
    for theirs, layer in zip(spec.encoder.layer, ours.encoder.layers, strict=True):
        linear(theirs.self_attention.linear[0], *projections(layer.self_attention, "query", "key", "value"))
        linear(theirs.self_attention.linear[1], layer.self_attention.output)
        norm(theirs.self_attention.layer_norm, layer.around_attention.norm)
        feed_forward(theirs.ffn, layer)
    for theirs, layer in zip(spec.decoder.layer, ours.decoder.layers, strict=True):
        linear(theirs.self_attention.linear[0], *projections(layer.self_attention, "query", "key", "value"))
        linear(theirs.self_attention.linear[1], layer.self_attention.output)
        norm(theirs.self_attention.layer_norm, layer.around_self.norm)
        linear(theirs.attention.linear[0], *projections(layer.cross_attention, "query"))
        linear(theirs.attention.linear[1], *projections(layer.cross_attention, "key", "value"))
        linear(theirs.attention.linear[2], layer.cross_attention.output)
        norm(theirs.attention.layer_norm, layer.around_cross.norm)
        feed_forward(theirs.ffn, layer)
    if shape.norm == "pre":
        norm(spec.encoder.layer_norm, ours.encoder.norm)
        norm(spec.decoder.layer_norm, ours.decoder.norm)
    words = [[f"{side}{number}" for number in range(17)] for side in ("s", "t")]
    spec.register_source_vocabulary(words[0])
    spec.register_target_vocabulary(words[1])
    spec.validate()
    spec.optimize(quantization=None if store == "float32" else store)
    spec.save(str(folder))
    return (folder / "model.bin").read_bytes()


def projections(attention: Any, *names: Literal["query", "key", "value"]) -> list[torch.nn.Linear]:
    return [getattr(attention, name) for name in names]


def feed_forward(spec: Any, layer: Any) -> None:
    linear(spec.linear_0, layer.feed_forward.expand)
    linear(spec.linear_1, layer.feed_forward.contract)
    norm(spec.layer_norm, layer.around_feed_forward.norm)


@dataclass(frozen=True)
class Held(Bundle):
    """A bundle whose weights are at hand."""

    given: dict[str, np.ndarray] = field(default_factory=dict)

    def weights(self) -> dict[str, np.ndarray]:
        return self.given


def ours(made: Transformer, shape: TransformerConfig, store: ExportStore) -> bytes:
    held = Held(Path("nowhere"), BundleInfo(model=shape), Card(), sha256="", model_sha256="", given=weights_of(made))
    return weights_file(held, store)


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("tie", ["all", "target", "none"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("where", ["learned", "sinusoidal", "sinusoidal-halves"])
def test_the_bytes_are_those_of_its_own_converter(
    store: ExportStore, norm: str, tie: str, bias: bool, where: str, tmp_path: Path
) -> None:
    shape = config(norm=norm, tie=tie, attention_bias=bias, positions=where)
    made = model(shape)
    assert ours(made, shape, store) == converted(made, shape, store, tmp_path)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_and_the_output_bias_are_written_as_it_does(
    store: ExportStore, activation: str, tmp_path: Path
) -> None:
    shape = config(activation=activation, output_bias=True)
    made = model(shape)
    assert ours(made, shape, store) == converted(made, shape, store, tmp_path)


def test_what_begins_alike_is_written_once_as_it_does(tmp_path: Path) -> None:
    """Before any training all gains are ones and all biases zeros: one array under many names."""
    shape = config(attention_bias=True)
    made = Transformer(shape).eval()
    assert ours(made, shape, "int8") == converted(made, shape, "int8", tmp_path)


@pytest.mark.parametrize("store", STORES)
def test_rows_without_a_number_and_tiny_ones_are_rounded_as_it_does(store: ExportStore, tmp_path: Path) -> None:
    shape = config(tie="none")
    made = model(shape)
    with torch.no_grad():
        made.projection.weight[3] = 0.0
        made.projection.weight[5] = 1e-39
    assert ours(made, shape, store) == converted(made, shape, store, tmp_path)
