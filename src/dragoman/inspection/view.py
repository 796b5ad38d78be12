"""One attention map chosen from a trace, with the labels of its rows and columns and the caption that says what it is.

Every picture, on paper, in the terminal or on a page, is drawn from a view, so that all of them say the same.
"""

import unicodedata
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from dragoman.data.alignment import Measure, Rows, word_map
from dragoman.inspection.intervention import said
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
CAVEAT: Final = "Where it looked, not why."


@dataclass(frozen=True)
class View:
    """A map to be drawn: row by row, where it looked."""

    matrix: Float[ndarray, "rows columns"]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    sinks: tuple[bool, ...]
    """Which columns are marks and punctuation, where attention that is not needed goes to rest."""
    caption: str

    @property
    def sink_share(self) -> float:
        """How much of the whole map lies on the sinks: 0 to 1."""
        total = float(self.matrix.sum())
        return float(self.matrix[:, list(self.sinks)].sum()) / total if total else 0.0

    def without_sinks(self) -> "View":
        """The sinks hidden, and every row divided by what is left of it; a row with nothing left stays empty."""
        kept = [i for i, sink in enumerate(self.sinks) if not sink]
        left = self.matrix[:, kept]
        total = left.sum(axis=1, keepdims=True)
        return View(
            np.divide(left, total, out=np.zeros_like(left), where=total > 0),
            self.rows,
            tuple(self.columns[i] for i in kept),
            (False,) * len(kept),
            f"{self.caption} Sinks hidden, rows renormalised.",
        )

    def with_sink_share(self) -> "View":
        """The same map, whose caption also says how much of it rests on the sinks."""
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
    matrix = _of_head(maps, head).astype(np.float32)
    which = _which(head, len(maps))
    row_labels, columns, sinks = labels(trace, kind, rows)
    convention = "" if kind == "encoder" else f"{ROWS[rows]}; "
    caption = f"{name}, {which}: {MEASURES[measure]}; {convention}{provenance(trace)}. {CAVEAT}"
    return View(matrix, row_labels, columns, sinks, caption)


def word_view(
    trace: Trace, layer: int = -1, head: Head = "mean", *, rows: Rows = "written", measure: Measure = "attention"
) -> View:
    """The map from target words to source words, without EOS. (data/alignment.py says how pieces become words)."""
    pieces = view(trace, layer, head, rows=rows, measure=measure).with_sink_share()
    merged = word_map(pieces.matrix, trace.source.words, trace.target.words, rows).words
    matrix = np.zeros((len(words(trace.target)), len(words(trace.source))), np.float32)
    # A last word that was cut off has no piece, and so no place in what was merged.
    matrix[: merged.shape[0], : merged.shape[1]] = merged
    columns = words(trace.source)
    caption = f"{pieces.caption} By word, EOS left out: summed over a source word's pieces, mean over a target word's."
    return View(matrix, words(trace.target), columns, tuple(map(_is_sink, columns)), caption)


def words(tokens: Tokens) -> tuple[str, ...]:
    """The words of a text, split at white space, as `Tokens.words` counts them."""
    return tuple(tokens.text.split())


def labels(trace: Trace, kind: Kind, rows: Rows) -> tuple[tuple[str, ...], tuple[str, ...], tuple[bool, ...]]:
    """Of the rows and of the columns, and which columns are sinks."""
    source, written = trace.source.pieces, trace.target.pieces
    read = (BEGIN, *written[:-1])
    columns = read if kind == "decoder" else source
    row_labels = source if kind == "encoder" else written if rows == "written" else read
    marks = {BEGIN} if kind == "decoder" else {source[-1]}
    return row_labels, columns, tuple(column in marks or _is_sink(column) for column in columns)


def provenance(trace: Trace) -> str:
    """Which model, what was done to it, and whether it chose the target itself."""
    model = f"model {trace.model.sha256[:12]}" if trace.model.sha256 else "a model that was never saved"
    changed = f", changed on purpose: {said(trace.interventions)}" if trace.interventions else ""
    return f"{'free-running' if trace.free else 'forced (teacher forcing)'}; {model}{changed}"


def maps_of(trace: Trace, measure: Measure) -> dict[str, np.ndarray]:
    """Every map by its name, [heads, rows, columns]; refused if the trace has none of this measure."""
    maps = dict(trace.attention if measure == "attention" else trace.norms)
    if not maps:
        raise ValueError(
            f"this trace holds no {MEASURES[measure]}; choose another measure, or trace the sentence again"
        )
    return maps


def _layer(trace: Trace, kind: Kind, layer: int) -> str:
    names = trace.names(kind)
    if not names:
        raise ValueError(f"this model has no attention in which {KINDS[kind].replace('looks', 'could look')}")
    if not -len(names) <= layer < len(names):
        raise ValueError(f"there is no layer {layer}: choose 0 to {len(names) - 1}, or -1 for the last")
    return names[layer]


def _which(head: Head, num_heads: int) -> str:
    if num_heads == 1:
        return "its only head"
    return f"mean of {num_heads} heads" if head == "mean" else f"head {head} of {num_heads}"


def _of_head(maps: np.ndarray, head: Head) -> np.ndarray:
    if head == "mean":
        return np.asarray(maps.astype(np.float32).mean(axis=0))
    if not 0 <= head < len(maps):
        raise ValueError(f"there is no head {head}: choose 0 to {len(maps) - 1}, or the mean")
    return np.asarray(maps[head])


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
