"""One attention map of a trace, with row labels, column labels and a caption.

Plots, terminal output and HTML pages are drawn from the same view, so that all show the same numbers.
"""

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from dragoman.alignment.head_names import guess_head
from dragoman.alignment.links import word_map
from dragoman.alignment.tokens import Tokens
from dragoman.attention.kinds import Kind
from dragoman.bundle.alignment_head import AlignmentHead, Measure, Rows
from dragoman.inspection.interventions import describe_interventions
from dragoman.inspection.labels import clean
from dragoman.inspection.trace import Trace

Head = int | Literal["mean"]

BEGIN: Final = "<s>"
"""The input token of the first decoding step."""

KINDS: Final[dict[Kind, str]] = {
    "cross": "target looks at source",
    "encoder": "source looks at source",
    "decoder": "target looks at what was written",
}
MEASURES: Final[dict[Measure, str]] = {
    "attention": "attention weights",
    "norm": "norms of the weighted, transformed values (Kobayashi et al., 2020)",
}
ROWS: Final[dict[Rows, str]] = {"written": "a row is the token being written", "read": "a row is the token just read"}
LOOKING: Final = "a row is the source token that looks"
"""The meaning of a row in an encoder map."""
CAVEAT: Final = "Where it looked, not why."
ANECDOTE: Final = "One sentence is an anecdote."

LEFT: Final = 0.2
"""The share of a row's weight that must remain when sinks are hidden; otherwise the row is left empty."""
MOST_NAMED: Final = 6
"""The maximum number of empty rows that a caption names."""
_BYTE: Final = re.compile("<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class MapView:
    """An attention map to draw: the matrix, the labels and the caption."""

    matrix: Float[ndarray, "rows columns"]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    sinks: tuple[bool, ...]
    """True for the columns of special tokens and punctuation, which are attention sinks."""
    caption: str
    sink_rows: tuple[bool, ...] = ()
    """True for the rows of special tokens and punctuation; empty if there are none."""
    outside: Float[ndarray, " rows"] | None = None
    """The weight of each row on tokens that have no column."""
    empty_rows: tuple[int, ...] = ()
    """The indices of rows left empty because less than `LEFT` of the weight remained without the sinks."""

    @property
    def sink_share(self) -> float:
        """The share of the map's total weight on the sinks, from 0 to 1."""
        total = float(self.matrix.sum())
        return float(self.matrix[:, list(self.sinks)].sum()) / total if total else 0.0

    def without_sinks(self) -> "MapView":
        """Return the map without the rows and columns of sinks, each row renormalised.

        A row of which less than `LEFT` remains is left empty and named in the caption.
        """
        sink_rows = self.sink_rows or (False,) * len(self.rows)
        rows, columns = ([i for i, is_sink in enumerate(side) if not is_sink] for side in (sink_rows, self.sinks))
        left = self.matrix[np.ix_(rows, columns)]
        total = left.sum(axis=1)
        whole = self.matrix[rows].sum(axis=1) + (0 if self.outside is None else self.outside[rows])
        is_shown = (total > 0) & (total >= LEFT * whole)
        if not is_shown.any():
            raise ValueError(f"less than {LEFT:.0%} of every row remains without the sinks: leave out --hide-sinks")
        row_labels, empty = tuple(self.rows[i] for i in rows), tuple(np.flatnonzero(~is_shown).tolist())
        matrix = np.divide(left, total[:, None], out=np.zeros_like(left), where=is_shown[:, None])
        column_labels, sinks = tuple(self.columns[i] for i in columns), (False,) * len(columns)
        note = _name_empty([row_labels[i] for i in empty])
        caption = f"{self.caption} Sinks hidden, as rows too; rows renormalised.{note}"
        return MapView(matrix, row_labels, column_labels, sinks, caption, empty_rows=empty)

    def with_sink_share(self) -> "MapView":
        """Return the map with the sink share in the caption; an empty map is returned unchanged."""
        if not self.matrix.any():
            return self
        return replace(self, caption=f"{self.caption} {self.sink_share:.0%} of it rests on marks and punctuation.")


def view(
    trace: Trace,
    layer: int = -1,
    head: Head = "mean",
    *,
    kind: Kind = "cross",
    rows: Rows = "written",
    measure: Measure = "attention",
) -> MapView:
    """Return one map of a trace; layers and heads are counted from 0, and layer -1 is the last."""
    check_names(kind, rows, measure, head)
    name = _layer(trace, kind, layer)
    maps = maps_of(trace, measure)[name]
    off = heads_off(trace, name)
    matrix = _of_head(maps, head, off).astype(np.float32)
    names = labels(trace, kind, rows)
    is_single = name.rpartition(".")[2].isdecimal()  # a trace without torch has one head, named by layer and number
    which = "" if is_single else f", {_describe_head(head, len(maps), off)}"
    caption = f"{name}{which}: {describe(trace, kind, rows, measure)}"
    return MapView(matrix, names.rows, names.columns, names.sinks, caption, names.sink_rows)


def _by_word(pieces: MapView, trace: Trace, rows: Rows) -> MapView:
    """Return the map from target words to source words, without EOS (merged by `alignment.links.word_map`)."""
    row_labels, columns = tuple(trace.target.text.split()), tuple(trace.source.text.split())
    num_words = len(columns), len(row_labels)
    by_word = word_map(pieces.matrix, trace.source.words, trace.target.words, rows, num_words)
    caption = f"{pieces.caption} By word, EOS left out: summed over a source word's pieces, mean over a target word's."
    sink_rows, sinks = tuple(map(_is_sink, row_labels)), tuple(map(_is_sink, columns))
    matrix, outside = by_word.words.astype(np.float32), by_word.eos.astype(np.float32)
    return MapView(matrix, row_labels, columns, sinks, caption, sink_rows, outside)


@dataclass(frozen=True)
class MapChoice:
    """The choice of one map in a trace, with display options."""

    kind: Kind = "cross"
    layer: int = -1
    head: Head = "mean"
    rows: Rows = "written"
    measure: Measure = "attention"
    by_word: bool = False
    """Merge subword tokens into words (cross-attention only)."""
    hide_sinks: bool = False
    reason: str = ""
    """The reason for the choice if the user did not choose a map."""

    def view(self, trace: Trace) -> MapView:
        """Return the map, with the sink share in the caption."""
        shown = view(trace, self.layer, self.head, kind=self.kind, rows=self.rows, measure=self.measure)
        shown = shown.with_sink_share()
        shown = _by_word(shown, trace, self.rows) if self.by_word else shown
        return shown.without_sinks() if self.hide_sinks else shown

    def name(self, trace: Trace) -> str:
        """Return the qualified name of the map's attention."""
        return trace.names(self.kind)[self.layer]

    def alignment_head(self, trace: Trace) -> AlignmentHead:
        """Return the alignment head that this map shows."""
        head = None if self.head == "mean" else self.head
        return AlignmentHead(layer=self.name(trace), head=head, rows=self.rows, measure=self.measure)


def choose(
    trace: Trace,
    kind: Kind = "cross",
    layer: int | None = None,
    head: Head | None = None,
    rows: Rows | None = None,
    measure: Measure | None = None,
) -> MapChoice:
    """Choose a map by layer and head; without either, choose the model's alignment head or, if unknown, a guess.

    `head` alone selects that head of the last layer; `layer` alone selects the mean over the layer's heads.
    """
    if layer is not None or head is not None:
        last = -1 if layer is None else layer
        return MapChoice(kind, last, "mean" if head is None else head, rows or "written", measure or "attention")
    names = trace.names("cross")
    if kind == "cross" and trace.alignment_heads:
        first = trace.alignment_heads[0]
        if first.layer not in names:
            known = ", ".join(names) or "none"
            raise ValueError(f"the alignment head is in {first.layer!r}, but the model has {known}: give a layer")
        count = len(trace.alignment_heads)
        reason = f"{f'the first of the {count} heads' if count > 1 else 'the head'} that this model aligns by"
        index, head = names.index(first.layer), "mean" if first.head is None else first.head
        return MapChoice("cross", index, head, rows or first.rows, measure or first.measure, reason=reason)
    layer = names.index(guess_head(names).layer) if kind == "cross" and names else -1
    is_guess = kind == "cross" and sum(len(trace.attention[name]) for name in names) > 1
    reason = f"no alignment head is known for this model: this is a guess, the mean of layer {layer}" * is_guess
    return MapChoice(kind, layer, "mean", rows or "written", measure or "attention", reason=reason)


class MapLabels(NamedTuple):
    """The row and column labels of a map, and flags for special tokens and punctuation (sinks)."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    sinks: tuple[bool, ...]
    sink_rows: tuple[bool, ...]


def labels(trace: Trace, kind: Kind, rows: Rows) -> MapLabels:
    """Return the row and column labels for maps of one kind of attention."""
    source, written = _spell(trace.source), _spell(trace.target)
    read = (BEGIN, *written[:-1])
    columns = read if kind == "decoder" else source
    row_labels = source if kind == "encoder" else written if rows == "written" else read
    marks = {label for label, word in zip(source, trace.source.words, strict=True) if word < 0}  # EOS, language tag
    column_ends = {BEGIN} if kind == "decoder" else marks
    row_ends = {BEGIN, *marks, trace.target.pieces[-1]}
    sinks = tuple(label in column_ends or _is_sink(label) for label in columns)
    return MapLabels(row_labels, columns, sinks, tuple(label in row_ends or _is_sink(label) for label in row_labels))


def describe(trace: Trace, kind: Kind, rows: Rows, measure: Measure) -> str:
    """Return the end of a caption: the measure, the meaning of a row, and the model."""
    row = LOOKING if kind == "encoder" else ROWS[rows]
    return f"{MEASURES[measure]}; {row}; {provenance(trace, kind)}. {CAVEAT} {ANECDOTE}"


def heads_off(trace: Trace, name: str) -> tuple[int, ...]:
    """Return the heads of an attention that an intervention switched off."""
    return tuple(np.flatnonzero(~trace.attention[name].any(axis=(1, 2))).tolist()) if trace.interventions else ()


def provenance(trace: Trace, kind: Kind = "cross") -> str:
    """Return a caption with the model, the interventions and, except for the encoder, the target's origin."""
    model = f"model {trace.model.sha256[:12]}" if trace.model.sha256 else "a model that was never saved"
    changes = f", changed on purpose: {describe_interventions(trace.interventions)}" if trace.interventions else ""
    mode = "" if kind == "encoder" else f"{target_mode(trace)}; "
    return f"{mode}{model}{changes}"


def target_mode(trace: Trace) -> str:
    """Return how the target came about: chosen by the model, chosen after a given beginning, or given."""
    if not trace.free:
        return "forced (teacher forcing)"
    tokens = f"{trace.num_forced} forced token{'s' * (trace.num_forced > 1)}"
    return f"free-running after {tokens}" if trace.num_forced else "free-running"


def maps_of(trace: Trace, measure: Measure) -> dict[str, np.ndarray]:
    """Return all maps [heads, rows, columns] by name; raise ValueError if the trace lacks this measure."""
    maps = dict(trace.attention if measure == "attention" else trace.norms)
    if not maps:
        raise ValueError(f"this trace has no {MEASURES[measure]}: choose another measure, or trace the sentence again")
    return maps


def single_bytes(tokens: Tokens) -> list[int]:
    """Return the indices of byte tokens, which encode characters that the vocabulary lacks."""
    return [i for i, piece in enumerate(tokens.pieces) if _BYTE.fullmatch(piece)]


def check_names(kind: object, rows: object = "written", measure: object = "attention", head: object = 0) -> None:
    """Raise ValueError for an unknown kind, row convention, measure or head."""
    for name, value, known in (("kind", kind, KINDS), ("rows", rows, ROWS), ("measure", measure, MEASURES)):
        if value not in known:
            raise ValueError(f"unknown {name} {value!r}: choose {' or '.join(map(repr, known))}")
    if head != "mean" and not isinstance(head, int | np.integer):
        raise ValueError(f"unknown head {head!r}: give a number from 0, or 'mean'")


def _spell(tokens: Tokens) -> tuple[str, ...]:
    """Return the subwords; the first byte token of a character is prefixed with that character."""
    pieces = list(tokens.pieces)
    for i in single_bytes(tokens):
        if i == 0 or tokens.spans[i] != tokens.spans[i - 1]:
            pieces[i] = f"{tokens.text[slice(*tokens.spans[i])].strip()}{pieces[i]}"
    return tuple(pieces)


def _layer(trace: Trace, kind: Kind, layer: int) -> str:
    names = trace.names(kind)
    if not names:
        raise ValueError(f"this model has no {kind} attention ({KINDS[kind]}): choose another kind")
    if not -len(names) <= layer < len(names):
        raise ValueError(f"there is no layer {layer}: choose 0 to {len(names) - 1}, or -1 for the last")
    return names[layer]


def _describe_head(head: Head, num_heads: int, off: tuple[int, ...]) -> str:
    if num_heads == 1 or (head == "mean" and len(off) == num_heads):
        every = "its only head" if num_heads == 1 else f"all {num_heads} heads"
        return f"{every}{', off' * bool(off)}"
    if head != "mean":
        return f"head {head} of {num_heads}{', off' * (head in off)}"
    if not off:
        return f"mean of {num_heads} heads"
    without = f"head{'s' * (len(off) > 1)} {' and '.join(map(str, off))} off"
    return f"mean of {num_heads - len(off)} of {num_heads} heads, {without}"


def _of_head(maps: np.ndarray, head: Head, off: tuple[int, ...]) -> np.ndarray:
    """Return the map of one head, or the mean over the heads that are not switched off."""
    if head == "mean":
        on = [i for i in range(len(maps)) if i not in off] or [*off]
        return np.asarray(maps[on].astype(np.float32).mean(axis=0))
    if not 0 <= head < len(maps):
        raise ValueError(f"there is no head {head}: choose 0 to {len(maps) - 1}, or the mean")
    return np.asarray(maps[head])


def _name_empty(rows: list[str]) -> str:
    if not rows:
        return ""
    more = f" and {len(rows) - MOST_NAMED} more" * (len(rows) > MOST_NAMED)
    return f" Empty, as less than {LEFT:.0%} of them is left: {', '.join(map(clean, rows[:MOST_NAMED]))}{more}."


def _is_sink(piece: str) -> bool:
    """Return True if a token has only punctuation and SentencePiece's space mark."""
    return all(unicodedata.category(letter).startswith("P") for letter in piece.replace("▁", ""))
