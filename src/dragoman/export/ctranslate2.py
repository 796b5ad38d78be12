"""A Transformer as the files that CTranslate2 loads: its weights, a vocabulary of pieces, and a few settings."""

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Final

from dragoman.bundle import Bundle
from dragoman.bundle.info import ExportStore
from dragoman.data.alignment import AlignmentHead
from dragoman.data.durable import Sink, write_durably
from dragoman.data.subwords import Subwords
from dragoman.data.vocab import BOS, EOS, UNK, Vocab
from dragoman.export.binary import aliases, serialise
from dragoman.export.quantise import quantised
from dragoman.export.refusal import why_not, why_not_aligned
from dragoman.export.variables import variables

WEIGHTS: Final = "model.bin"


def weights_file(bundle: Bundle, store: ExportStore = "float32", heads: tuple[AlignmentHead, ...] = ()) -> bytes:
    """CTranslate2's model.bin, showing these heads. The bundle's own weights are read, and nothing of it changes."""
    config = bundle.info.model
    reason = why_not(config)
    if reason or config.family != "transformer":
        raise ValueError(f"{bundle.folder}: this model cannot be exported, and stays with torch: {reason}")
    named = variables(config, bundle.weights(), heads)
    also = aliases(named)  # before rounding, which could make equal what is not
    return serialise(quantised({name: named[name] for name in named.keys() - also.keys()}, store), also)


def shown_heads(bundle: Bundle) -> tuple[AlignmentHead, ...]:
    """The stored heads, as far as CTranslate2 can show them."""
    heads = bundle.info.alignment_heads
    return () if why_not_aligned(heads) else heads


def small_files(bundle: Bundle) -> dict[str, bytes]:
    """All that CTranslate2 needs beside the weights."""
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
    return {"config.json": _json(settings), **_vocabularies(vocab)}


def write_folder(bundle: Bundle, folder: Path, store: ExportStore = "float32") -> None:
    """A folder for CTranslate2 alone, with the vocabulary for SentencePiece beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {**small_files(bundle), WEIGHTS: weights_file(bundle, store, shown_heads(bundle))}.items():
        write_durably(folder / name, partial(_pour, content))
    bundle.vocab.save(folder)


def pieces(subwords: Subwords) -> list[str]:
    """Every piece by its id. CTranslate2 takes pieces that are there twice without a word, and mixes them up."""
    names = [subwords.piece(token) for token in range(subwords.size)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"the vocabulary has the piece {twice[0]!r} more than once: CTranslate2 cannot tell them apart"
        )
    return names


def _vocabularies(vocab: Vocab) -> dict[str, bytes]:
    if vocab.joint:
        return {"shared_vocabulary.json": _json(pieces(vocab.source))}
    return {
        "source_vocabulary.json": _json(pieces(vocab.source)),
        "target_vocabulary.json": _json(pieces(vocab.target)),
    }


def _pour(content: bytes, sink: Sink) -> None:
    sink.write(content)


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
