"""A trace as one HTML file that needs no network: every map to choose from, by mouse, keyboard and screen reader."""

import base64
from collections.abc import Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Final

import numpy as np

from dragoman.data.alignment import Measure
from dragoman.inspection.choice import Choice, choose
from dragoman.inspection.html_file import allowed, embedded, part, save_text
from dragoman.inspection.labels import clean
from dragoman.inspection.trace import Kind, Tokens, Trace, kind_of
from dragoman.inspection.view import (
    ANECDOTE,
    CAVEAT,
    KINDS,
    LEFT,
    LOOKING,
    MEASURES,
    ROWS,
    View,
    heads_off,
    labels,
    marks,
    provenance,
    view,
    words,
)

CAVEATS: Final = (
    f"{CAVEAT} Attention says where a model looked: not what it took from there (norms are nearer to that), nor what "
    "would have happened otherwise. What is not needed rests on marks and punctuation. In higher layers a position "
    f"holds more than its own token. {ANECDOTE}"
)

NORM: Final = "norm, a length without a unit: compare it within one map"


def page(trace: Trace, choice: Choice | None = None, notes: Mapping[str, str] | None = None, note: str = "") -> str:
    """The whole file, which opens on the map that was chosen, and says by name what else is to be known.

    What may run is fixed by the hash of our own script: no token can become one. `note` is HTML.
    """
    style, script = part("page.css"), part("drawing.js", "page.js")
    first = choice or _first(trace)
    shown = view(trace, first.layer, first.head, kind=first.kind, rows=first.rows, measure=first.measure)
    return Template(part("page.html")).substitute(
        title=escape(f"Where the model looked: {clean(trace.source.text)}"),
        style=style,
        style_hash=allowed(style),
        script=script,
        script_hash=allowed(script),
        source=escape(clean(trace.source.text)),
        target=escape(clean(trace.target.text)),
        notes=_notes(notes or {}),
        provenance=escape(provenance(trace)),
        note=note,
        caveats=escape(CAVEATS),
        caption=escape(shown.caption),
        sinks=f"{shown.sink_share:.0%} of it rests on sinks (marks and punctuation).",
        table=table(shown),
        data=embedded({"first": _opening(trace, first), "norm": NORM, **_data(trace)}),
    )


def save_page(
    trace: Trace,
    path: Path | str,
    choice: Choice | None = None,
    notes: Mapping[str, str] | None = None,
    note: str = "",
) -> None:
    """Write it, all at once."""
    save_text(page(trace, choice, notes, note), path)


def table(shown: View) -> str:
    """A map's numbers, for those who cannot see it and for those who want to know exactly."""
    head = "".join(f'<th scope="col" dir="auto">{escape(clean(label))}</th>' for label in shown.columns)
    lines = (
        f'<tr><th scope="row" dir="auto">{escape(clean(label))}</th>'
        + "".join(f"<td>{value:.3f}</td>" for value in row)
        + "</tr>"
        for label, row in zip(shown.rows, shown.matrix.tolist(), strict=True)
    )
    heading = f"<caption>{escape(shown.caption)}</caption><thead><tr><th></th>{head}</tr></thead>"
    return f"<table>{heading}<tbody>{''.join(lines)}</tbody></table>"


def _first(trace: Trace) -> Choice:
    """What is shown if nothing was chosen: the alignment head, if the trace has what it shows; else the last layer."""
    kind = next(kind for kind in KINDS if trace.names(kind))
    heads = trace.alignment_heads[:1] if kind == "cross" else ()
    there = any(head.layer in (trace.norms if head.measure == "norm" else trace.attention) for head in heads)
    return choose(trace, kind) if there else choose(trace, kind, layer=-1)


def _opening(trace: Trace, first: Choice) -> dict[str, Any]:
    """What the page's own choices begin with."""
    layer = range(len(trace.names(first.kind)))[first.layer]
    asked: dict[str, Any] = {"kind": first.kind, "layer": layer, "head": first.head, "rows": first.rows}
    return {**asked, "measure": first.measure, "hide": first.hide_sinks, "words": first.by_word}


def _notes(notes: Mapping[str, str]) -> str:
    return "".join(
        f'<dt>{escape(name.capitalize())}</dt><dd dir="auto">{escape(clean(text))}</dd>\n'
        for name, text in notes.items()
    )


def _data(trace: Trace) -> dict[str, Any]:
    present: list[Kind] = [kind for kind in KINDS if trace.names(kind)]
    return {
        "says": {"kinds": KINDS, "measures": MEASURES, "rows": ROWS, "caveat": f"{CAVEAT} {ANECDOTE}"},
        "looking": LOOKING,
        "provenance": provenance(trace),
        "encoder": provenance(trace, "encoder"),
        "left": LEFT,
        "source": _words(trace.source),
        "target": _words(trace.target),
        "labels": {kind: _labels(trace, kind) for kind in present},
        "maps": [_map(trace, name) for kind in present for name in trace.names(kind)],
    }


def _words(tokens: Tokens) -> dict[str, Any]:
    return {"words": [clean(word) for word in words(tokens)], "of": tokens.words}


def _labels(trace: Trace, kind: Kind) -> dict[str, Any]:
    written, columns, sinks = labels(trace, kind, "written")
    read, _, _ = labels(trace, kind, "read")
    rows = {"written": [clean(label) for label in written], "read": [clean(label) for label in read]}
    marked = {"written": marks(trace, kind, "written"), "read": marks(trace, kind, "read")}
    return {"rows": rows, "marks": marked, "columns": [clean(label) for label in columns], "sinks": sinks}


def _map(trace: Trace, name: str) -> dict[str, Any]:
    heads, rows, columns = trace.attention[name].shape
    measures: dict[Measure, np.ndarray] = {"attention": trace.attention[name]}
    if name in trace.norms:
        measures["norm"] = trace.norms[name]
    packed: dict[str, Any] = {measure: _packed(values) for measure, values in measures.items()}
    shape: dict[str, Any] = {"heads": heads, "off": heads_off(trace, name), "rows": rows, "columns": columns}
    return {"name": name, "kind": kind_of(name), **shape, **packed}


def _packed(values: np.ndarray) -> dict[str, Any]:
    """As 65,536ths of the largest: as text, JSON would be six times as long."""
    largest = float(values.max(initial=0))
    whole = np.round(values.astype(np.float64) * (65535 / largest if largest else 0)).astype("<u2")
    return {"largest": largest, "base64": base64.b64encode(whole.tobytes()).decode("ascii")}
