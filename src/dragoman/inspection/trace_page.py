"""A trace as one self-contained HTML file: the studio's viewer, its style and the trace, for any browser, offline."""

import base64
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from typing import Any, Final

from dragoman.inspection import view
from dragoman.inspection.cell import CellExplanation
from dragoman.inspection.heads import summarise_heads
from dragoman.inspection.html_file import embedded, table, viewer_page
from dragoman.inspection.labels import clean
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import KINDS, MapChoice, MapView

_ROLE: Final = {"name", "head", "label", "evidence", "entropy", "sink_share"}
"""The fields of a head's summary that the viewer shows."""


def trace_page(
    trace: Trace,
    choice: MapChoice | None = None,
    notes: Mapping[str, str] | None = None,
    note: str = "",
    *,
    cell: CellExplanation | None = None,
    printed: str = "",
) -> str:
    """Return the HTML page of a trace, which opens with the chosen map or, if given, with the arithmetic of a cell.

    `notes` are listed below the translation by name; `note` is HTML that is inserted as given. `printed` is the text of
    the arithmetic for browsers without scripts.
    """
    first = choice or _first(trace)
    notes = notes or {}
    lines = [trace.source.text, trace.target.text, *(f"{name}: {text}" for name, text in notes.items())]
    texts = "".join(f'<p dir="auto">{escape(clean(line))}</p>\n' for line in lines)
    advice = "<p>Scripts are switched off: this is one map; the others need scripts to be drawn.</p>\n"
    return viewer_page(
        "parts" if cell is None else "explain",
        "dragoman-trace" if cell is None else "dragoman-explanation",
        embedded(_data(trace, first, notes) | ({} if cell is None else {"cell": cell.model_dump()})),
        heading="Where the model looked",
        title=escape(f"Where the model looked: {clean(trace.source.text)}" if cell is None else cell.title),
        note=note,
        unscripted=advice + texts + map_table(first.view(trace)) + (f"<pre>{escape(printed)}</pre>" if printed else ""),
    )


def map_table(shown: MapView) -> str:
    """Return the numbers of a map as an HTML table."""
    numbers = zip(shown.rows, shown.matrix.tolist(), strict=True)
    rows = ([label, *(f"{value:.3f}" for value in row)] for label, row in numbers)
    return table(["", *shown.columns], rows, shown.caption)


def _first(trace: Trace) -> MapChoice:
    """Choose the map of the alignment head if the trace has that map; otherwise the map of the last layer."""
    kind = next(kind for kind in KINDS if trace.names(kind))
    heads = trace.alignment_heads[:1] if kind == "cross" else ()
    has_map = any(head.layer in (trace.norms if head.measure == "norm" else trace.attention) for head in heads)
    return view.choose(trace, kind) if has_map else view.choose(trace, kind, layer=-1)


def _data(trace: Trace, first: MapChoice, notes: Mapping[str, str]) -> dict[str, Any]:
    """Return what the viewer reads: `ViewerOptions` in studio/src/parts.ts, and the trace file in base64."""
    return {
        "choice": {
            "kind": first.kind,
            "layer": range(len(trace.names(first.kind)))[first.layer],
            "head": first.head,
            "rows": first.rows,
            "measure": first.measure,
            "byWord": first.by_word,
            "hideSinks": first.hide_sinks,
        },
        "roles": [summary.model_dump(include=_ROLE) for summary in summarise_heads([trace])],
        "notes": dict(notes),
        "trace": base64.b64encode(replace(trace, vectors={}).to_bytes()).decode("ascii"),
    }
