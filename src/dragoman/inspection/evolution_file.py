"""The evolution of attention in a run as one self-contained HTML file: the studio's viewer with a slider over time."""

import base64
from dataclasses import replace
from html import escape
from typing import Any, Final

from dragoman.attention.kinds import Kind
from dragoman.inspection.evolution import Evolution, HeadHistory, format_number, headings, snapshot_rows
from dragoman.inspection.html_file import embedded, table, viewer_page
from dragoman.inspection.labels import clean
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import CAVEAT

MOST_BYTES: Final = 6_000_000
"""The size limit of all traces in a file, in bytes; at least one sentence is included."""


def evolution_page(
    evolution: Evolution, kind: Kind | None = None, sentence: int = 0, head: HeadHistory | None = None
) -> str:
    """Return the HTML page for one kind of attention, or for all kinds.

    It opens with the map of `head` in `sentence`, by default the head that stands out.
    """
    return viewer_page(
        "evolution",
        "dragoman-evolution",
        embedded(_data(evolution, kind, sentence, head)),
        heading="How attention came to be",
        title=escape(f"How attention came to be: {clean(evolution.run.absolute().name)}"),
        note=f"<p>{escape(clean(evolution.about))}.</p>\n",
        unscripted=f"<p>Scripts are switched off: these are the numbers alone. {CAVEAT}</p>\n{_table(evolution, kind)}",
    )


def _data(evolution: Evolution, kind: Kind | None, sentence: int, head: HeadHistory | None) -> dict[str, Any]:
    """Return what the viewer reads: `EvolutionFile` in studio/src/evolution.ts."""
    heads = evolution.heads(kind)
    first = head or evolution.standout(heads[0].kind)
    names = {history.name for history in heads}
    info = evolution.info.model_copy(update={"heads": tuple(heads)})
    return {
        "evolution": info.model_dump(mode="json"),
        "choice": {"kind": first.kind, "layer": first.layer, "head": first.head},
        "traces": _traces(evolution, names, sentence),
    }


def _traces(evolution: Evolution, names: set[str], first: int) -> list[dict[str, Any]]:
    """Return the traces of the sentences that fit into `MOST_BYTES`, beginning with sentence `first`."""
    found, left = list[dict[str, Any]](), MOST_BYTES
    for number in sorted(range(len(evolution.sentences)), key=lambda number: number != first):
        files = [_bytes(trace, names) for trace in evolution.traces(number)]
        left -= sum(map(len, files))
        if found and left < 0:
            break
        found.append({"sentence": number, "files": [base64.b64encode(file).decode("ascii") for file in files]})
    return found


def _bytes(trace: Trace, names: set[str]) -> bytes:
    attention = {name: weights for name, weights in trace.attention.items() if name in names}
    return replace(trace, attention=attention, norms={}).to_bytes(is_compact=True)


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
