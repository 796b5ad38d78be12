"""Which map of a trace is meant: what was asked for and, where nothing was, the head that the model aligns by."""

from dataclasses import dataclass

from dragoman.data.alignment import AlignmentHead, Measure, Rows
from dragoman.inspection.alignment_heads import best_guess
from dragoman.inspection.trace import Kind, Trace
from dragoman.inspection.view import Head, View, view, word_view


@dataclass(frozen=True)
class Choice:
    """One map, and how it is to be shown."""

    kind: Kind
    layer: int
    head: Head
    rows: Rows
    measure: Measure
    by_word: bool = False
    """Pieces merged to words; of cross-attention only."""
    hide_sinks: bool = False
    reason: str = ""
    """Why this one, if it was not asked for."""

    def view(self, trace: Trace) -> View:
        """The map, whose caption also says how much of it rests on the sinks."""
        if self.by_word:
            seen = word_view(trace, self.layer, self.head, rows=self.rows, measure=self.measure)
        else:
            seen = view(trace, self.layer, self.head, kind=self.kind, rows=self.rows, measure=self.measure)
            seen = seen.with_sink_share()
        return seen.without_sinks() if self.hide_sinks else seen

    def name(self, trace: Trace) -> str:
        """The qualified name of its attention."""
        return trace.names(self.kind)[self.layer]

    def alignment_head(self, trace: Trace) -> AlignmentHead:
        """Where links are read from if this map is to give them."""
        head = None if self.head == "mean" else self.head
        return AlignmentHead(layer=self.name(trace), head=head, rows=self.rows, measure=self.measure)


def choose(
    trace: Trace,
    kind: Kind = "cross",
    layer: int | None = None,
    head: Head | None = None,
    rows: Rows | None = None,
    measure: Measure | None = None,
) -> Choice:
    """What is left out is, if neither layer nor head is named, as the model's alignment head has it, or the best guess
    at one; else the last layer, the mean of its heads, rows as they are written, and the weights as they are.
    """
    if layer is not None or head is not None:
        last = -1 if layer is None else layer
        return Choice(kind, last, "mean" if head is None else head, rows or "written", measure or "attention")
    if kind == "cross" and trace.alignment_heads:
        return _aligning(trace, rows, measure)
    names = trace.names("cross")
    layer = names.index(best_guess(names).layer) if kind == "cross" and names else -1
    several = kind == "cross" and sum(len(trace.attention[name]) for name in names) > 1
    unknown = f"no alignment head is known for this model: this is a guess, the mean of layer {layer}"
    return Choice(kind, layer, "mean", rows or "written", measure or "attention", reason=unknown * several)


def _aligning(trace: Trace, rows: Rows | None, measure: Measure | None) -> Choice:
    heads, names = trace.alignment_heads, trace.names("cross")
    first = heads[0]
    if first.layer not in names:
        known = ", ".join(names) or "none"
        raise ValueError(f"the bundle aligns by {first.layer!r}, but the model has: {known}; name a layer and a head")
    several = f"the first of the {len(heads)} heads" if len(heads) > 1 else "the head"
    return Choice(
        "cross",
        names.index(first.layer),
        "mean" if first.head is None else first.head,
        rows or first.rows,
        measure or first.measure,
        reason=f"{several} that this model aligns by",
    )
