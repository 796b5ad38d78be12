"""A run's evolution as one HTML file that needs no network: a slider over the moments, and all that moves with it."""

import base64
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from dragoman.inspection.evolution import NUMBERS, ROLES, Course, Evolution
from dragoman.inspection.evolution_table import headings, summary
from dragoman.inspection.html_file import allowed, embedded, part, save_text
from dragoman.inspection.labels import clean
from dragoman.inspection.page import CAVEATS
from dragoman.inspection.trace import Kind, Trace
from dragoman.inspection.view import KINDS, ROWS, labels

MOST_BYTES: Final = 6_000_000
"""Of maps in a page. Sentences that would make it larger are left out, but for the first."""


def page(evolution: Evolution, kind: Kind | None = None, sentence: int = 0) -> str:
    """The whole file, for one kind of attention or for all; it opens with the map of one sentence."""
    style, script = part("page.css", "evolution.css"), part("drawing.js", "evolution.js")
    data = _data(evolution, kind, sentence)
    return Template(part("evolution.html")).substitute(
        title=escape(f"How attention came to be: {clean(evolution.run.absolute().name)}"),
        style=style,
        style_hash=allowed(style),
        script=script,
        script_hash=allowed(script),
        about=escape(clean(evolution.about)),
        room=f"Maps of {len(data['sentences'])} of {len(evolution.sentences)} sentences are in this page.",
        units=escape(evolution.units),
        caveats=escape(CAVEATS),
        table=_table(evolution, kind),
        data=embedded(data),
    )


def save_page(evolution: Evolution, path: Path, kind: Kind | None = None, sentence: int = 0) -> None:
    """Write it, all at once."""
    save_text(page(evolution, kind, sentence), path)


def _data(evolution: Evolution, kind: Kind | None, sentence: int) -> dict[str, Any]:
    heads = evolution.of(kind)
    kinds = [one for one in evolution.kinds if kind in (None, one)]
    return {
        "says": {"kinds": KINDS, "rows": ROWS["written"], "numbers": NUMBERS},
        "about": clean(evolution.about),
        "units": evolution.units,
        "roles": {label: {"letter": letter, "colour": colour} for label, (letter, colour) in ROLES.items()},
        "moments": [{"name": str(moment), **moment.model_dump()} for moment in evolution.moments],
        "kept": evolution.kept,
        "heads": [_head(course) for course in heads],
        "first": {one: heads.index(evolution.telling(one)) for one in kinds},
        "sentences": _sentences(evolution, kinds, heads, sentence),
    }


def _head(course: Course) -> dict[str, Any]:
    series: dict[str, Any] = {number: [_rounded(value) for value in course.numbers(number)] for number in NUMBERS}
    return {
        "attention": course.name,
        "name": str(course),
        "kind": course.kind,
        "head": course.head,
        "label": course.label,
        "evidence": course.evidence,
        **series,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _sentences(evolution: Evolution, kinds: list[Kind], heads: list[Course], first: int) -> list[dict[str, Any]]:
    """As many as have room, beginning with the one that is asked for."""
    names = list(dict.fromkeys(course.name for course in heads))
    others = [number for number in range(len(evolution.sentences)) if number != first]
    found: list[dict[str, Any]] = []
    room = MOST_BYTES
    for number in (first, *others):
        traces = evolution.traces(number)
        room -= sum(trace.attention[name].size for trace in traces for name in names)
        if found and room < 0:
            break
        found.append(_sentence(number, traces, kinds, names))
    return found


def _sentence(number: int, traces: list[Trace], kinds: list[Kind], names: list[str]) -> dict[str, Any]:
    trace = traces[0]
    return {
        "number": number + 1,
        "source": clean(trace.source.text),
        "target": clean(trace.target.text),
        "labels": {kind: _labels(trace, kind) for kind in kinds},
        "maps": {name: [_bytes(one.attention[name]) for one in traces] for name in names},
    }


def _labels(trace: Trace, kind: Kind) -> dict[str, list[str]]:
    rows, columns, _ = labels(trace, kind, "written")
    return {"rows": [clean(label) for label in rows], "columns": [clean(label) for label in columns]}


def _bytes(weights: Float[ndarray, "heads rows keys"]) -> str:
    """In 255ths: a weight to two digits."""
    return base64.b64encode(np.rint(weights * 255).clip(0, 255).astype(np.uint8).tobytes()).decode("ascii")


def _table(evolution: Evolution, kind: Kind | None) -> str:
    """The course in numbers: it is there without scripts too."""
    lines = summary(evolution, kind)
    names = [*filter(None, headings(lines)[:5]), *lines[0].roles]
    rows = [
        [
            f"{line.moment}{', kept' if line.kept else ''}",
            _digits(line.moment.bleu),
            _digits(line.entropy),
            f"{line.head}: {_digits(line.value)}",
            *map(str, line.roles.values()),
        ]
        for line in lines
    ]
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for first, *cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
