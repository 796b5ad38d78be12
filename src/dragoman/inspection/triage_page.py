"""A triage as one HTML file: every flagged sentence, its spans marked, a link to its trace. No script, no network."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Final
from urllib.parse import quote

from dragoman.inspection.flag import Span
from dragoman.inspection.labels import clean
from dragoman.inspection.triage import Triaged, summary

_STYLE: Final = """
body { font: 16px/1.45 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; }
h2 { font-size: 1.05rem; margin: 0 0 .3rem; }
article { border-top: 1px solid #ccc; padding: .8rem 0; break-inside: avoid; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
dt { color: #555; }
dd { margin: 0; overflow-wrap: anywhere; }
mark { background: #ffe08a; text-decoration: underline; }
ul { margin: .4rem 0; overflow-wrap: anywhere; }
.caveat { border-left: 4px solid #b3571e; padding-left: .8rem; }
"""
_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-$style_hash'; \
base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
<h1>$title</h1>
<p>$summary.</p>
<p class="caveat">A flag is a reason to look, not a verdict. What has no flag may be wrong too.</p>
$articles
</main>
</body>
</html>
""")


def report(ranked: Sequence[Triaged], pages: Mapping[int, str] | None = None) -> str:
    """Those with flags, in their order. `pages` has, by number, where the page of a trace is, seen from this file."""
    return _PAGE.substitute(
        title="Translations to look at",
        summary=escape(summary(ranked)),
        style=_STYLE,
        style_hash=base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode("ascii"),
        articles="\n".join(_article(one, (pages or {}).get(one.number)) for one in ranked if one.flags),
    )


def save_report(ranked: Sequence[Triaged], path: Path, pages: Mapping[int, str] | None = None) -> None:
    """Write it, all at once."""
    beside = path.with_name(f".{path.name}.unfinished")
    beside.write_text(report(ranked, pages), encoding="utf-8")
    beside.replace(path)


def marked(text: str, spans: Sequence[Span]) -> str:
    """The text as HTML, the spans marked; where they overlap or touch, they are one."""
    result, reached = "", 0
    for start, end in _joined(spans):
        result += escape(clean(text[reached:start])) + f"<mark>{escape(clean(text[start:end]))}</mark>"
        reached = end
    return result + escape(clean(text[reached:]))


def _article(one: Triaged, page: str | None) -> str:
    source = marked(one.source, [span for flag in one.flags for span in flag.source])
    target = marked(one.target, [span for flag in one.flags for span in flag.target])
    seen = "".join(
        f'<li dir="auto"><strong>{escape(flag.name)}</strong> {flag.severity:.2f}: {escape(clean(flag.evidence))}</li>'
        for flag in one.flags
    )
    link = f'<p><a href="{escape(quote(page))}">Open the trace of line {one.number}</a></p>' if page else ""
    return (
        f'<article><h2>Line {one.number}: severity {one.severity:.2f}</h2><dl><dt>Source</dt><dd dir="auto">{source}'
        f'</dd><dt>Target</dt><dd dir="auto">{target}</dd></dl><ul>{seen}</ul>{link}</article>'
    )


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
