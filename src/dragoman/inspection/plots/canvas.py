"""What all pictures share: the sheet, its fonts and colours, and text in any script.

Right-to-left text is put in order and joined by matplotlib itself (libraqm, since 3.11), so labels stay as they are
read: in an SVG, too, where the viewer orders them.
"""

import textwrap
import unicodedata
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font

from dragoman.inspection.labels import clean, shorten

SMALL: Final = 8.0
"""The size of captions and labels, in points."""
COLOURS: Final = "Blues"
"""White is nothing; the luminance falls all the way, so that a print in grey says the same."""
INK, SECOND, FAINT = "#123b66", "#b3571e", "#c8c8c8"
LONGEST_LABEL: Final = 16

_WHOLE: Final = 0.775
"""How much of a figure's width axes have when they are alone on it."""
_LETTERS_AN_INCH: Final = 13

_FAMILIES: Final = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Noto Sans JP",
    "Noto Sans KR",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Arial Unicode MS",
    "Noto Sans Hebrew",
    "Noto Sans Arabic",
    "Noto Naskh Arabic",
    "Noto Sans Devanagari",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Thai",
    "Noto Sans Ethiopic",
    "Noto Emoji",
)
"""Asked in this order for each letter; those that are not installed are passed over."""


def sheet(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes given, or those of a new figure. Without pyplot: nothing is left behind in a long run."""
    return ax if ax is not None else Figure(figsize=(width, height), layout="constrained").subplots()


def caption(ax: Axes, text: str) -> None:
    """Above the picture, wrapped to its sheet."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    share = min(1.0, ax.get_position().width / _WHOLE)
    letters = max(24, int(figure.get_figwidth() * share * _LETTERS_AN_INCH))
    ax.set_title(
        "\n".join(textwrap.wrap(clean(text), letters, break_on_hyphens=False)), loc="left", **lettering([text])
    )


def lettering(texts: Iterable[str]) -> dict[str, Any]:
    """How these texts are to be set; warns of letters that no font of this machine has.

    A token may hold dollar signs: they are no formula.
    """
    missing = sorted({letter for text in texts for letter in clean(text) if not letter.isspace()} - _drawable())
    if missing:
        others = f" and {len(missing) - 10} others" if len(missing) > 10 else ""
        fonts = _suggested(missing)
        such = f", such as {' and '.join(fonts)}," if fonts else ","
        warnings.warn(
            f"no font of this machine has the letters {' '.join(missing[:10])}{others}: they show as boxes. Install a "
            f"font that has them{such} or save as SVG, where the viewer's fonts are used",
            stacklevel=3,
        )
    return {"fontfamily": list(_families()), "fontsize": SMALL, "parse_math": False}


def short(labels: Iterable[str]) -> list[str]:
    """Harmless, and cut to a width."""
    return [shorten(clean(label), LONGEST_LABEL) for label in labels]


def _suggested(letters: Iterable[str]) -> list[str]:
    """Of the families that are asked, those that have these scripts."""
    found = dict.fromkeys(_font_of(letter) for letter in letters)
    return [family for family in found if family]


def _font_of(letter: str) -> str:
    script = unicodedata.name(letter, "").partition(" ")[0]
    if script in {"CJK", "HIRAGANA", "KATAKANA", "HANGUL"}:
        return "Noto Sans CJK"
    if unicodedata.category(letter) == "So":
        return "Noto Emoji"
    own = f"Noto Sans {script.title()}"
    return own if own in _FAMILIES else ""


@cache
def _families() -> tuple[str, ...]:
    present = set(font_manager.get_font_names())
    return tuple(family for family in _FAMILIES if family in present)


@cache
def _drawable() -> frozenset[str]:
    """Every letter that one of the families can draw."""
    paths = [font_manager.findfont(family) for family in _families()]
    return frozenset(chr(code) for path in paths for code in FT2Font(path).get_charmap()) | {"\u200c", "\u200d"}
