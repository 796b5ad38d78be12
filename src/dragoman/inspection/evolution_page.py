"""The evolution of attention in a run as one self-contained HTML file, with a slider over the snapshots."""

import base64
from dataclasses import asdict
from html import escape
from typing import Any, Final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from dragoman.attention.kinds import Kind
from dragoman.inspection.evolution import NUMBERS, ROLES, Evolution, HeadHistory, format_number, headings, snapshot_rows
from dragoman.inspection.html_file import embedded, fill_page, part, table
from dragoman.inspection.labels import clean
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import ANECDOTE, CAVEAT, KINDS, ROWS, labels

CAVEATS: Final = (
    f"{CAVEAT} Attention says where a model looked: not what it took from there (norms are nearer to that), nor what "
    "would have happened otherwise. What is not needed rests on marks and punctuation. In higher layers a position "
    f"holds more than its own token. {ANECDOTE}"
)
MOST_BYTES: Final = 6_000_000
"""The size limit of all maps in a page, in bytes; at least one sentence is included."""


def page(evolution: Evolution, kind: Kind | None = None, sentence: int = 0) -> str:
    """Return the HTML page for one kind of attention, or for all kinds; it opens with the map of `sentence`."""
    data = _data(evolution, kind, sentence)
    return fill_page(
        "evolution.html",
        part("evolution.css"),
        part("evolution.js"),
        title=escape(f"How attention came to be: {clean(evolution.run.absolute().name)}"),
        about=escape(clean(evolution.about)),
        room=f"Maps of {len(data['sentences'])} of {len(evolution.sentences)} sentences are in this page.",
        units=escape(evolution.units),
        caveats=escape(CAVEATS),
        table=_table(evolution, kind),
        data=embedded(data),
    )


def _data(evolution: Evolution, kind: Kind | None, sentence: int) -> dict[str, Any]:
    heads = evolution.heads(kind)
    kinds = [known for known in evolution.kinds if kind in (None, known)]
    return {
        "says": {"kinds": KINDS, "rows": ROWS["written"], "numbers": NUMBERS},
        "about": clean(evolution.about),
        "units": evolution.units,
        "roles": {label: {"letter": letter, "colour": colour} for label, (letter, colour) in ROLES.items()},
        "moments": [{"name": str(snapshot), **snapshot.model_dump()} for snapshot in evolution.snapshots],
        "kept": evolution.kept,
        "heads": [_head(history) for history in heads],
        "first": {known: heads.index(evolution.standout(known)) for known in kinds},
        "sentences": _sentences(evolution, kinds, heads, sentence),
    }


def _head(history: HeadHistory) -> dict[str, Any]:
    numbers: dict[str, list[float | None]] = {
        number: [None if value is None else round(value, 4) for value in history.numbers(number)] for number in NUMBERS
    }
    return {**asdict(history), "attention": history.name, "name": str(history), **numbers}


def _sentences(evolution: Evolution, kinds: list[Kind], heads: list[HeadHistory], first: int) -> list[dict[str, Any]]:
    """Return the sentences that fit into `MOST_BYTES`, beginning with sentence `first`."""
    names = list(dict.fromkeys(history.name for history in heads))
    sentences, left = list[dict[str, Any]](), MOST_BYTES
    for number in sorted(range(len(evolution.sentences)), key=lambda number: number != first):
        traces = evolution.traces(number)
        left -= sum(trace.attention[name].size for trace in traces for name in names)
        if sentences and left < 0:
            break
        sentences.append(_sentence(number, traces, kinds, names))
    return sentences


def _sentence(number: int, traces: list[Trace], kinds: list[Kind], names: list[str]) -> dict[str, Any]:
    first = traces[0]
    return {
        "number": number + 1,
        "source": clean(first.source.text),
        "target": clean(first.target.text),
        "labels": {kind: _labels(first, kind) for kind in kinds},
        "maps": {name: [_bytes(trace.attention[name]) for trace in traces] for name in names},
    }


def _labels(trace: Trace, kind: Kind) -> dict[str, list[str]]:
    names = labels(trace, kind, "written")
    return {"rows": [clean(label) for label in names.rows], "columns": [clean(label) for label in names.columns]}


def _bytes(weights: Float[ndarray, "heads rows keys"]) -> str:
    """Return the weights in base64, one byte per weight in units of 1/255."""
    return base64.b64encode(np.rint(weights * 255).clip(0, 255).astype(np.uint8).tobytes()).decode("ascii")


def _table(evolution: Evolution, kind: Kind | None) -> str:
    """Return the evolution as an HTML table, which is readable without scripts."""
    rows = snapshot_rows(evolution, kind)
    cells = [
        [
            f"{row.snapshot}{', kept' if row.is_kept else ''}",
            format_number(row.snapshot.bleu),
            format_number(row.entropy),
            f"{row.head}: {format_number(row.value)}",
            *map(str, row.roles.values()),
        ]
        for row in rows
    ]
    return table([*filter(None, headings(rows)[:5]), *rows[0].roles], cells)
