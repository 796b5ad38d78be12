"""The triage report: one self-contained HTML file with the studio's list of all lines, and links to traces."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote

from dragoman.inspection.html_file import embedded, viewer_page
from dragoman.inspection.labels import clean
from dragoman.triage.numerals import TextSpan
from dragoman.triage.ranking import TriageMethod, TriageReport, TriageResult, describe_signals, make_report

TITLE: Final = "Translations to look at"
NOTHING: Final = "<em>nothing</em>"


def report(ranked: Sequence[TriageResult], method: TriageMethod, pages: Mapping[int, str] | None = None) -> str:
    """Return an HTML report of all lines; `pages` maps line numbers to trace pages.

    Without scripts, it shows the suspect lines as a table.
    """
    links = {number: quote(page) for number, page in (pages or {}).items()}
    content = make_report(ranked, method)
    return viewer_page(
        "triage",
        "dragoman-triage",
        embedded({"report": content.model_dump(mode="json"), "pages": links}),
        heading=TITLE,
        title=TITLE,
        note="",
        unscripted=_plain_report(content, links),
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


def _plain_report(content: TriageReport, links: Mapping[int, str]) -> str:
    """Return the suspect lines as an HTML table, which is readable without scripts."""
    suspect = [line for line in content.lines if line.is_suspect]
    method = "".join(f"<li>{escape(sentence)}</li>" for sentence in content.method)
    advice = "Scripts are switched off: these are the lines to look at; the other lines need scripts to be shown."
    start = f"<p>{advice}</p>\n<p>{escape(content.summary)}.</p>\n<p>{escape(content.caveat)}</p>\n<ul>{method}</ul>\n"
    columns = "".join(f'<th scope="col">{name}</th>' for name in ("line", "score", "source and target", "evidence"))
    rows = "\n".join(_row(line, links.get(line.number)) for line in suspect)
    return f"{start}<table><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>" if suspect else start


def _row(line: TriageResult, link: str | None) -> str:
    texts = "".join(f'<p dir="auto">{text or NOTHING}</p>' for text in _mark_flags(line))
    trace = f'<p><a href="{escape(link)}">Open the trace of line {line.number}</a></p>' if link else ""
    return (
        f'<tr id="line-{line.number}"><th scope="row">{line.number}</th><td>{line.score:.2f}</td>'
        f"<td>{texts}{trace}</td><td><ul>{_flag_list(line)}</ul></td></tr>"
    )


def _flag_list(line: TriageResult) -> str:
    """Return the flags and the signals of a line as HTML list items."""
    signals = f"<li>signals: {escape(describe_signals(line))}</li>" if line.signals else ""
    return signals + "".join(
        f'<li dir="auto"><strong>{escape(flag.name)}</strong> {flag.severity:.2f}: {escape(clean(flag.evidence))}</li>'
        for flag in line.flags
    )
