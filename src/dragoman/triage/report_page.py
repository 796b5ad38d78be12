"""The triage report: one self-contained HTML file with flagged lines, marked spans and links to traces."""

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final
from urllib.parse import quote

from dragoman.inspection.html_file import allowed
from dragoman.inspection.labels import clean
from dragoman.triage.numerals import TextSpan
from dragoman.triage.ranking import CAVEAT, TriageMethod, TriageResult, describe_signals, summarise
from dragoman.triage.text_flags import MEANING

NOTHING: Final = "<em>nothing</em>"
MOST_LINKS: Final = 12
"""The maximum number of lines that are linked for each flag."""


def report(ranked: Sequence[TriageResult], method: TriageMethod, pages: Mapping[int, str] | None = None) -> str:
    """Return an HTML report of all flagged lines, in ranked order; `pages` maps line numbers to trace pages."""
    folder = files("dragoman.triage")
    template, style = ((folder / f"report_page.{kind}").read_text("utf-8") for kind in ("html", "css"))
    return Template(template).substitute(
        title="Translations to look at",
        summary=escape(summarise(ranked).partition(":")[0]),
        caveat=escape(CAVEAT),
        style=style,
        style_hash=allowed(style),
        flags=_flag_table(ranked),
        account="".join(f"<li>{escape(clean(sentence))}</li>" for sentence in method.sentences()[1:]),
        articles="\n".join(_article(line, (pages or {}).get(line.number)) for line in ranked if line.is_suspect),
    )


def traces_folder(report: Path) -> Path:
    """Return the folder for the trace pages of a report."""
    return report.with_name(f"{report.stem}_traces")


def trace_note(line: TriageResult, report: str) -> str:
    """Return the HTML note for a trace page: the flags of the line, and a link back to the report."""
    back = f'<p><a href="{escape(quote(report))}#line-{line.number}">Back to line {line.number} of the report</a></p>'
    texts = "".join(f'<p dir="auto">{text}</p>' for text in _mark_flags(line) if "<mark>" in text)
    return f"{back}<ul>{_flag_list(line)}</ul>{texts}"


def mark_spans(text: str, spans: Sequence[TextSpan]) -> str:
    """Return the text as HTML with the spans in <mark> elements; spans that overlap or touch are merged."""
    joined: list[TextSpan] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            start, end = joined[-1][0], max(end, joined.pop()[1])
        joined.append((start, end))
    result, reached = "", 0
    for start, end in joined:
        result += escape(clean(text[reached:start])) + f"<mark>{escape(clean(text[start:end]))}</mark>"
        reached = end
    return result + escape(clean(text[reached:]))


def _mark_flags(line: TriageResult) -> tuple[str, str]:
    """Return source and target as HTML with the spans of all flags marked."""
    source = mark_spans(line.source, [span for flag in line.flags for span in flag.source])
    return source, mark_spans(line.target, [span for flag in line.flags for span in flag.target])


def _flag_table(ranked: Sequence[TriageResult]) -> str:
    """Return an HTML table of the flags: meaning, number of lines, and links to the worst lines."""
    rows = ""
    for name, meaning in MEANING.items():
        numbers = [line.number for line in ranked if name in {flag.name for flag in line.flags}]
        links = ", ".join(f'<a href="#line-{number}">{number}</a>' for number in numbers[:MOST_LINKS])
        more = ", …" if len(numbers) > MOST_LINKS else ""
        cells = f"<td>{len(numbers):,}</td><td>{escape(meaning)}<br>line {links}{more}</td>"
        rows += f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>' if numbers else ""
    heading = "<caption>Flags, and the worst lines of each</caption>"
    columns = "".join(f'<th scope="col">{name}</th>' for name in ("flag", "lines", "what was seen"))
    return f"<table>{heading}<thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""


def _article(line: TriageResult, page: str | None) -> str:
    source, target = _mark_flags(line)
    link = f'<p><a href="{escape(quote(page))}">Open the trace of line {line.number}</a></p>' if page else ""
    heading = f"Line {line.number}: score {line.score:.2f}"
    return (
        f'<article id="line-{line.number}" aria-labelledby="heading-{line.number}">'
        f'<h2 id="heading-{line.number}">{heading}</h2><dl><dt>Source</dt><dd dir="auto">{source or NOTHING}</dd>'
        f'<dt>Target</dt><dd dir="auto">{target or NOTHING}</dd></dl><ul>{_flag_list(line)}</ul>{link}</article>'
    )


def _flag_list(line: TriageResult) -> str:
    """Return the flags and the signals of a line as HTML list items."""
    signals = f"<li>signals: {escape(describe_signals(line))}</li>" if line.signals else ""
    return signals + "".join(
        f'<li dir="auto"><strong>{escape(flag.name)}</strong> {flag.severity:.2f}: {escape(clean(flag.evidence))}</li>'
        for flag in line.flags
    )
