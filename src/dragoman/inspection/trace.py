"""A trace: the tokens, probabilities and attention of a model on one sentence pair, and the file format.

The file is safetensors with a JSON header: schema, model and vocabulary, measure, row convention, free or forced
target, and the SHA-256 of the content. Weights, queries, keys and values are stored in half precision, the norms of a
map as one number per key, log-probabilities exactly. Reading needs neither the model nor torch.

A compact file, as the probe of a training run writes, takes one byte per weight. A row is stored in units of 1/255 of
its largest weight. Rounding follows the running sum, so that rounding errors do not add up, and only the largest weight
(the first of equal weights) is 255. Loading restores zeros, the position of the largest weight and the sum of each row;
the error of a weight is below 0.01, usually below 0.004. In half precision it is below 0.0003.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray
from pydantic import Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from dragoman.alignment.tokens import Tokens
from dragoman.attention.kinds import Kind, kind_of
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.config import Config
from dragoman.decoding.hypothesis import Candidate
from dragoman.inspection.interventions import Intervention
from dragoman.io.durable import DamageError, write_durably

if TYPE_CHECKING:
    from dragoman.bundle.alignment_head import Measure, Rows
    from dragoman.inspection.display import MapDisplay

SCHEMA: Final = 3
"""The schema version of new files. Version 2, always compact and without `num_forced`, and version 1, also without
interventions and alignment heads, can still be read."""
SCHEMAS: Final = ("1", "2", "3")
REMEDY: Final = "trace the sentence again with dragoman inspect --save or Trace.save"
MEASURE: Final = "attention: weights after the softmax; norms: ||weight x value x output matrix||"

Arrays = dict[str, np.ndarray]
HeadMaps = Float[ndarray, "heads rows keys"]


class ModelIdentity(Config):
    """The identity of the traced model."""

    sha256: str
    """The SHA-256 of the bundle; empty for a model that was never saved."""
    vocabulary: str
    family: str


@dataclass(frozen=True, eq=False)
class HeadVectors:
    """The queries, keys and values of one attention layer, by head."""

    query: np.ndarray
    """[heads, rows, d_k]"""
    key: np.ndarray
    """[heads, keys, d_k]; for additive scores, the part of the score that does not depend on the query."""
    value: np.ndarray
    """[heads, keys, d_v]"""


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """A trace of one sentence pair: the tokens, probabilities and attention of a model.

    Row i of a map is the step in which target token i was *written*; the token *read* in that step is token i - 1 (BOS
    at first), so key j of a decoder self-attention map is the token *before* target token j. Maps of the encoder
    have a row for each source token.
    """

    source: Tokens
    target: Tokens
    free: bool
    """True if the model chose the target; False if the target was forced (teacher forcing)."""
    log_probabilities: Float[ndarray, " target"]
    alternative_ids: np.ndarray
    """[target, k], the ids of the k most probable tokens of each step, best first."""
    alternative_log_probabilities: np.ndarray
    attention: Mapping[str, np.ndarray]
    """[heads, rows, keys] by qualified name, such as decoder.layers.2.cross_attention."""
    norms: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The norm of each weighted, transformed value (Kobayashi et al., 2020), shaped like `attention`."""
    model: ModelIdentity = field(default_factory=lambda: ModelIdentity(sha256="", vocabulary="", family=""))
    cut: bool = False
    """True if the search ended the target at the length limit."""
    pieces: Mapping[int, str] = field(default_factory=dict)
    """The subword of every target id in the trace, including alternatives and candidates."""
    history: tuple[tuple[Candidate, ...], ...] = ()
    """The candidates of each step of the beam search, best first; empty unless requested."""
    vectors: Mapping[str, HeadVectors] = field(default_factory=dict)
    """The queries, keys and values by attention name; empty unless requested."""
    interventions: tuple[Intervention, ...] = ()
    """The interventions that changed the model's attention in this trace."""
    alignment_heads: tuple[AlignmentHead, ...] = ()
    """The alignment heads stored in the bundle; empty if there are none."""
    num_forced: int = 0
    """The number of target tokens that the search was made to begin with; 0 for a wholly forced target."""

    def __repr__(self) -> str:
        mode = "free-running" if self.free else "forced"
        size = f"{len(self.target)} target tokens, {len(self.attention)} attention maps"
        return f"<Trace of {self.source.text!r} to {self.target.text!r}: {mode}, {size}>"

    def names(self, kind: Kind) -> list[str]:
        """Return the names of the attention maps of one kind, lowest layer first."""
        return [name for name in self.attention if kind_of(name) == kind]

    def show(
        self,
        head: int | Literal["mean", "align"] = "align",
        layer: int | None = None,
        kind: Kind = "cross",
        rows: "Rows | None" = None,
        measure: "Measure | None" = None,
    ) -> "MapDisplay":
        """Return one map to display in a notebook or to print in a terminal.

        `head` is a number, "mean" for the mean of the layer's heads, or "align" for the model's alignment head (a guess
        if none is stored). Layers and heads are counted from 0; layer -1 is the last.
        """
        from dragoman.inspection.display import MapDisplay
        from dragoman.inspection.view import check_names, choose

        chosen = None if head == "align" else head
        check_names(kind, rows or "written", measure or "attention", 0 if chosen is None else chosen)
        return MapDisplay(self, choose(self, kind, layer, chosen, rows, measure))

    def save(self, path: Path | str, *, is_compact: bool = False) -> None:
        """Write the trace to a file atomically; `is_compact` halves the file and stores weights less exactly."""
        write_durably(Path(path), self.to_bytes(is_compact=is_compact))

    def to_bytes(self, *, is_compact: bool = False) -> bytes:
        """Return the content of a trace file."""
        target_is: Literal["free", "forced"] = "free" if self.free else "forced"
        header = TraceHeader(target_is=target_is, maps=tuple(self.attention), **_shared(self)).model_dump_json()
        arrays = _to_arrays(self, is_compact)
        metadata = {"schema": str(SCHEMA), "trace": header, "sha256": content_digest(SCHEMA, header, arrays)}
        return to_safetensors(arrays, metadata)

    @staticmethod
    def load(path: Path | str) -> "Trace":
        """Read a trace file written by `save`; the model is not needed."""
        path = Path(path)
        header, arrays = _read(path)
        try:
            trace = _from_arrays(header, arrays)
            _check(trace)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise DamageError(path, f"the content is not a valid trace ({error})", REMEDY) from error
        return trace


_VECTORS: Final = ("query", "key", "value")


class TraceHeader(Config):
    """The fields of a trace that are not arrays, as its file holds them in JSON."""

    model: ModelIdentity
    measure: str = MEASURE
    rows: Literal["written"] = "written"
    """Row i of a map is the step whose output is target token i."""
    target_is: Literal["free", "forced"]
    cut: bool
    source: Tokens
    target: Tokens
    pieces: dict[int, str]
    maps: tuple[str, ...]
    """The names of the maps, lowest layer first, as safetensors keeps no order."""
    interventions: tuple[Annotated[Intervention, Field(discriminator="do")], ...] = ()
    alignment_heads: tuple[AlignmentHead, ...] = ()
    num_forced: int = Field(0, ge=0, description="number of target tokens that the search was made to begin with")


def _shared(parts: Trace | TraceHeader) -> dict[str, Any]:
    """Return the fields that a trace and its header share."""
    names = ("model", "cut", "source", "target", "pieces", "interventions", "alignment_heads", "num_forced")
    return {name: getattr(parts, name) for name in names}


def _to_arrays(trace: Trace, is_compact: bool) -> Arrays:
    arrays: Arrays = {
        "log_probabilities": _real(trace.log_probabilities),
        "alternatives.ids": trace.alternative_ids.astype(np.int32),
        "alternatives.log_probabilities": _real(trace.alternative_log_probabilities),
    }
    for name, weights in trace.attention.items():
        if is_compact:
            arrays[f"attention.{name}"], arrays[f"sums.{name}"] = pack_weights(weights)
        else:
            arrays[f"attention.{name}"] = _check_weights(weights).astype(np.float16)
        if name in trace.norms:
            arrays[f"norms.{name}"] = key_norms(trace.norms[name], weights)
    for name, vectors in trace.vectors.items():
        arrays |= {f"{part}.{name}": array.astype(np.float16) for part, array in vars(vectors).items()}
    if trace.history:
        steps = [(step, candidate) for step, candidates in enumerate(trace.history) for candidate in candidates]
        rows = [(step, c.parent, c.token, -1 if c.place is None else c.place, c.ended) for step, c in steps]
        arrays["history"] = np.array(rows, np.int32).reshape(-1, 5)
        arrays["history.log_probabilities"] = np.array([c.log_probability for _, c in steps], np.float64)
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _from_arrays(header: TraceHeader, arrays: Arrays) -> Trace:
    attention = {name: _weights(arrays[f"attention.{name}"], arrays.get(f"sums.{name}")) for name in header.maps}
    stored = [name for name in header.maps if f"norms.{name}" in arrays]
    kept = [name for name in header.maps if f"query.{name}" in arrays]
    vectors = {name: [arrays[f"{part}.{name}"].astype(np.float32) for part in _VECTORS] for name in kept}
    return Trace(
        free=header.target_is == "free",
        log_probabilities=arrays["log_probabilities"],
        alternative_ids=arrays["alternatives.ids"],
        alternative_log_probabilities=arrays["alternatives.log_probabilities"],
        attention=attention,
        norms={name: attention[name] * arrays[f"norms.{name}"][:, None] for name in stored},
        history=_history(arrays),
        vectors={name: HeadVectors(*parts) for name, parts in vectors.items()},
        **_shared(header),
    )


def _weights(stored: np.ndarray, sums: np.ndarray | None) -> HeadMaps:
    return stored.astype(np.float32) if sums is None else unpack_weights(stored, sums)


def _history(arrays: Arrays) -> tuple[tuple[Candidate, ...], ...]:
    if "history" not in arrays:
        return ()
    steps: list[list[Candidate]] = []
    for row, total in zip(arrays["history"].tolist(), arrays["history.log_probabilities"].tolist(), strict=True):
        step, parent, token, place, ended = row
        steps += [[] for _ in range(len(steps), step + 1)]
        steps[step].append(Candidate(parent, token, total, None if place < 0 else place, bool(ended)))
    return tuple(map(tuple, steps))


def _check(trace: Trace) -> None:
    """Raise ValueError if the sizes of the tokens and the arrays in a trace do not match."""
    for side in (trace.source, trace.target):
        if len({len(side.ids), len(side.pieces), len(side.spans), len(side.words)}) != 1:
            raise ValueError("ids, pieces, spans and words differ in number")
    source, target = len(trace.source), len(trace.target)
    if trace.log_probabilities.shape != (target,) or trace.alternative_ids.shape[:1] != (target,):
        raise ValueError(f"log-probabilities {trace.log_probabilities.shape} do not fit {target} target tokens")
    if trace.alternative_ids.shape != trace.alternative_log_probabilities.shape:
        raise ValueError("alternatives and their log-probabilities differ in shape")
    sizes = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    if not 0 <= trace.num_forced <= target:
        raise ValueError(f"{trace.num_forced} forced tokens do not fit {target} target tokens")
    for name, weights in trace.attention.items():
        if weights.shape[1:] != sizes[kind_of(name)]:
            raise ValueError(f"{name} has the shape {weights.shape[1:]}, not {sizes[kind_of(name)]}")


def _read(path: Path) -> tuple[TraceHeader, Arrays]:
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            _require_schema(path, metadata)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise ValueError(f"{path}: there is no such file") from error
    except (SafetensorError, OSError) as error:
        raise DamageError(path, f"the file cannot be read as a trace ({error})", REMEDY) from error
    if metadata.get("sha256") != content_digest(int(metadata["schema"]), metadata["trace"], arrays):
        raise DamageError(path, "the content is damaged (the sha256 differs)", REMEDY)
    try:
        return TraceHeader.model_validate_json(metadata["trace"]), arrays
    except ValidationError as error:
        raise DamageError(path, f"the header is not valid ({error.errors()[0]['msg']})", REMEDY) from error


def _require_schema(path: Path, metadata: Mapping[str, str]) -> None:
    if not {"schema", "trace"} <= set(metadata):
        raise ValueError(f"{path}: this is not a trace; make a trace with dragoman inspect --save")
    if metadata["schema"] not in SCHEMAS:
        problem = f"schema {metadata['schema']} is not supported (this version reads {', '.join(SCHEMAS)})"
        raise ValueError(f"{path}: {problem}; install the version that wrote the file, or trace the sentence again")


def content_digest(schema: int, header: str, arrays: Arrays) -> str:
    """Return the SHA-256 of schema, header and all arrays, independent of the arrays' order in the file."""
    shapes = [(name, array.dtype.str, array.shape) for name, array in sorted(arrays.items())]
    digest = hashlib.sha256(json.dumps([schema, header, shapes]).encode())
    for _, array in sorted(arrays.items(), key=lambda item: item[0]):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _real(array: np.ndarray) -> np.ndarray:
    """Return the array in float32 or float64, without loss of precision."""
    return array.astype(np.promote_types(array.dtype, np.float32))


def _check_weights(weights: HeadMaps) -> HeadMaps:
    if not np.isfinite(weights).all() or weights.min(initial=0.0) < 0.0:
        raise ValueError("some attention weights are negative or not finite: trace the sentence with another model")
    return weights


def pack_weights(weights: HeadMaps) -> tuple[UInt8[ndarray, "heads rows keys"], Float[ndarray, "heads rows"]]:
    """Quantise the weights of a map to bytes; return the bytes and the sum of each row."""
    exact = _check_weights(weights).astype(np.float64)
    largest = exact.max(axis=-1, keepdims=True, initial=0.0)
    units = np.divide(exact * 255, largest, out=np.zeros_like(exact), where=largest > 0.0)
    running = np.rint(np.cumsum(units, axis=-1))
    rounded = np.minimum(np.diff(running, axis=-1, prepend=0.0), 254)
    if weights.shape[-1]:
        top = exact.argmax(axis=-1)[..., None]
        np.put_along_axis(rounded, top, np.where(largest > 0.0, 255, 0), axis=-1)
    return rounded.astype(np.uint8), exact.sum(axis=-1).astype(np.float32)


def unpack_weights(stored: UInt8[ndarray, "heads rows keys"], sums: Float[ndarray, "heads rows"]) -> HeadMaps:
    """Return the weights of a quantised map in float32."""
    units = stored.astype(np.float64)
    total = units.sum(axis=-1, keepdims=True)
    shares = np.divide(units, total, out=np.zeros_like(units), where=total > 0.0)
    weights: HeadMaps = (shares * sums[..., None]).astype(np.float32)
    return weights


def key_norms(norms: HeadMaps, weights: HeadMaps) -> Float[ndarray, "heads keys"]:
    """Return the norm of each key's value: norm divided by weight, in the row with the key's largest weight."""
    if not weights.size:
        return np.zeros((weights.shape[0], weights.shape[2]), np.float32)
    row = weights.argmax(axis=1)[:, None]  # [heads, 1, keys]
    norm, weight = (np.take_along_axis(part, row, axis=1)[:, 0].astype(np.float64) for part in (norms, weights))
    columns = np.divide(norm, weight, out=np.zeros_like(norm), where=weight > 0.0)
    if not np.allclose(columns[:, None] * weights, norms, rtol=1e-3, atol=1e-5 * float(norms.max())):
        raise ValueError("the norms differ from the weight times the norm of the key's value: trace the sentence again")
    return columns.astype(np.float32)
