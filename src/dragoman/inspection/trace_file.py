"""A trace in one file: arrays in safetensors, everything else in its header. Reading it takes no model and no torch.

The header says which schema, which model and vocabulary, what is measured, which token a row belongs to, and whether
the target was forced; it carries the sha256 of all content. Maps are kept in one byte a weight (see packing), their
norms as one number for each key, queries, keys and values in half precision; log-probabilities are exact.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final, Literal

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as as_safetensors

from dragoman.config import Config
from dragoman.data.alignment import AlignmentHead
from dragoman.data.durable import DamageError, write_durably
from dragoman.decoding.hypothesis import Candidate
from dragoman.inspection.intervention import Intervention
from dragoman.inspection.packing import column_norms, packed, unpacked
from dragoman.inspection.trace import Identity, Tokens, Trace, Vectors, kind_of

SCHEMA: Final = 2
"""What is written. The first one knew no interventions and no alignment heads, and is still read."""
KNOWN: Final = ("1", "2")
MEND: Final = "make it again, with dragoman inspect --save or Inspector.trace"
MEASURE: Final = "attention: weights after the softmax; norms: ||weight x value x output matrix||"

Arrays = dict[str, np.ndarray]


class TokensHeader(Config):
    """One side of a trace in the header."""

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    words: tuple[int, ...]


class Header(Config):
    """All of a trace that is not an array."""

    model: Identity
    measure: str = MEASURE
    rows: Literal["written"] = "written"
    """Row i of the target is the step that wrote its token i."""
    target_is: Literal["free", "forced"]
    cut: bool
    source: TokensHeader
    target: TokensHeader
    pieces: dict[int, str]
    maps: tuple[str, ...]
    """Their names, from the source upwards: safetensors keeps no order."""
    interventions: tuple[Intervention, ...] = ()
    alignment_heads: tuple[AlignmentHead, ...] = ()


def save(trace: Trace, path: Path | str) -> None:
    """Writes the file; whatever was there stays until the new one is whole."""
    arrays, header = _arrays(trace), _header(trace).model_dump_json()
    metadata = {"schema": str(SCHEMA), "trace": header, "sha256": _digest(SCHEMA, header, arrays)}
    content = as_safetensors(arrays, metadata)
    write_durably(Path(path), lambda sink: sink.write(content))


def load(path: Path | str) -> Trace:
    """Reads what `save` wrote, and nothing else."""
    path = Path(path)
    header, arrays = _read(path)
    try:
        trace = _trace(header, arrays)
        _check(trace)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DamageError(path, f"its parts do not make a trace ({error})", MEND) from error
    return trace


def _header(trace: Trace) -> Header:
    return Header(
        model=trace.model,
        target_is="free" if trace.free else "forced",
        cut=trace.cut,
        source=TokensHeader(**asdict(trace.source)),
        target=TokensHeader(**asdict(trace.target)),
        pieces=dict(trace.pieces),
        maps=tuple(trace.attention),
        interventions=trace.interventions,
        alignment_heads=trace.alignment_heads,
    )


def _arrays(trace: Trace) -> Arrays:
    arrays: Arrays = {
        "log_probabilities": _real(trace.log_probabilities),
        "alternatives.ids": trace.alternative_ids.astype(np.int32),
        "alternatives.log_probabilities": _real(trace.alternative_log_probabilities),
    }
    for name, weights in trace.attention.items():
        arrays[f"attention.{name}"], arrays[f"sums.{name}"] = packed(weights)
        if name in trace.norms:
            arrays[f"norms.{name}"] = column_norms(trace.norms[name], weights)
    for name, vectors in trace.vectors.items():
        arrays |= {f"{part}.{name}": array.astype(np.float16) for part, array in vars(vectors).items()}
    if trace.history:
        arrays |= _history_arrays(trace.history)
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _history_arrays(history: tuple[tuple[Candidate, ...], ...]) -> Arrays:
    rows = [
        (step, c.parent, c.token, -1 if c.place is None else c.place, c.ended)
        for step, candidates in enumerate(history)
        for c in candidates
    ]
    totals = [c.log_probability for candidates in history for c in candidates]
    return {
        "history": np.array(rows, np.int32).reshape(-1, 5),
        "history.log_probabilities": np.array(totals, np.float64),
    }


def _history(arrays: Arrays) -> tuple[tuple[Candidate, ...], ...]:
    if "history" not in arrays:
        return ()
    steps: list[list[Candidate]] = []
    for row, total in zip(arrays["history"].tolist(), arrays["history.log_probabilities"].tolist(), strict=True):
        step, parent, token, place, ended = row
        steps += [[] for _ in range(len(steps), step + 1)]
        steps[step].append(Candidate(parent, token, total, None if place < 0 else place, bool(ended)))
    return tuple(tuple(step) for step in steps)


def _trace(header: Header, arrays: Arrays) -> Trace:
    attention = {name: unpacked(arrays[f"attention.{name}"], arrays[f"sums.{name}"]) for name in header.maps}
    normed = [name for name in header.maps if f"norms.{name}" in arrays]
    looked = [name for name in header.maps if f"query.{name}" in arrays]
    return Trace(
        source=Tokens(**dict(header.source)),
        target=Tokens(**dict(header.target)),
        free=header.target_is == "free",
        log_probabilities=arrays["log_probabilities"],
        alternative_ids=arrays["alternatives.ids"],
        alternative_log_probabilities=arrays["alternatives.log_probabilities"],
        attention=attention,
        norms={name: attention[name] * arrays[f"norms.{name}"][:, None] for name in normed},
        model=header.model,
        cut=header.cut,
        pieces=header.pieces,
        history=_history(arrays),
        vectors={name: _vectors(name, arrays) for name in looked},
        interventions=header.interventions,
        alignment_heads=header.alignment_heads,
    )


def _vectors(name: str, arrays: Arrays) -> Vectors:
    query, key, value = (arrays[f"{part}.{name}"].astype(np.float32) for part in ("query", "key", "value"))
    return Vectors(query, key, value)


def _check(trace: Trace) -> None:
    """Sizes that fit each other: whoever draws a trace need not ask again."""
    for side in (trace.source, trace.target):
        if len({len(side.ids), len(side.pieces), len(side.spans), len(side.words)}) != 1:
            raise ValueError("the tokens of one side differ in number")
    steps = len(trace.target)
    if trace.log_probabilities.shape != (steps,) or trace.alternative_ids.shape[:1] != (steps,):
        raise ValueError(f"{steps} target tokens, but log-probabilities of {trace.log_probabilities.shape}")
    if trace.alternative_ids.shape != trace.alternative_log_probabilities.shape:
        raise ValueError("alternatives and their log-probabilities differ in shape")
    for name, weights in trace.attention.items():
        sizes = _sizes(trace, name)
        if weights.shape[1:] != sizes:
            raise ValueError(f"{name} is a map of {weights.shape[1:]}, not of {sizes}")


def _sizes(trace: Trace, name: str) -> tuple[int, int]:
    source, target = len(trace.source), len(trace.target)
    by_kind: Mapping[str, tuple[int, int]] = {
        "encoder": (source, source), "decoder": (target, target), "cross": (target, source)
    }  # fmt: skip
    return by_kind[kind_of(name)]


def _read(path: Path) -> tuple[Header, Arrays]:
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            _require_ours(path, metadata)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise ValueError(f"{path}: there is no such file") from error
    except (SafetensorError, OSError) as error:
        raise DamageError(path, f"it cannot be read as a trace ({error})", MEND) from error
    if metadata.get("sha256") != _digest(int(metadata["schema"]), metadata["trace"], arrays):
        raise DamageError(path, "its content is not what was written (its sha256 differs)", MEND)
    try:
        return Header.model_validate_json(metadata["trace"]), arrays
    except ValidationError as error:
        raise DamageError(path, f"its header is not that of a trace ({error.errors()[0]['msg']})", MEND) from error


def _require_ours(path: Path, metadata: Mapping[str, str]) -> None:
    if not {"schema", "trace"} <= set(metadata):
        raise ValueError(f"{path}: this is not a trace; dragoman inspect --save makes one")
    if metadata["schema"] not in KNOWN:
        raise ValueError(
            f"{path}: traces of schema {metadata['schema']} are not known here, only {' and '.join(KNOWN)}; "
            "install the dragoman that wrote it, or trace the sentence again"
        )


def _digest(schema: int, header: str, arrays: Arrays) -> str:
    """Of every name, type, shape and number, whatever the order in the file."""
    shapes = [(name, array.dtype.str, array.shape) for name, array in sorted(arrays.items())]
    found = hashlib.sha256(json.dumps([schema, header, shapes]).encode())
    for _, array in sorted(arrays.items(), key=lambda item: item[0]):
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _real(array: np.ndarray) -> np.ndarray:
    """As it was computed, in float32 or float64."""
    return array.astype(np.promote_types(array.dtype, np.float32))
