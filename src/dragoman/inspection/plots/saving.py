"""A picture as a file, or as text for a notebook."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

FORMATS: Final = ("svg", "pdf", "png")


def save(ax: Axes, path: Path | str, *, dpi: int = 200) -> None:
    """By the ending of the name: svg, pdf or png. The same picture gives the same bytes."""
    path = Path(path)
    kind = path.suffix[1:].lower()
    if kind not in FORMATS:
        raise ValueError(f"cannot draw {path.name}: end its name in .{', .'.join(FORMATS)}")
    beside = path.with_name(f".{path.name}.unfinished")
    with _setting():
        _figure(ax).savefig(beside, format=kind, dpi=dpi, metadata=_undated(kind))
    beside.replace(path)


def svg(ax: Axes) -> str:
    """The picture as an `<svg>` element, to stand in a page."""
    written = io.StringIO()
    with _setting():
        _figure(ax).savefig(written, format="svg", dpi=200, metadata=_undated("svg"))
    text = written.getvalue()
    # Matplotlib's style sheet would reach every other picture of the page: its two rules stand on the element instead.
    text = re.sub(r"<style.*?</style>", "", text[text.index("<svg") :], count=1, flags=re.DOTALL)
    return text.replace("<svg", '<svg stroke-linejoin="round" stroke-linecap="butt"', 1)


@contextmanager
def _setting() -> Iterator[None]:
    """Text stays text: in a PDF with its fonts (TrueType, whole letters), in an SVG with the viewer's.

    What matplotlib says of each missing letter was said once already, in plain words, when the labels were set.
    """
    with (
        rc_context({"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "dragoman"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _undated(kind: str) -> dict[str, None]:
    return {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})


def _figure(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure
