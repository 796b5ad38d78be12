"""Write a Marian model as the files of Hugging Face's MarianMTModel, which `hugging_face.py` reads, without torch.

Marian itself has norms after or before the sub-layers, but a MarianMTModel only after: a model with norms before them
is written as Hugging Face's PegasusForConditionalGeneration, with Marian's tokenizer.
"""

import json
from typing import Any, Final

import numpy as np
from safetensors.numpy import save

from dragoman.pretrained.hugging_face import ACTIVATIONS, CLASSES, CONFIG, HEADS, MODEL_TYPES, ROWS, SAFE
from dragoman.pretrained.layer_names import layer_names
from dragoman.pretrained.marian_model import EOS_TOKEN, UNK_TOKEN, Array, MarianModel
from dragoman.pretrained.position_tables import position_table

_LONGEST: Final = 512
"""The length limit of a translation in transformers, which has none that depends on the source."""


def loses_positions(model: MarianModel) -> bool:
    """Return True if transformers reads the positions, but its MarianMTModel does not save them."""
    return model.shape.norm == "post" and _has_own_positions(model)


def _has_own_positions(model: MarianModel) -> bool:
    return model.trained_positions is not None or model.positions != "hf"


def hugging_face_files(model: MarianModel) -> dict[str, bytes]:
    """Return the content of the files by name. The model needs separate tokens for padding and for BOS."""
    pad, bos, eos = model.target.pad, model.target.bos, model.target.eos
    assert pad is not None
    assert bos is not None
    is_shared = _is_shared(model)
    assert is_shared or model.shape.norm == "post"
    ids = {"pad_token_id": pad, "bos_token_id": bos, "eos_token_id": eos, "decoder_start_token_id": bos}
    generation = {
        **ids,
        "bad_words_ids": [[number] for number in model.target.never],
        "forced_eos_token_id": eos,
        "max_length": min(_LONGEST, model.shape.max_positions),
        "num_beams": model.search["beam_size"],
    }
    if model.search["beam_size"] > 1:  # transformers warns of both without a beam
        generation |= {"length_penalty": model.search["penalty"]["alpha"], "early_stopping": True}
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "pad_token": model.target.tokens[pad],
        "bos_token": model.target.tokens[bos],  # no text gets it, but a decoder leaves it out
        "eos_token": EOS_TOKEN,
        "unk_token": UNK_TOKEN,
        "separate_vocabs": not is_shared,
        "model_max_length": model.shape.max_positions,
        "clean_up_tokenization_spaces": False,
    }
    languages = zip(("source_lang", "target_lang"), model.languages, strict=True)
    tokenizer |= {name: code for name, code in languages if code is not None}
    vocabularies = {"vocab.json": model.source} | ({} if is_shared else {"target_vocab.json": model.target})
    return {
        CONFIG: _json({**_config(model), **ids, "forced_eos_token_id": eos}),
        "generation_config.json": _json(generation),
        SAFE: save(_arrays(model), metadata={"format": "pt"}),
        "source.spm": model.source.proto,
        "target.spm": model.target.proto,
        **{name: _json(side.ids) for name, side in vocabularies.items()},
        "tokenizer_config.json": _json(tokenizer),
    }


def _is_shared(model: MarianModel) -> bool:
    return model.source_embedding is model.target_embedding and model.is_joint


def _config(model: MarianModel) -> dict[str, Any]:
    shape = model.shape
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    kind = MODEL_TYPES[shape.norm]
    sides = {"decoder_vocab_size": len(model.target.tokens), "share_encoder_decoder_embeddings": _is_shared(model)}
    return {
        "architectures": [CLASSES[kind]],
        "model_type": kind,
        "dtype": "float32",
        "activation_function": names[shape.activation],
        "d_model": shape.d_model,
        "encoder_layers": shape.num_encoder_layers,
        "decoder_layers": shape.num_decoder_layers,
        **{f"{side}_ffn_dim": shape.d_ff for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": shape.num_heads for side in ("encoder", "decoder")},
        "vocab_size": len(model.source.tokens),
        **(sides if kind == "marian" else {}),  # a Pegasus model has one matrix
        "tie_word_embeddings": model.output is model.target_embedding,
        "is_encoder_decoder": True,
        "scale_embedding": True,
        "dropout": shape.dropout,
        "attention_dropout": shape.attention_dropout,
        "activation_dropout": shape.activation_dropout,
        "max_position_embeddings": shape.max_positions,
        **_alignment_heads(model),
    }


def _alignment_heads(model: MarianModel) -> dict[str, Any]:
    """Return the options that name the alignment heads, which transformers keeps."""
    heads = model.alignment_heads
    if not heads:
        return {}
    return {HEADS: [[head.layer_number, head.head] for head in heads], ROWS: heads[0].rows}


def _arrays(model: MarianModel) -> dict[str, Array]:
    shape = model.shape
    arrays = {
        f"{name.hugging_face}.{part}": model.layers[f"{name.ours}.{part}"]
        for name in layer_names(shape)
        for part in ("weight", "bias")
    }
    if _is_shared(model):
        arrays["model.shared.weight"] = model.target_embedding
    else:
        arrays["model.encoder.embed_tokens.weight"] = model.source_embedding
        arrays["model.decoder.embed_tokens.weight"] = model.target_embedding
    if model.output is not model.target_embedding:
        arrays["lm_head.weight"] = model.output
    arrays["final_logits_bias"] = model.output_bias[None]
    if shape.norm == "pre" or _has_own_positions(model):  # a Pegasus model without them has missing weights
        table = position_table(model.positions, shape.max_positions, shape.d_model).astype(np.float32)
        for side, stored in zip(("encoder", "decoder"), model.trained_positions or (table, table), strict=True):
            arrays[f"model.{side}.embed_positions.weight"] = stored
    return {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}


def _json(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
