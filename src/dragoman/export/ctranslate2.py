"""Write a Transformer as the files that CTranslate2 loads: weights, vocabularies and config.json."""

import json
from collections import Counter
from typing import Final

from dragoman.bundle import Bundle
from dragoman.bundle.alignment_head import Heads
from dragoman.bundle.info import ExportStore
from dragoman.export.model_bin import aliases, quantise, write_model_bin
from dragoman.export.obstacles import find_alignment_obstacle, find_obstacle
from dragoman.export.variables import variables
from dragoman.text.subwords import Subwords
from dragoman.text.vocab import BOS, EOS, UNK

WEIGHTS: Final = "model.bin"


def weights_file(bundle: Bundle, store: ExportStore = "float32", heads: Heads = ()) -> bytes:
    """Return the content of CTranslate2's model.bin for an export that returns the attention of `heads`."""
    config = bundle.info.model
    reason = find_obstacle(config)
    if reason or config.family != "transformer":
        raise ValueError(f"{bundle.folder}: cannot export this model: {reason}; use the model with --engine torch")
    named = variables(config, bundle.weights(), heads)
    also = aliases(named)  # before rounding, which could make equal what is not
    return write_model_bin(quantise({name: named[name] for name in named.keys() - also.keys()}, store), also)


def exportable_heads(bundle: Bundle) -> Heads:
    """Return the stored alignment heads, or an empty tuple if CTranslate2 cannot return their attention."""
    heads = bundle.info.alignment_heads
    return () if find_alignment_obstacle(heads) else heads


def settings_files(bundle: Bundle) -> dict[str, bytes]:
    """Return the content of CTranslate2's config.json and vocabulary files, by file name."""
    model, vocab = bundle.info.model, bundle.vocab
    assert model.family == "transformer"
    settings = {
        "add_source_bos": False,
        "add_source_eos": True,
        "bos_token": vocab.target.piece(BOS),
        "decoder_start_token": vocab.target.piece(BOS),
        "eos_token": vocab.target.piece(EOS),
        "layer_norm_epsilon": model.norm_epsilon,
        "multi_query_attention": False,
        "unk_token": vocab.target.piece(UNK),
    }
    sides = {"shared": vocab.source} if vocab.joint else {"source": vocab.source, "target": vocab.target}
    vocabularies = {f"{side}_vocabulary.json": _json(pieces(subwords)) for side, subwords in sides.items()}
    return {"config.json": _json(settings), **vocabularies}


def folder_files(bundle: Bundle, weights: bytes) -> dict[str, bytes]:
    """Return the content of a CTranslate2 model folder and of the SentencePiece vocabulary, by file name."""
    return {**settings_files(bundle), WEIGHTS: weights, **bundle.vocab.files}


def pieces(subwords: Subwords) -> list[str]:
    """Return the vocabulary's tokens in the order of their ids; raise ValueError for a duplicate token."""
    names = list(subwords.pieces)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"the vocabulary has the token {twice[0]!r} more than once: use the model with --engine torch")
    return names


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
