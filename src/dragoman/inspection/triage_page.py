"""A triage as one HTML file: every flagged sentence, its spans marked, a link to its trace. No script, no network."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Final
from urllib.parse import quote

from dragoman.inspection.flag import MEANING, Flag, Name, Span
from dragoman.inspection.html_file import allowed, part, save_text
from dragoman.inspection.labels import clean
from dragoman.inspection.triage import CAVEAT, Account, Triaged, summary

NOTHING: Final = "<em>nothing</em>"
FIRST: Final = 12
"""So many lines are named for each flag; the others are found below."""

_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-$style_hash'; \
base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="only light">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
<h1>$title</h1>
<p>$summary. The worst come first.</p>
<p class="caveat">$caveat</p>
$flags
<details open><summary>How this was made</summary>
<ul>$account</ul></details>
$articles
</main>
</body>
</html>
""")


def report(ranked: Sequence[Triaged], account: Account, pages: Mapping[int, str] | None = None) -> str:
    """Those with flags, in their order. `pages` has, by number, where the page of a trace is, seen from this file."""
    style = part("triage_page.css")
    return _PAGE.substitute(
        title="Translations to look at",
        summary=escape(summary(ranked).partition(":")[0]),
        caveat=escape(CAVEAT),
        style=style,
        style_hash=allowed(style),
        flags=_flags(ranked),
        account="".join(f"<li>{escape(clean(sentence))}</li>" for sentence in account.sentences()[1:]),
        articles="\n".join(_article(one, (pages or {}).get(one.number)) for one in ranked if one.flags),
    )


def save_report(
    ranked: Sequence[Triaged], account: Account, path: Path, pages: Mapping[int, str] | None = None
) -> None:
    """Write it, all at once."""
    save_text(report(ranked, account, pages), path)


def traces_folder(report: Path) -> Path:
    """Where the pages of a report's traces are."""
    return report.with_name(f"{report.stem}_traces")


def note(one: Triaged, report: str) -> str:
    """What the page of a trace says of its flags, and the way back to a report at this place."""
    source = marked(one.source, [span for flag in one.flags for span in flag.source])
    target = marked(one.target, [span for flag in one.flags for span in flag.target])
    back = f'<p><a href="{escape(quote(report))}#line-{one.number}">Back to line {one.number} of the report</a></p>'
    texts = "".join(f'<p dir="auto">{text}</p>' for text in (source, target) if "<mark>" in text)
    by = "Dropped words are those of the mean of all heads of all layers, which no single map below shows."
    return f"{back}<ul>{_seen(one)}</ul>{texts}" + f"<p>{by}</p>" * ("dropped" in _names(one.flags))


def marked(text: str, spans: Sequence[Span]) -> str:
    """The text as HTML, the spans marked; where they overlap or touch, they are one."""
    result, reached = "", 0
    for start, end in _joined(spans):
        result += escape(clean(text[reached:start])) + f"<mark>{escape(clean(text[start:end]))}</mark>"
        reached = end
    return result + escape(clean(text[reached:]))


def _flags(ranked: Sequence[Triaged]) -> str:
    """What each flag means, and the way to the lines that have it."""
    rows = "".join(_row(name, [one.number for one in ranked if name in _names(one.flags)]) for name in MEANING)
    if not rows:
        return ""
    heading = "<caption>Flags, and the worst lines of each</caption>"
    columns = "".join(f'<th scope="col">{name}</th>' for name in ("flag", "lines", "what was seen"))
    return f"<table>{heading}<thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>"


def _row(name: Name, lines: Sequence[int]) -> str:
    if not lines:
        return ""
    links = ", ".join(f'<a href="#line-{number}">{number}</a>' for number in lines[:FIRST])
    more = ", …" if len(lines) > FIRST else ""
    return (
        f'<tr><th scope="row">{escape(name)}</th><td>{len(lines):,}</td>'
        f"<td>{escape(MEANING[name])}<br>line {links}{more}</td></tr>"
    )


def _names(flags: Sequence[Flag]) -> set[Name]:
    return {flag.name for flag in flags}


def _article(one: Triaged, page: str | None) -> str:
    source = marked(one.source, [span for flag in one.flags for span in flag.source])
    target = marked(one.target, [span for flag in one.flags for span in flag.target])
    link = f'<p><a href="{escape(quote(page))}">Open the trace of line {one.number}</a></p>' if page else ""
    heading = f"Line {one.number}: severity {one.severity:.2f}"
    return (
        f'<article id="line-{one.number}" aria-labelledby="heading-{one.number}">'
        f'<h2 id="heading-{one.number}">{heading}</h2><dl><dt>Source</dt><dd dir="auto">{source or NOTHING}</dd>'
        f'<dt>Target</dt><dd dir="auto">{target or NOTHING}</dd></dl><ul>{_seen(one)}</ul>{link}</article>'
    )


def _seen(one: Triaged) -> str:
    return "".join(
        f'<li dir="auto"><strong>{escape(flag.name)}</strong> {flag.severity:.2f}: {escape(clean(flag.evidence))}</li>'
        for flag in one.flags
    )


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
