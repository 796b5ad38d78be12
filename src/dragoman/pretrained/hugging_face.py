"""Read a folder of Hugging Face's MarianMTModel: config.json, weights, two SentencePiece models and a vocabulary.

Its Pegasus models have the same parts with norms before each sub-layer. Of these, only folders with Marian's tokenizer
are read, as `write_hugging_face.py` writes them.
"""

import io
import json
from dataclasses import replace
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from dragoman.bundle.alignment_head import Heads
from dragoman.device import CPU
from dragoman.models.config import TransformerShape
from dragoman.pretrained.layer_names import layer_names
from dragoman.pretrained.marian_model import (
    EOS_TOKEN,
    PAD_TOKEN,
    UNK_TOKEN,
    Array,
    MarianModel,
    MarianVocabulary,
    Origin,
    Positions,
    cross_head,
)
from dragoman.pretrained.package import Package, sha256
from dragoman.pretrained.position_tables import position_table

CONFIG: Final = "config.json"
SAFE: Final = "model.safetensors"
_PICKLED: Final = "pytorch_model.bin"
ACTIVATIONS: Final = {
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
    "gelu": "gelu",
    "quick_gelu": "gelu-sigmoid",
}
LAYER_NORM_EPSILON: Final = 1e-5
"""torch's default, which transformers uses; Marian has 1e-6."""

ALIGNED: Final = "transformer-align"
"""OPUS-MT's word, in the README of a model, for a last layer whose first head was trained to align words."""

HEADS: Final = "alignment_heads"
"""The option of transformers' configurations that names alignment heads, as pairs of layer and head."""

ROWS: Final = "alignment_rows"
"""Our option beside it: the decoding step that aligns a token, if it is not the one that writes the token."""

CLASSES: Final = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
"""The class of transformers by `model_type`."""

MODEL_TYPES: Final = {"post": "marian", "pre": "pegasus"}
"""The `model_type` by the place of the norms."""

_NEVER: Final = ("normalize_before", "normalize_embedding", "add_final_layer_norm")
"""Options of BART that no Marian model has."""


def read_hugging_face(package: Package, positions: Positions | None) -> MarianModel:
    """Return the model in a Hugging Face folder; raise ValueError with the reason if it is not a Marian model."""
    config = _read_json(package, CONFIG)
    shape = _read_shape(package, config)
    file, content = _find_weights(package)
    arrays = _load_arrays(package, file, content)
    source, target = _read_vocabularies(package, config)
    reader = _HuggingFaceArrays(package, arrays)
    layers = {}
    for name in layer_names(shape):
        for part in ("weight", "bias"):
            layers[f"{name.ours}.{part}"] = reader.take(f"{name.hugging_face}.{part}")
    kind, trained_positions = reader.take_positions(shape)
    if trained_positions and positions:
        package.refuse("it has trained positions: leave out --positions")
    source_embedding, target_embedding, output = reader.take_embeddings()
    bias = reader.take_optional("final_logits_bias")
    reader.check_all_taken()
    for side, vocabulary, matrix in (("source", source, source_embedding), ("target", target, target_embedding)):
        if len(vocabulary.tokens) != len(matrix):
            wrong = (
                f"the {side} vocabulary has {len(vocabulary.tokens):,} tokens, and the embedding {len(matrix):,} rows"
            )
            package.refuse(f"{wrong}: give the vocabulary of this model")
    start = config.get("decoder_start_token_id", config.get("pad_token_id"))
    if not isinstance(start, int) or not 0 <= start < len(target_embedding):
        package.refuse(f"decoder_start_token_id {start} is not an id of the target vocabulary: correct {CONFIG}")
    if start not in (target.pad, target.eos, target.unk):
        source, target = (replace(side, bos=side.ids.get(target.tokens[start])) for side in (source, target))
    generation = {**config, **_read_optional_json(package, "generation_config.json")}
    tokenizer = _read_optional_json(package, "tokenizer_config.json")
    alpha = generation.get("length_penalty")
    return MarianModel(
        origin=Origin(
            package.name, f"Hugging Face {CLASSES[config['model_type']]}", file, sha256(content), package.find_licence()
        ),
        shape=shape,
        positions=positions or kind,
        layers=layers,
        source_embedding=source_embedding,
        target_embedding=target_embedding,
        output=output,
        output_bias=np.zeros(len(output), np.float32) if bias is None else bias.reshape(-1),
        start=target_embedding[start],
        source=source,
        target=target,
        search={
            "beam_size": int(generation.get("num_beams") or 4),
            "penalty": {"formula": "length", "alpha": 1.0 if alpha is None else float(alpha)},
        },
        languages=(tokenizer.get("source_lang"), tokenizer.get("target_lang")),
        alignment_heads=_read_alignment_heads(package, generation, shape),
        trained_positions=trained_positions,
    )


def _read_json(package: Package, name: str) -> dict[str, Any]:
    try:
        value = json.loads(package.read_text(name))
    except json.JSONDecodeError as error:
        package.refuse(f"{name} is not valid JSON ({error}): give a complete package")
    if not isinstance(value, dict):
        package.refuse(f"{name} is not an object: give a complete package")
    return value


def _read_optional_json(package: Package, name: str) -> dict[str, Any]:
    return _read_json(package, name) if name in package.names else {}


def _read_shape(package: Package, config: dict[str, Any]) -> TransformerShape:
    kind = config.get("model_type")
    if kind not in CLASSES:
        package.refuse(f"{CONFIG} has the model type {kind}: only Marian models (model_type marian) can be imported")
    if kind == "pegasus" and "source.spm" not in package.names:
        package.refuse("it is a Pegasus model with another tokenizer: only those of `dragoman export` can be imported")
    for encoder, decoder in (
        ("encoder_ffn_dim", "decoder_ffn_dim"),
        ("encoder_attention_heads", "decoder_attention_heads"),
    ):
        if config.get(encoder) != config.get(decoder):
            differ = f"{encoder} {config.get(encoder)} and {decoder} {config.get(decoder)} differ"
            package.refuse(f"{differ}: only models with equal encoder and decoder layers can be imported")
    if not config.get("scale_embedding"):
        package.refuse(
            "scale_embedding is false: only models that multiply embeddings by sqrt(d_model) can be imported"
        )
    for name in _NEVER:
        if kind == "marian" and config.get(name):
            package.refuse(
                f"{name} is true: only models with norms after each sum, as all Marian models, can be imported"
            )
    if config.get("static_position_embeddings") is False:
        package.refuse("static_position_embeddings is false: models with trained positions cannot be imported")
    activation = ACTIVATIONS.get(str(config.get("activation_function")))
    if activation is None:
        known = ", ".join(ACTIVATIONS)
        package.refuse(f"the activation {config.get('activation_function')} is unknown: only {known} can be imported")
    if int(config["d_model"]) % 2:
        package.refuse(f"d_model {config['d_model']} is odd: only even dimensions can be imported")
    return TransformerShape(
        d_model=config["d_model"],
        d_ff=config["encoder_ffn_dim"],
        num_heads=config["encoder_attention_heads"],
        num_encoder_layers=config["encoder_layers"],
        num_decoder_layers=config["decoder_layers"],
        attention_bias=True,
        output_bias=True,
        activation=activation,
        norm="pre" if kind == "pegasus" else "post",
        norm_epsilon=LAYER_NORM_EPSILON,
        dropout=config.get("dropout", 0.1),
        attention_dropout=config.get("attention_dropout", 0.0),
        activation_dropout=config.get("activation_dropout", 0.0),
        max_positions=config.get("max_position_embeddings", 512),
    )


def _read_alignment_heads(package: Package, config: dict[str, Any], shape: TransformerShape) -> Heads:
    """Return the heads that the configuration names, or else the first head of the last layer if it was trained."""
    named, rows, last = config.get(HEADS), config.get(ROWS, "written"), shape.num_decoder_layers - 1
    if not named:
        return (cross_head(last),) if package.mentions(ALIGNED) else ()
    try:
        heads = tuple(cross_head(layer, head, rows) for layer, head in named)
    except (TypeError, ValueError):
        package.refuse(f"{HEADS} {named} with {ROWS} {rows} are not pairs of layer and head: correct {CONFIG}")
    if any(not (0 <= layer <= last and 0 <= head < shape.num_heads) for layer, head in named):
        sizes = f"{last + 1} decoder layers of {shape.num_heads} heads"
        package.refuse(f"{HEADS} {named}: the model has {sizes}, counted from 0: correct {CONFIG}")
    return heads


def _find_weights(package: Package) -> tuple[str, bytes]:
    for name in (SAFE, _PICKLED):
        if name in package.names:
            return name, package.read_weights(name)
    if any(name.endswith(".index.json") for name in package.names):
        package.refuse("the weights are in several files: save the model with one file of weights")
    others = [name for name in package.names if name.endswith((".h5", ".msgpack", ".onnx"))]
    found = f"only {others[0]}" if others else "no weights"
    raise package.refusal(f"the folder has {found}: give a folder with {SAFE} or {_PICKLED}")


def _load_arrays(package: Package, name: str, content: bytes) -> dict[str, Array]:
    if name == SAFE:
        try:
            arrays = load(content)
        except (SafetensorError, KeyError, TypeError, AttributeError) as error:
            package.refuse(
                f"{name} is damaged, or neither in float32 nor in float16 ({error}): save the model in float32"
            )
    else:
        import pickle

        import torch  # only a file of torch's needs it

        try:
            tensors = torch.load(io.BytesIO(content), map_location=CPU, weights_only=True)
        except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
            reason = str(error).partition("\n")[0]
            package.refuse(f"{name} is damaged, or has more than weights ({reason}): save the model as {SAFE}")
        arrays = {key: value.float().numpy() for key, value in tensors.items()}
    return {key: np.asarray(value, np.float32) for key, value in arrays.items()}


def _read_vocabularies(package: Package, config: dict[str, Any]) -> tuple[MarianVocabulary, MarianVocabulary]:
    if "source.spm" not in package.names and any(name.endswith(".bpe") for name in package.names):
        package.refuse("its subwords are of subword-nmt (.bpe): only models with SentencePiece can be imported")
    is_joint = config.get("share_encoder_decoder_embeddings", True)
    sizes = [config["vocab_size"], config["vocab_size"] if is_joint else config["decoder_vocab_size"]]
    files = ["vocab.json", "vocab.json" if is_joint else "target_vocab.json"]
    sides = []
    for name, size, spm in zip(files, sizes, ("source.spm", "target.spm"), strict=True):
        tokens = _read_json(package, name)
        for special in (EOS_TOKEN, UNK_TOKEN):
            if special not in tokens:
                package.refuse(f"{name} has no {special}: give a complete package")
        pad = tokens.get(PAD_TOKEN, config.get("pad_token_id"))
        sides.append(
            MarianVocabulary(
                name_ids(package, name, tokens, size),
                package.read_sentencepiece(spm),
                pad if pad is not None and pad < size else None,
            )
        )
    eos = config.get("eos_token_id")
    if eos != sides[1].eos:
        package.refuse(f"eos_token_id {eos} is not the id of {EOS_TOKEN}, {sides[1].eos}: correct {CONFIG}")
    return sides[0], sides[1]


def name_ids(package: Package, file: str, ids: dict[str, int], size: int) -> tuple[str, ...]:
    """Return the token of every id; an id without a token, and an empty token, gets a name that no text has."""
    tokens = [f"<id-{number}>" for number in range(size)]
    for token, number in ids.items():
        if not isinstance(number, int) or not 0 <= number < size:
            package.refuse(
                f"{file} gives {token!r} the id {number}, but the model has {size:,} ids: give its vocabulary"
            )
        if token:
            tokens[number] = token
    return tuple(tokens)


class _HuggingFaceArrays:
    """The arrays of a folder; every array is taken, or the model has a part that would be lost."""

    def __init__(self, package: Package, arrays: dict[str, Array]) -> None:
        self._package = package
        self._arrays = arrays

    def take(self, name: str) -> Array:
        array = self.take_optional(name)
        if array is None:
            self._package.refuse(f"the weights have no {name}: give a complete package")
        return array

    def take_optional(self, name: str) -> Array | None:
        return self._arrays.pop(name, None)

    def take_embeddings(self) -> tuple[Array, Array, Array]:
        """Return the embeddings of source and target and the output matrix; a tied matrix is the same object."""
        shared = self.take_optional("model.shared.weight")
        source, target, output = (
            self.take_optional(name)
            for name in ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
        )
        source = _first(source, shared)
        if source is None:
            self._package.refuse("the weights have no model.shared.weight: give a complete package")
        target = _first(target, shared, output)
        if target is None:
            self._package.refuse("the weights have no model.decoder.embed_tokens.weight: give a complete package")
        target = source if np.array_equal(source, target) else target
        return source, target, target if output is None or np.array_equal(output, target) else output

    def take_positions(self, shape: TransformerShape) -> tuple[Positions, tuple[Array, Array] | None]:
        """Return the kind of sinusoids and None, or the stored tables of encoder and decoder if these are trained."""
        names = [f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")]
        stored = [self.take_optional(name) for name in names]
        size = (shape.max_positions, shape.d_model)
        for name, table in zip(names, stored, strict=True):
            if table is not None and table.shape != size:
                self._package.refuse(f"{name} has the shape {table.shape} instead of {size}: correct {CONFIG}")
        tables = [position_table("hf", *size).astype(np.float32) if table is None else table for table in stored]
        kinds: tuple[Positions, ...] = ("hf", "marian")
        for kind in kinds:
            if all(np.allclose(table, position_table(kind, *size), rtol=0, atol=1e-4) for table in tables):
                return kind, None
        return "marian", (tables[0], tables[1])  # trained tables have any order of dimensions: they stay as they are

    def check_all_taken(self) -> None:
        if self._arrays:
            first, count = min(self._arrays), len(self._arrays)
            self._package.refuse(f"the weights have {first}, which such a model has not ({count} unknown)")


def _first(*arrays: Array | None) -> Array | None:
    return next((array for array in arrays if array is not None), None)
