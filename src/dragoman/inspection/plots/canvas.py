"""Helpers shared by all plots: axes, fonts and colours, text in any script, and saving.

Matplotlib (with libraqm, since 3.11) orders and joins right-to-left text, and so does the viewer of an SVG, so labels
stay in logical order.
"""

import io
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from matplotlib import font_manager, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font

from dragoman.inspection.labels import clean, shorten

FORMATS: Final = ("svg", "pdf", "png")
SMALL: Final = 8.0
"""The font size of captions and labels, in points."""
COLOURS: Final = "Blues"
"""The colour map: white is 0, and the luminance falls monotonically, so that it also works in greyscale."""
INK, SECOND, FAINT = "#123b66", "#b3571e", "#c8c8c8"
LONGEST_LABEL: Final = 16

_WHOLE: Final = 0.775
"""The fraction of a figure's width that a single plot takes."""
_LETTERS_PER_INCH: Final = 13

_FAMILIES: Final = (
    "DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR",
    "Source Han Sans SC", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback", "PingFang SC",
    "Hiragino Sans", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Arial Unicode MS", "Noto Sans Hebrew",
    "Noto Sans Arabic", "Noto Naskh Arabic", "Noto Sans Devanagari", "Noto Sans Bengali", "Noto Sans Tamil",
    "Noto Sans Thai", "Noto Sans Ethiopic", "Noto Emoji",
)  # fmt: skip
"""The font families tried for each character, in order; families that are not installed are skipped."""


def sheet(ax: Axes | None, width: float, height: float) -> Axes:
    """Return `ax`, or the axes of a new figure made without pyplot, which would keep the figure in memory."""
    return ax if ax is not None else Figure(figsize=(width, height), layout="constrained").subplots()


def caption(ax: Axes, title: str, text: str) -> None:
    """Write a title above the axes, and a caption below them and their label; both wrapped to the width of the axes."""
    share = min(1.0, ax.get_position().width / _WHOLE)
    letters = max(24, int(figure_of(ax).get_figwidth() * share * _LETTERS_PER_INCH))
    above, below = (textwrap.wrap(clean(part), letters, break_on_hyphens=False) for part in (title, text))
    ax.set_title("\n".join(above), loc="left", **lettering([title]))
    label = [ax.get_xlabel()] * bool(ax.get_xlabel())
    ax.set_xlabel("\n".join([*label, *below]), loc="left", **lettering([text]))


def lettering(texts: Iterable[str]) -> dict[str, Any]:
    """Return the matplotlib text properties for these texts; warn of characters that no installed font has.

    Math parsing is off, as a token may have dollar signs.
    """
    missing = sorted({letter for text in texts for letter in clean(text) if not letter.isspace()} - _drawable())
    if missing:
        letters = " ".join(missing[:10]) + f" and {len(missing) - 10} others" * (len(missing) > 10)
        fonts = " and ".join(filter(None, dict.fromkeys(map(_font_of, missing))))
        remedy = f"Install a font that has them, {f'such as {fonts}, ' * bool(fonts)}or save as SVG"
        warnings.warn(f"no font of this machine has the letters {letters}: they show as boxes. {remedy}", stacklevel=3)
    return {"fontfamily": list(_families()), "fontsize": SMALL, "parse_math": False}


def short(labels: Iterable[str]) -> list[str]:
    """Return the labels sanitised and truncated to `LONGEST_LABEL` cells."""
    return [shorten(clean(label), LONGEST_LABEL) for label in labels]


def without_frame(ax: Axes) -> None:
    """Remove the tick marks and the spines of the axes."""
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def figure_of(ax: Axes) -> Figure:
    """Return the figure that contains the axes."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def save(ax: Axes, path: Path | str, *, dpi: int = 200) -> None:
    """Save the figure as SVG, PDF or PNG according to the extension; equal figures give equal bytes."""
    path = Path(path)
    kind = path.suffix[1:].lower()
    if kind not in FORMATS:
        raise ValueError(f"cannot save {path.name}: use the extension .{' or .'.join(FORMATS)}")
    beside = path.with_name(f".{path.name}.unfinished")
    with _portable_text():
        figure_of(ax).savefig(beside, format=kind, dpi=dpi, metadata=_undated(kind))
    beside.replace(path)


def svg(ax: Axes) -> str:
    """Return the figure as an `<svg>` element to embed in a page."""
    written = io.StringIO()
    with _portable_text():
        figure_of(ax).savefig(written, format="svg", dpi=200, metadata=_undated("svg"))
    text = written.getvalue()
    # Matplotlib's style sheet would reach every other picture of the page: its two rules stand on the element instead.
    text = re.sub(r"<style.*?</style>", "", text[text.index("<svg") :], count=1, flags=re.DOTALL)
    return text.replace("<svg", '<svg stroke-linejoin="round" stroke-linecap="butt"', 1)


@contextmanager
def _portable_text() -> Iterator[None]:
    """Save text as text, not as paths: in a PDF with embedded TrueType fonts, in an SVG with the viewer's fonts.

    Matplotlib's warnings of missing glyphs are suppressed, as `lettering` has warned already.
    """
    with (
        rc_context({"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "dragoman"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _undated(kind: str) -> dict[str, None]:
    return {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})


def _font_of(letter: str) -> str:
    """Return a font family that has the script of a character; empty if none is known."""
    script = unicodedata.name(letter, "").partition(" ")[0]
    if script in {"CJK", "HIRAGANA", "KATAKANA", "HANGUL"}:
        return "Noto Sans CJK"
    if unicodedata.category(letter) == "So":
        return "Noto Emoji"
    family = f"Noto Sans {script.title()}"
    return family if family in _FAMILIES else ""


@cache
def _families() -> tuple[str, ...]:
    present = set(font_manager.get_font_names())
    return tuple(family for family in _FAMILIES if family in present)


@cache
def _drawable() -> frozenset[str]:
    """Return all characters that the installed families can draw."""
    paths = [font_manager.findfont(family) for family in _families()]
    return frozenset(chr(code) for path in paths for code in FT2Font(path).get_charmap()) | {"\u200c", "\u200d"}
