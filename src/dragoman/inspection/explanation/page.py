"""An explanation as one HTML file that needs no network: for a projector, a phone or paper, by keyboard too."""

import re
from html import escape
from string import Template
from typing import Final

from dragoman.inspection.explanation.board import Mark, Row, Step, Table, plain
from dragoman.inspection.explanation.explaining import PAPER, ROUNDING, Explanation
from dragoman.inspection.explanation.place import bare
from dragoman.inspection.html_file import allowed, part
from dragoman.inspection.labels import clean

FEW: Final = 14
"""Up to so many keys have tall bars."""

_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-$style_hash'; \
script-src 'sha256-$script_hash'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="only light">
<title>$title</title>
<style>$style</style>
</head>
<body>
<div class="page">
<header>
<div>
<h1>$title</h1>
<div class="texts">$texts</div>
$look
</div>
<div>
<ul class="chosen">$chosen</ul>
<p class="notes">$rounding $paper The arrow keys ← and → turn the steps.</p>
</div>
</header>
<nav aria-label="Steps"><ol>$contents</ol></nav>
<main>
$steps
</main>
<footer><p class="caveat">$caveats</p></footer>
</div>
<script>$script</script>
</body>
</html>
""")


def page(explanation: Explanation) -> str:
    """The whole file. What may run is fixed by the hash of our own script: no word can become one."""
    style, script = part("explanation/page.css"), part("explanation/page.js")
    steps = explanation.steps
    return _PAGE.substitute(
        title=escape(explanation.title),
        style=style,
        style_hash=allowed(style),
        script=script,
        script_hash=allowed(script),
        texts=_texts(explanation),
        look=_look(explanation),
        chosen="".join(f'<li dir="auto">{escape(line)}</li>' for line in explanation.chosen),
        rounding=escape(ROUNDING),
        paper=escape(PAPER),
        contents="".join(
            f'<li><a href="#step-{i}"><span>{prose(step.title)}</span></a></li>' for i, step in enumerate(steps, 1)
        ),
        steps="\n".join(_section(i, step, [one.title for one in steps]) for i, step in enumerate(steps, 1)),
        caveats=escape(explanation.caveats),
    )


def prose(text: str) -> str:
    """A sentence as HTML: our own symbols are set as in formulas, and whatever else stands there is left alone."""
    set_ = re.sub(r"\b(?:[Wb]\^[QKVO]|W_c|d_k|d_model|h_j)\b", lambda found: formula(found[0]), escape(clean(text)))
    return re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", set_)


def formula(text: str) -> str:
    """A formula as HTML: `_` and `^` become low and high letters, single letters slant, a line stays a line."""
    marked = re.sub(r"(?<![A-Za-z])([A-Za-z])(?![A-Za-z])", r"<i>\1</i>", _minus(escape(text)))
    lowered = re.sub(r"_(?:\{([^{}]*)\}|(<i>\w</i>|\w+))", lambda found: f"<sub>{found[1] or found[2]}</sub>", marked)
    return re.sub(r"\^(?:\{([^{}]*)\}|(<i>\w</i>|\w))", lambda found: f"<sup>{found[1] or found[2]}</sup>", lowered)


def _texts(explanation: Explanation) -> str:
    source, target = explanation.source.text, explanation.target
    encoder = explanation.place.kind == "encoder"
    lines = [f'<p dir="auto">{_with_word(source, explanation) if encoder else escape(clean(source))}</p>']
    if target is not None:
        whose = "its own translation" if explanation.free else "as given: teacher forcing"
        lines.append(f'<p dir="auto">{_with_word(target.text, explanation)} <small>{whose}</small></p>')
    return "".join(lines)


def _with_word(text: str, explanation: Explanation) -> str:
    """The text with the word that it is about."""
    tokens = explanation.source if explanation.place.kind == "encoder" else explanation.target
    assert tokens is not None
    places = [tokens.spans[i] for i in explanation.word.pieces]
    start, end = places[0][0], places[-1][1]
    word = bare(text[start:end].strip())
    start = text.index(word, start)
    end = start + len(word)
    before, word, after = (escape(clean(part)) for part in (text[:start], word, text[end:]))
    return f"{before}<strong>{word}</strong>{after}"


def _look(explanation: Explanation) -> str:
    """The result at a glance: how much of the look goes to each key."""
    keys, weights = explanation.keys, explanation.weights[explanation.head].tolist()
    chips = "".join(_chip(label, weights[j], keys.mark(j)) for j, label in enumerate(keys.labels))
    source = " of the source" if keys.asking is None else ""
    frame = "" if keys.asking is None else " The thick frame marks the position that asks."
    said = f"Where this head looks: how much of its weight each piece{source} gets.{frame}"
    size = "look many" if len(weights) > FEW else "look"
    return f'<ol class="{size}">{chips}</ol><p class="caption">{said}</p>'


def _chip(label: str, weight: float, mark: Mark) -> str:
    """A key with its share as a bar that stands on it."""
    bar = (
        '<svg viewBox="0 0 10 60" preserveAspectRatio="none" aria-hidden="true"><rect class="empty" width="10" '
        f'height="60"/><rect class="share" width="10" height="{60 * weight:.2f}" y="{60 - 60 * weight:.2f}"/></svg>'
    )
    share = "hidden" if mark == "hidden" else f"{weight:.1%}"
    piece = f'<span class="piece" dir="auto">{escape(label.partition(" ")[2])}</span>'
    asks = '<span class="unseen">asks</span>' if mark == "explained" else ""
    return f'<li{_class(mark)}>{bar}<span class="share">{share}</span>{piece}{asks}</li>'


def _section(number: int, step: Step, titles: list[str]) -> str:
    blocks = "".join(
        f'<p dir="auto">{prose(block)}</p>' if isinstance(block, str) else _table(block, step.title)
        for block in step.blocks
    )
    shown = f'<p class="formula">{formula(step.formula)}</p>' if step.formula else ""
    before, after = (
        f'<a href="#step-{i}">{i}. {prose(titles[i - 1])}</a>' if 1 <= i <= len(titles) else "<span></span>"
        for i in (number - 1, number + 1)
    )
    return (
        f'<section class="step" id="step-{number}" tabindex="-1" aria-labelledby="title-{number}">'
        f'<div class="heading"><span class="number" aria-hidden="true">{number}</span>'
        f'<h2 id="title-{number}">{prose(step.title)}</h2><span class="section">{escape(step.section)}</span></div>'
        f'<p class="why">{prose(step.why)}</p>{shown}{blocks}<p class="onwards">{before}{after}</p></section>'
    )


def _table(table: Table, name: str) -> str:
    bars = any(row.bar is not None for row in table.rows)
    ends = [f'<th scope="col" class="more">… of {table.of}</th>'] if table.goes_on else []
    ends += ['<th scope="col"><span class="unseen">as a bar</span></th>'] if bars else []
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    body = "".join(_row(row, bars, table.goes_on) for row in table.rows)
    foot = f"<tfoot>{_row(table.total, bars, table.goes_on)}</tfoot>" if table.total else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Numbers: {escape(name)}"><table>'
        f"<thead><tr><td></td>{head}{''.join(ends)}</tr></thead><tbody>{body}</tbody>{foot}</table></div>{_whole(table)}"
    )


def _row(row: Row, bars: bool, more: bool) -> str:
    cells = "".join(f"<td>{_minus(escape(plain(cell)))}</td>" for cell in row.cells)
    cells += "<td></td>" if more else ""
    if bars:
        cells += f'<td class="bar">{_bar(row.bar)}</td>'
    said = f' <span class="unseen">({row.mark})</span>' if row.mark else ""
    label = f'<th scope="row" dir="auto">{prose(row.label)}{said}</th>'
    return f"<tr{_class(row.mark)}>{label}{cells}</tr>"


def _bar(share: float | None) -> str:
    if share is None:
        return ""
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect class="empty" width="100" '
        f'height="10"/><rect class="share" width="{100 * share:.2f}" height="10"/></svg>'
    )


def _whole(table: Table) -> str:
    """All numbers of the vectors of which a table shows the beginning."""
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
