"""A trace: everything a model did with one sentence, in one file that opens without the model (INSPECTION)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from dragoman.config import Config
from dragoman.data.alignment import AlignmentHead
from dragoman.decoding.hypothesis import Candidate
from dragoman.inspection.intervention import Given, Looking, Off, Permuted, Uniform

Kind = Literal["encoder", "decoder", "cross"]
"""Who looks at what: the source at itself, the target at itself, or the target at the source."""


@dataclass(frozen=True)
class Tokens:
    """One side of a trace: a text and the pieces it was cut into; the last one is EOS."""

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    """Where in the text each piece stands, in characters, its space included; (n, n) for EOS."""
    words: tuple[int, ...]
    """The number of the word, split at white space, that each piece belongs to; -1 for EOS."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def word_spans(self) -> tuple[tuple[int, int], ...]:
        """Where in the text each word stands, in characters."""
        return tuple(found.span() for found in re.finditer(r"\S+", self.text))


class Identity(Config):
    """Which model it was."""

    sha256: str
    """Of the bundle; empty for a model that was never saved."""
    vocabulary: str
    family: str


@dataclass(frozen=True, eq=False)
class Vectors:
    """What one attention compared and mixed, head by head."""

    query: np.ndarray
    """[heads, rows, d_k]"""
    key: np.ndarray
    """[heads, keys, d_k]; for additive scores, what of them does not depend on the query."""
    value: np.ndarray
    """[heads, keys, d_v]"""


@dataclass(frozen=True, eq=False)
class Trace:
    """What happened. Row i of a map is the step in which target token i was *written*; what was *read* in that step is
    token i - 1 (BOS at first), so key j of the target's map of itself is the token *before* target token j. Maps of the
    encoder have a row for each source token.
    """

    source: Tokens
    target: Tokens
    free: bool
    """The model chose the target itself; else it was forced (teacher forcing)."""
    log_probabilities: Float[ndarray, " target"]
    alternative_ids: np.ndarray
    """[target, k], the k most probable tokens of each step, best first."""
    alternative_log_probabilities: np.ndarray
    attention: Mapping[str, np.ndarray]
    """[heads, rows, keys] by qualified name, such as decoder.layers.2.cross_attention."""
    norms: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The same shape, by the same names: the norm of each weighted, transformed value (Kobayashi et al., 2020)."""
    model: Identity = field(default_factory=lambda: Identity(sha256="", vocabulary="", family=""))
    cut: bool = False
    """The search had to end the target at its length limit."""
    pieces: Mapping[int, str] = field(default_factory=dict)
    """How the target's ids are spelled, for all that are named here: alternatives and candidates too."""
    history: tuple[tuple[Candidate, ...], ...] = ()
    """The candidates of each step of the beam search, best first, if they were asked for."""
    vectors: Mapping[str, Vectors] = field(default_factory=dict)
    """By the names of the maps, if they were asked for."""
    interventions: tuple[Off | Uniform | Permuted | Looking | Given, ...] = ()
    """What was done to the model's attention: all that is here is of the model so changed."""
    alignment_heads: tuple[AlignmentHead, ...] = ()
    """Where its bundle says that this model aligns; empty if that was never measured."""

    def __repr__(self) -> str:
        """In one line; `notebook.Shown` is the picture."""
        chosen = "free-running" if self.free else "forced"
        maps = f"{len(self.target)} target tokens, {len(self.attention)} attention maps"
        return f"<Trace of {self.source.text!r} to {self.target.text!r}: {chosen}, {maps}>"

    def names(self, kind: Kind) -> list[str]:
        """The maps of one kind, from the lowest layer up."""
        return [name for name in self.attention if kind_of(name) == kind]


def kind_of(name: str) -> Kind:
    """Which kind of attention a qualified name names."""
    if name.startswith("encoder."):
        return "encoder"
    return "decoder" if name.endswith("self_attention") else "cross"
