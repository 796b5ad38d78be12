"""Read an OPUS-MT package as Marian trains it: decoder.yml, an .npz of weights, vocabularies, SentencePiece models."""

import io
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
import yaml

from dragoman.models.config import TransformerShape
from dragoman.pretrained.hugging_face import name_ids
from dragoman.pretrained.layer_names import LayerName, layer_names
from dragoman.pretrained.marian_model import (
    EOS_TOKEN,
    UNK_TOKEN,
    Array,
    MarianModel,
    MarianVocabulary,
    Origin,
    Positions,
    cross_head,
)
from dragoman.pretrained.package import Package, sha256

DECODER: Final = "decoder.yml"
_CONFIG: Final = "special:model.yml"
_ACTIVATIONS: Final = {"relu": "relu", "swish": "swish", "gelu": "gelu-sigmoid"}
_REQUIRED: Final[dict[str, Any]] = {
    "type": "transformer",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-no-projection": False,
    "transformer-train-position-embeddings": False,
    "transformer-pool": False,
    "transformer-ffn-depth": 2,
    "transformer-tied-layers": [],
    "right-left": False,
    "lemma-dim-emb": 0,
    "factors-dim-emb": 0,
    "ulr": False,
}
"""Marian's options that have one supported value, which is also the value of an option that is not given."""

_NORMS: Final = {("", "dan", ""): "post", ("n", "da", "n"): "pre"}
"""transformer-preprocess, -postprocess and -postprocess-top, and our name."""

_LAYER_NORM_EPSILON: Final = 1e-6
_MAX_POSITIONS: Final = 1024
"""Marian computes as many positions as a sentence needs; this is our default."""


def read_opus_mt(package: Package, positions: Positions | None) -> MarianModel:
    """Return the model in an OPUS-MT package; raise ValueError with the reason if it cannot be imported."""
    decoder = package.read_yaml(DECODER)
    models, files = _file_names(package, decoder, "models"), _file_names(package, decoder, "vocabs")
    if len(models) != 1:
        package.refuse(f"{DECODER} has an ensemble of {len(models)} models: name one of them under `models`")
    if "source.spm" not in package.names or "target.spm" not in package.names:
        if any(name.endswith(".bpe") for name in package.names):
            package.refuse("its subwords are of subword-nmt (.bpe): only packages with SentencePiece can be imported")
        package.refuse("the package has no source.spm and target.spm: only packages with SentencePiece can be imported")
    content = package.read_weights(models[0])
    arrays = _load_arrays(package, models[0], content)
    config = _read_config(package, arrays)
    shape = _read_shape(package, config)
    if "Wpos" in arrays:
        package.refuse("it has trained positions (Wpos): only models with sinusoidal positions can be imported")
    reader = _MarianArrays(package, arrays)
    layers: dict[str, Array] = {}
    for name in layer_names(shape):
        layers |= reader.take_norm(name.ours, name.marian) if name.is_norm else reader.take_linear(name)
    source_embedding, target_embedding, output = reader.take_embeddings()
    bias = reader.find("decoder_ff_logit_out_b")
    reader.check_all_taken()
    source, target = (
        MarianVocabulary(_read_vocabulary(package, name, len(matrix)), package.read_sentencepiece(spm), None)
        for name, spm, matrix in (
            (files[0], "source.spm", source_embedding),
            (files[-1], "target.spm", target_embedding),
        )
    )
    aligned = config.get("transformer-guided-alignment-layer", "last")
    alignment_layer = shape.num_decoder_layers - 1 if aligned == "last" else int(aligned) - 1
    return MarianModel(
        origin=Origin(package.name, "OPUS-MT package", models[0], sha256(content), package.find_licence()),
        shape=shape,
        positions=positions or "marian",
        layers=layers,
        source_embedding=source_embedding,
        target_embedding=target_embedding,
        output=output,
        output_bias=np.zeros(len(output), np.float32) if bias is None else bias.reshape(-1),
        start=np.zeros(shape.d_model, np.float32),
        source=source,
        target=target,
        search={"beam_size": int(decoder.get("beam-size") or 4), "penalty": _read_penalty(decoder)},
        languages=(None, None),
        alignment_heads=(cross_head(alignment_layer),) if package.mentions("transformer-align", models) else (),
    )


def _file_names(package: Package, decoder: dict[str, Any], key: str) -> list[str]:
    names = decoder.get(key)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        package.refuse(f"{DECODER} has no list `{key}`: give a complete package")
    return [name.removeprefix("./") for name in names]


def _load_arrays(package: Package, name: str, content: bytes) -> dict[str, Array]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except (ValueError, OSError, BadZipFile, AttributeError) as error:
        package.refuse(f"{name} is not an .npz file of arrays ({error}): give a complete package")


def _read_config(package: Package, arrays: dict[str, Array]) -> dict[str, Any]:
    if _CONFIG not in arrays:
        package.refuse(f"the weights have no {_CONFIG}, Marian's config: give a model that Marian has written")
    try:
        config = yaml.safe_load(arrays.pop(_CONFIG).tobytes().rstrip(b"\0"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        package.refuse(f"{_CONFIG} is not valid YAML ({' '.join(str(error).split())}): give a complete package")
    if not isinstance(config, dict):
        package.refuse(f"{_CONFIG} is not a mapping: give a complete package")
    return config


def _read_shape(package: Package, config: dict[str, Any]) -> TransformerShape:
    for name, value in _REQUIRED.items():
        if config.get(name, value) != value:
            package.refuse(f"Marian's option {name} is {config[name]!r}: only {value!r} can be imported")
    for name, whole in (
        ("transformer-decoder-dim-ffn", "transformer-dim-ffn"),
        ("transformer-decoder-ffn-depth", "transformer-ffn-depth"),
    ):
        if config.get(name) and config[name] != config.get(whole):
            differ = f"{whole} {config.get(whole)} and {name} {config[name]} differ"
            package.refuse(f"{differ}: only models with equal encoder and decoder layers can be imported")
    if "n" in str(config.get("transformer-postprocess-emb", "d")):
        package.refuse("transformer-postprocess-emb has n: models with a norm after the embedding cannot be imported")
    steps = tuple(
        str(config.get(f"transformer-{name}") or "") for name in ("preprocess", "postprocess", "postprocess-top")
    )
    if steps not in _NORMS:
        wrong = "transformer-preprocess {!r}, -postprocess {!r} and -postprocess-top {!r}".format(*steps)
        package.refuse(f"{wrong}: only '', dan, '' (post-norm) and n, da, n (pre-norm) can be imported")
    activation = config.get("transformer-ffn-activation", "swish")
    if activation not in _ACTIVATIONS:
        package.refuse(f"the activation {activation} is unknown: only {', '.join(_ACTIVATIONS)} can be imported")
    return TransformerShape(
        d_model=config["dim-emb"],
        d_ff=config["transformer-dim-ffn"],
        num_heads=config["transformer-heads"],
        num_encoder_layers=config["enc-depth"],
        num_decoder_layers=config["dec-depth"],
        attention_bias=True,
        output_bias=True,
        activation=_ACTIVATIONS[activation],
        norm=_NORMS[steps],
        norm_epsilon=_LAYER_NORM_EPSILON,
        dropout=config.get("transformer-dropout") or 0.1,
        attention_dropout=config.get("transformer-dropout-attention") or 0.0,
        activation_dropout=config.get("transformer-dropout-ffn") or 0.0,
        max_positions=_MAX_POSITIONS,
    )


def _read_vocabulary(package: Package, name: str, size: int) -> tuple[str, ...]:
    """Return the tokens of a vocab.yml by id. All scalars stay strings: `no` and `1.0` are tokens too."""
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the one in Python takes a minute
    try:
        found = yaml.load(package.read_text(name), Loader=loader)
        ids = {str(token): int(number) for token, number in found.items()}
    except (yaml.YAMLError, ValueError, AttributeError) as error:
        package.refuse(f"{name} is not a vocabulary ({' '.join(str(error).split())}): give a complete package")
    for special in (EOS_TOKEN, UNK_TOKEN):
        if special not in ids:
            package.refuse(f"{name} has no {special}: give a complete package")
    return name_ids(package, name, ids, size)


def _read_penalty(decoder: dict[str, Any]) -> dict[str, Any]:
    """Return the length penalty: Marian's `normalize` divides by n^alpha."""
    alpha = float(decoder.get("normalize") or 0.0)
    return {"formula": "length", "alpha": alpha} if alpha else {"formula": "none"}


class _MarianArrays:
    """The arrays of an .npz, whose matrices have the input first; every array is taken."""

    def __init__(self, package: Package, arrays: dict[str, Array]) -> None:
        self._package = package
        self._arrays = arrays

    def take(self, name: str) -> Array:
        array = self.find(name)
        if array is None:
            self._package.refuse(f"the weights have no {name}: give a complete package")
        return array

    def find(self, name: str) -> Array | None:
        array = self._arrays.pop(name, None)
        return None if array is None else np.asarray(array, np.float32)

    def take_linear(self, name: LayerName) -> dict[str, Array]:
        weight, bias = (self.take(name.marian.replace("*", kind)) for kind in ("W", "b"))
        return {f"{name.ours}.weight": weight.T, f"{name.ours}.bias": bias.reshape(-1)}

    def take_norm(self, ours: str, marian: str) -> dict[str, Array]:
        norm = {}
        for kind, part in (("scale", "weight"), ("bias", "bias")):
            array = self.find(f"{marian}_ln_{kind}_pre")
            norm[f"{ours}.{part}"] = (self.take(f"{marian}_ln_{kind}") if array is None else array).reshape(-1)
        return norm

    def take_embeddings(self) -> tuple[Array, Array, Array]:
        """Return the embeddings of source and target and the output matrix; a tied matrix is the same object."""
        shared = self.find("Wemb")
        source = self.take("encoder_Wemb") if shared is None else shared
        target = self.take("decoder_Wemb") if shared is None else shared
        rows, columns = (self.find(f"decoder_ff_logit_out_{kind}") for kind in ("Wt", "W"))
        if rows is not None:
            return source, target, rows
        return source, target, target if columns is None else columns.T

    def check_all_taken(self) -> None:
        if self._arrays:
            first, count = min(self._arrays), len(self._arrays)
            self._package.refuse(f"the weights have {first}, which is not supported ({count} unknown arrays)")
