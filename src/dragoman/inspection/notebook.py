"""A trace in a notebook: a still picture first, which every viewer shows; below it the page, where scripts run."""

from dataclasses import dataclass
from html import escape

from dragoman.data.alignment import Measure, Rows
from dragoman.inspection import plots
from dragoman.inspection.choice import Choice
from dragoman.inspection.page import page, table
from dragoman.inspection.trace import Kind, Trace
from dragoman.inspection.view import Head, view


@dataclass(frozen=True)
class Shown:
    """The last line of a notebook's cell: `Shown(trace)`."""

    trace: Trace
    layer: int = -1
    head: Head = "mean"
    rows: Rows = "written"
    measure: Measure = "attention"
    kind: Kind = "cross"

    def _repr_svg_(self) -> str:
        drawn = plots.attention(self.trace, self.layer, self.head, self.rows, self.measure, kind=self.kind)
        return plots.svg(drawn)

    def _repr_html_(self) -> str:
        seen = view(self.trace, self.layer, self.head, kind=self.kind, rows=self.rows, measure=self.measure)
        caption = escape(seen.with_sink_share().caption, quote=True)
        chosen = Choice(self.kind, self.layer, self.head, self.rows, self.measure)
        every = escape(page(self.trace, chosen))
        # The frame is a page of its own, without the notebook's rights; a viewer that strips it leaves the picture.
        frame = f'<iframe sandbox="allow-scripts" width="100%" height="720" srcdoc="{every}"></iframe>'
        return (
            f'<figure role="group" aria-label="{caption}">{self._repr_svg_()}</figure>'
            f"<details><summary>The map as a table</summary>{table(seen)}</details>"
            f"<details><summary>Every map, to choose from</summary>{frame}</details>"
        )
