"""A trace as one self-contained HTML file with all attention maps, usable by mouse, keyboard and screen reader."""

import base64
from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from typing import Any, Final

import numpy as np

from dragoman.alignment.tokens import Tokens
from dragoman.attention.kinds import Kind, kind_of
from dragoman.inspection import view
from dragoman.inspection.html_file import embedded, fill_page, part, table
from dragoman.inspection.labels import clean
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import ANECDOTE, CAVEAT, KINDS, MEASURES, ROWS, MapChoice, MapView

CAVEATS: Final = (
    f"{CAVEAT} Attention says where a model looked: not what it took from there (norms are nearer to that), nor what "
    "would have happened otherwise. What is not needed rests on marks and punctuation. In higher layers a position "
    f"holds more than its own token. {ANECDOTE}"
)


def page(trace: Trace, choice: MapChoice | None = None, notes: Mapping[str, str] | None = None, note: str = "") -> str:
    """Return the HTML page of a trace, which opens with the chosen map.

    `notes` are listed above the map by name; `note` is HTML that is inserted as given.
    """
    first = choice or _first(trace)
    shown = view.view(trace, first.layer, first.head, kind=first.kind, rows=first.rows, measure=first.measure)
    return fill_page(
        "page.html",
        part("page.css"),
        part("drawing.js", "page.js"),
        title=escape(f"Where the model looked: {clean(trace.source.text)}"),
        source=escape(clean(trace.source.text)),
        target=escape(clean(trace.target.text)),
        notes="".join(_note(name, text) for name, text in (notes or {}).items()),
        provenance=escape(view.provenance(trace)),
        note=note,
        caveats=escape(CAVEATS),
        caption=escape(shown.caption),
        sinks=f"{shown.sink_share:.0%} of it rests on sinks (marks and punctuation).",
        table=map_table(shown),
        data=embedded({"first": _opening(trace, first), **_data(trace)}),
    )


def _note(name: str, text: str) -> str:
    return f'<dt>{escape(name.capitalize())}</dt><dd dir="auto">{escape(clean(text))}</dd>\n'


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


def _opening(trace: Trace, first: MapChoice) -> dict[str, Any]:
    """Return the initial state of the page's controls."""
    layer = range(len(trace.names(first.kind)))[first.layer]
    return {**asdict(first), "layer": layer, "hide": first.hide_sinks, "words": first.by_word}


def _data(trace: Trace) -> dict[str, Any]:
    present: list[Kind] = [kind for kind in KINDS if trace.names(kind)]
    return {
        "says": {"kinds": KINDS, "measures": MEASURES, "rows": ROWS, "caveat": f"{CAVEAT} {ANECDOTE}"},
        "norm": "norm, a length without a unit: compare it within one map",
        "looking": view.LOOKING,
        "provenance": view.provenance(trace),
        "encoder": view.provenance(trace, "encoder"),
        "left": view.LEFT,
        "source": _words(trace.source),
        "target": _words(trace.target),
        "labels": {kind: _labels(trace, kind) for kind in present},
        "maps": [_map(trace, name) for kind in present for name in trace.names(kind)],
    }


def _words(tokens: Tokens) -> dict[str, Any]:
    return {"words": [clean(word) for word in tokens.text.split()], "of": tokens.words}


def _labels(trace: Trace, kind: Kind) -> dict[str, Any]:
    by_rows = {rows: view.labels(trace, kind, rows) for rows in ROWS}
    written = by_rows["written"]
    return {
        "rows": {rows: [clean(label) for label in names.rows] for rows, names in by_rows.items()},
        "marks": {rows: names.sink_rows for rows, names in by_rows.items()},
        "columns": [clean(label) for label in written.columns],
        "sinks": written.sinks,
    }


def _map(trace: Trace, name: str) -> dict[str, Any]:
    heads, rows, columns = trace.attention[name].shape
    shown = {"name": name, "kind": kind_of(name), "heads": heads, "rows": rows, "columns": columns}
    shown |= {"off": view.heads_off(trace, name), "attention": _packed(trace.attention[name])}
    return shown | ({"norm": _packed(trace.norms[name])} if name in trace.norms else {})


def _packed(values: np.ndarray) -> dict[str, Any]:
    """Return the values as 16-bit fractions of the largest, in base64; plain JSON would be six times as long."""
    largest = float(values.max(initial=0))
    whole = np.round(values.astype(np.float64) * (65535 / largest if largest else 0)).astype("<u2")
    return {"largest": largest, "base64": base64.b64encode(whole.tobytes()).decode("ascii")}
