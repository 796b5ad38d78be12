"""An explanation as one self-contained HTML file for projectors, phones and print, usable by keyboard."""

import re
from html import escape
from typing import Final

from dragoman.inspection.explanation.explain import PAPER, ROUNDING, Explanation
from dragoman.inspection.explanation.selection import strip_marks
from dragoman.inspection.explanation.worksheet import Row, Step, Table, format_number
from dragoman.inspection.html_file import fill_page, part
from dragoman.inspection.labels import clean

FEW: Final = 14
"""The maximum number of keys that are drawn with tall bars."""


def page(explanation: Explanation) -> str:
    """Return the HTML page of an explanation."""
    titles = [prose(step.title) for step in explanation.steps]
    links = [f'<a href="#step-{i}">{i}. {title}</a>' for i, title in enumerate(titles, 1)]
    around = ["<span></span>", *links, "<span></span>"]
    sections = (_section(i, step, around[i - 1] + around[i + 1]) for i, step in enumerate(explanation.steps, 1))
    contents = (f'<li><a href="#step-{i}"><span>{title}</span></a></li>' for i, title in enumerate(titles, 1))
    return fill_page(
        "explanation/page.html",
        part("explanation/page.css"),
        part("explanation/page.js"),
        title=escape(explanation.title),
        texts=_texts(explanation),
        look=_look(explanation),
        chosen="".join(f'<li dir="auto">{escape(line)}</li>' for line in explanation.choices),
        rounding=escape(ROUNDING),
        paper=escape(PAPER),
        contents="".join(contents),
        steps="\n".join(sections),
        caveats=escape(explanation.caveats),
    )


def prose(text: str) -> str:
    """Return a sentence as HTML, with symbols such as W^Q set as in formulas."""
    symbols = r"\b(?:[Wb]\^[QKVO]|W_c|d_k|d_model|h_j)\b"
    with_symbols = re.sub(symbols, lambda match: formula(match[0]), escape(clean(text)))
    return re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", with_symbols)


def formula(text: str) -> str:
    """Return a formula as HTML: `_` and `^` become subscripts and superscripts, and single letters are italic."""
    slanted = re.sub(r"(?<![A-Za-z])([A-Za-z])(?![A-Za-z])", r"<i>\1</i>", _minus(escape(text)))
    lowered = re.sub(r"_(?:\{([^{}]*)\}|(<i>\w</i>|\w+))", lambda match: f"<sub>{match[1] or match[2]}</sub>", slanted)
    return re.sub(r"\^(?:\{([^{}]*)\}|(<i>\w</i>|\w))", lambda match: f"<sup>{match[1] or match[2]}</sup>", lowered)


def _texts(explanation: Explanation) -> str:
    """Return source and target as HTML, with the explained word marked."""
    source, target = explanation.source, explanation.target
    if target is None:
        return f'<p dir="auto">{_mark_word(explanation)}</p>'
    origin = f"<small>{explanation.target_origin}</small>"
    return f'<p dir="auto">{escape(clean(source.text))}</p><p dir="auto">{_mark_word(explanation)} {origin}</p>'


def _mark_word(explanation: Explanation) -> str:
    tokens = explanation.target or explanation.source
    text, spans = tokens.text, [tokens.spans[i] for i in explanation.word.pieces]
    word = strip_marks(text[spans[0][0] : spans[-1][1]].strip())
    start = text.index(word, spans[0][0])
    before, word, after = (escape(clean(p)) for p in (text[:start], word, text[start + len(word) :]))
    return f"{before}<strong>{word}</strong>{after}"


def _look(explanation: Explanation) -> str:
    """Return the overview as HTML: every key with a bar for its attention weight."""
    keys, weights = explanation.keys, explanation.weights[explanation.head].tolist()
    chips = ""
    for j, (label, weight) in enumerate(zip(keys.labels, weights, strict=True)):
        mark, height = keys.mark(j), 60 * weight
        share = "hidden" if mark == "hidden" else f"{weight:.1%}"
        piece = f'<span class="piece" dir="auto">{escape(label.partition(" ")[2])}</span>'
        asks = '<span class="unseen">asks</span>' if mark == "explained" else ""
        bar = _bar("0 0 10 60", f'width="10" height="{height:.2f}" y="{60 - height:.2f}"', 'width="10" height="60"')
        chips += f'<li{_class(mark)}>{bar}<span class="share">{share}</span>{piece}{asks}</li>'
    source, frame = " of the source", ""
    if keys.own is not None:
        source, frame = "", " The thick frame marks the position that asks."
    size = "look many" if len(weights) > FEW else "look"
    caption = f"Where this head looks: how much of its weight each piece{source} gets.{frame}"
    return f'<ol class="{size}">{chips}</ol><p class="caption">{caption}</p>'


def _section(number: int, step: Step, links: str) -> str:
    blocks = "".join(
        f'<p dir="auto">{prose(block)}</p>' if isinstance(block, str) else _table(block, step.title)
        for block in step.blocks
    )
    shown = f'<p class="formula">{formula(step.formula)}</p>' if step.formula else ""
    return (
        f'<section class="step" id="step-{number}" tabindex="-1" aria-labelledby="title-{number}">'
        f'<div class="heading"><span class="number" aria-hidden="true">{number}</span>'
        f'<h2 id="title-{number}">{prose(step.title)}</h2><span class="section">{escape(step.section)}</span></div>'
        f'<p class="why">{prose(step.why)}</p>{shown}{blocks}<p class="onwards">{links}</p></section>'
    )


def _table(table: Table, name: str) -> str:
    has_bars = any(row.bar is not None for row in table.rows)
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    head += f'<th scope="col" class="more">… of {table.of}</th>' if table.is_cut else ""
    head += '<th scope="col"><span class="unseen">as a bar</span></th>' if has_bars else ""
    body = "".join(_row(row, has_bars, table.is_cut) for row in table.rows)
    foot = f"<tfoot>{_row(table.total, has_bars, table.is_cut)}</tfoot>" if table.total else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Numbers: {escape(name)}"><table>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody>{foot}</table></div>{_whole_vectors(table)}"
    )


def _row(row: Row, has_bars: bool, is_cut: bool) -> str:
    cells = "".join(f"<td>{_minus(escape(format_number(cell)))}</td>" for cell in row.cells)
    cells += "<td></td>" if is_cut else ""
    if has_bars:
        size = 'width="100" height="10"'
        bar = "" if row.bar is None else _bar("0 0 100 10", f'width="{100 * row.bar:.2f}" height="10"', size)
        cells += f'<td class="bar">{bar}</td>'
    mark = f' <span class="unseen">({row.mark})</span>' if row.mark else ""
    return f'<tr{_class(row.mark)}><th scope="row" dir="auto">{prose(row.label)}{mark}</th>{cells}</tr>'


def _bar(box: str, share: str, whole: str) -> str:
    return (
        f'<svg viewBox="{box}" preserveAspectRatio="none" aria-hidden="true"><rect class="empty" {whole}/>'
        f'<rect class="share" {share}/></svg>'
    )


def _whole_vectors(table: Table) -> str:
    """Return, as HTML, the complete vectors of which a table shows only the first numbers."""
    rows = [row for row in table.rows if len(row.whole) > len(row.cells)]
    if not rows:
        return ""
    listed = "".join(
        f'<dt dir="auto">{escape(clean(row.label))}</dt><dd tabindex="0">'
        f"{_minus(' '.join(f'{number:.6f}' for number in row.whole))}</dd>"
        for row in rows
    )
    summary = f"<summary>All {len(rows[0].whole)} numbers, as the model has them</summary>"
    return f'<details>{summary}<dl class="whole">{listed}</dl></details>'


def _minus(numbers: str) -> str:
    return numbers.replace("-", "\N{MINUS SIGN}")


def _class(mark: str) -> str:
    return f' class="{mark}"' if mark else ""
