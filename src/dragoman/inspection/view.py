"""One attention map chosen from a trace, with the labels of its rows and columns and the caption that says what it is.

Every picture, on paper, in the terminal or on a page, is drawn from a view, so that all of them say the same.
"""

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from dragoman.data.alignment import Measure, Rows, word_map
from dragoman.inspection.intervention import said
from dragoman.inspection.labels import clean
from dragoman.inspection.trace import Kind, Tokens, Trace

Head = int | Literal["mean"]

BEGIN: Final = "<s>"
"""What the decoder reads in its first step."""

KINDS: Final[dict[Kind, str]] = {
    "cross": "target looks at source",
    "encoder": "source looks at source",
    "decoder": "target looks at what was written",
}
MEASURES: Final[dict[Measure, str]] = {
    "attention": "attention weights",
    "norm": "norms of the weighted, transformed values (Kobayashi et al., 2020)",
}
ROWS: Final[dict[Rows, str]] = {
    "written": "a row is the token being written",
    "read": "a row is the token just read",
}
LOOKING: Final = "a row is the source token that looks"
"""What a row is in the encoder, where nothing is written or read."""
CAVEAT: Final = "Where it looked, not why."
ANECDOTE: Final = "One sentence is an anecdote."

LEFT: Final = 0.2
"""With the sinks hidden, a row of which less than this is left says nothing: it would be blown up."""
_BYTE: Final = re.compile("<0x[0-9A-F]{2}>")
_NAMED: Final = 6
"""So many rows are named in a caption."""


@dataclass(frozen=True)
class View:
    """A map to be drawn: row by row, where it looked."""

    matrix: Float[ndarray, "rows columns"]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    sinks: tuple[bool, ...]
    """Which columns are marks and punctuation, where attention that is not needed goes to rest."""
    caption: str
    marks: tuple[bool, ...] = ()
    """Which rows are marks and punctuation; left out, none is."""
    beside: Float[ndarray, " rows"] | None = None
    """What each row gave to what has no column."""
    emptied: tuple[int, ...] = ()
    """Rows of which too little was left to be shown."""

    @property
    def sink_share(self) -> float:
        """How much of the whole map lies on the sinks: 0 to 1."""
        total = float(self.matrix.sum())
        return float(self.matrix[:, list(self.sinks)].sum()) / total if total else 0.0

    def without_sinks(self) -> "View":
        """The sinks hidden, rows and columns, and every row divided by what is left of it. A row with too little left
        stays empty, and the caption names it.
        """
        marks = self.marks or (False,) * len(self.rows)
        rows, columns = ([i for i, hidden in enumerate(those) if not hidden] for those in (marks, self.sinks))
        left = self.matrix[np.ix_(rows, columns)]
        total = left.sum(axis=1)
        whole = self.matrix[rows].sum(axis=1) + (0 if self.beside is None else self.beside[rows])
        shown = (total > 0) & (total >= LEFT * whole)
        if not shown.any():
            raise ValueError(
                f"without marks and punctuation less than {LEFT:.0%} of every row is left, and there is nothing to "
                "draw: leave out --hide-sinks"
            )
        labels, empty = tuple(self.rows[i] for i in rows), tuple(np.flatnonzero(~shown).tolist())
        return View(
            np.divide(left, total[:, None], out=np.zeros_like(left), where=shown[:, None]),
            labels,
            tuple(self.columns[i] for i in columns),
            (False,) * len(columns),
            f"{self.caption} Sinks hidden, as rows too; rows renormalised.{_said_empty([labels[i] for i in empty])}",
            emptied=empty,
        )

    def with_sink_share(self) -> "View":
        """The same map, whose caption also says how much of it rests on the sinks; of nothing, it says nothing."""
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
) -> View:
    """One map of a trace. Layers and heads are counted from 0, as in the names; a layer of -1 is the last one."""
    refuse_unknown(kind, rows, measure, head)
    name = _layer(trace, kind, layer)
    maps = maps_of(trace, measure)[name]
    off = heads_off(trace, name)
    matrix = _of_head(maps, head, off).astype(np.float32)
    which = _which(head, len(maps), off)
    row_labels, columns, sinks = labels(trace, kind, rows)
    about = f"{row_is(kind, rows)}; {provenance(trace, kind)}. {CAVEAT} {ANECDOTE}"
    return View(
        matrix, row_labels, columns, sinks, f"{name}, {which}: {MEASURES[measure]}; {about}", marks(trace, kind, rows)
    )


def word_view(
    trace: Trace, layer: int = -1, head: Head = "mean", *, rows: Rows = "written", measure: Measure = "attention"
) -> View:
    """The map from target words to source words, without EOS. (data/alignment.py says how pieces become words)."""
    pieces = view(trace, layer, head, rows=rows, measure=measure).with_sink_share()
    given = word_map(pieces.matrix, trace.source.words, trace.target.words, rows)
    labels, columns = words(trace.target), words(trace.source)
    matrix, eos = np.zeros((len(labels), len(columns)), np.float32), np.zeros(len(labels), np.float32)
    # A last word that was cut off has no piece, and so no place in what was merged.
    matrix[: given.words.shape[0], : given.words.shape[1]] = given.words
    eos[: len(given.eos)] = given.eos
    caption = f"{pieces.caption} By word, EOS left out: summed over a source word's pieces, mean over a target word's."
    marked, sinks = tuple(map(_is_sink, labels)), tuple(map(_is_sink, columns))
    return View(matrix, labels, columns, sinks, caption, marked, eos)


def words(tokens: Tokens) -> tuple[str, ...]:
    """The words of a text, split at white space, as `Tokens.words` counts them."""
    return tuple(tokens.text.split())


def labels(trace: Trace, kind: Kind, rows: Rows) -> tuple[tuple[str, ...], tuple[str, ...], tuple[bool, ...]]:
    """Of the rows and of the columns, and which columns are sinks."""
    source, written = _spelled(trace.source), _spelled(trace.target)
    read = (BEGIN, *written[:-1])
    columns = read if kind == "decoder" else source
    row_labels = source if kind == "encoder" else written if rows == "written" else read
    ends = {BEGIN} if kind == "decoder" else {source[-1]}
    return row_labels, columns, tuple(column in ends or _is_sink(column) for column in columns)


def marks(trace: Trace, kind: Kind, rows: Rows) -> tuple[bool, ...]:
    """Which rows are marks and punctuation."""
    ends = {BEGIN, trace.source.pieces[-1], trace.target.pieces[-1]}
    return tuple(label in ends or _is_sink(label) for label in labels(trace, kind, rows)[0])


def row_is(kind: Kind, rows: Rows) -> str:
    """What a row of such a map stands for."""
    return LOOKING if kind == "encoder" else ROWS[rows]


def heads_off(trace: Trace, name: str) -> tuple[int, ...]:
    """The heads of an attention that were switched off on purpose: they look nowhere."""
    return tuple(np.flatnonzero(~trace.attention[name].any(axis=(1, 2))).tolist()) if trace.interventions else ()


def provenance(trace: Trace, kind: Kind = "cross") -> str:
    """Which model, what was done to it, and whether it chose the target itself: nothing to the encoder."""
    model = f"model {trace.model.sha256[:12]}" if trace.model.sha256 else "a model that was never saved"
    changed = f", changed on purpose: {said(trace.interventions)}" if trace.interventions else ""
    chosen = "" if kind == "encoder" else f"{'free-running' if trace.free else 'forced (teacher forcing)'}; "
    return f"{chosen}{model}{changed}"


def maps_of(trace: Trace, measure: Measure) -> dict[str, np.ndarray]:
    """Every map by its name, [heads, rows, columns]; refused if the trace has none of this measure."""
    maps = dict(trace.attention if measure == "attention" else trace.norms)
    if not maps:
        raise ValueError(
            f"this trace holds no {MEASURES[measure]}; choose another measure, or trace the sentence again"
        )
    return maps


def single_bytes(tokens: Tokens) -> list[int]:
    """The pieces that are one byte of a letter that the vocabulary does not have."""
    return [i for i, piece in enumerate(tokens.pieces) if _BYTE.fullmatch(piece)]


def _spelled(tokens: Tokens) -> tuple[str, ...]:
    """The pieces; the first byte of a letter has the letter before it, for nobody reads bytes."""
    shown = list(tokens.pieces)
    for i in single_bytes(tokens):
        if i == 0 or tokens.spans[i] != tokens.spans[i - 1]:
            shown[i] = f"{tokens.text[slice(*tokens.spans[i])].strip()}{shown[i]}"
    return tuple(shown)


def _layer(trace: Trace, kind: Kind, layer: int) -> str:
    names = trace.names(kind)
    if not names:
        raise ValueError(f"this model has no attention in which {KINDS[kind].replace('looks', 'could look')}")
    if not -len(names) <= layer < len(names):
        raise ValueError(f"there is no layer {layer}: choose 0 to {len(names) - 1}, or -1 for the last")
    return names[layer]


def _which(head: Head, num_heads: int, off: tuple[int, ...]) -> str:
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
    """The mean is of those that are on: what is off would make of each row less than a whole."""
    if head == "mean":
        on = [i for i in range(len(maps)) if i not in off] or [*off]
        return np.asarray(maps[on].astype(np.float32).mean(axis=0))
    if not 0 <= head < len(maps):
        raise ValueError(f"there is no head {head}: choose 0 to {len(maps) - 1}, or the mean")
    return np.asarray(maps[head])


def _said_empty(rows: list[str]) -> str:
    if not rows:
        return ""
    more = f" and {len(rows) - _NAMED} more" * (len(rows) > _NAMED)
    return f" Empty, as less than {LEFT:.0%} of them is left: {', '.join(map(clean, rows[:_NAMED]))}{more}."


def _is_sink(piece: str) -> bool:
    """Nothing but punctuation and SentencePiece's mark of a space."""
    return all(unicodedata.category(letter).startswith("P") for letter in piece.replace("▁", ""))


def refuse_unknown(kind: object, rows: object = "written", measure: object = "attention", head: object = 0) -> None:
    """Names that were mistyped, in the words of the command line."""
    for name, value, known in (("kind", kind, KINDS), ("rows", rows, ROWS), ("measure", measure, MEASURES)):
        if value not in known:
            raise ValueError(f"{name} {value!r}: choose {' or '.join(map(repr, known))}")
    if head != "mean" and not isinstance(head, int | np.integer):
        raise ValueError(f"head {head!r}: give its number, from 0, or 'mean'")
