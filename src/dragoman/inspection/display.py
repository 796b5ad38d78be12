"""An attention map for a notebook or a terminal, as returned by `Trace.show`."""

from dataclasses import dataclass
from html import escape
from typing import Final

from rich.console import Console

from dragoman.inspection.terminal import HeatMap
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import MapChoice

_IN_ONE_CELL: Final = "grid-area: 1 / 1; min-width: 0; margin: 0; overflow: hidden"
_FRAME: Final = "grid-area: 1 / 1; width: 100%; min-height: 760px; height: 100%; border: 0"


@dataclass(frozen=True, repr=False)
class MapDisplay:
    """An attention map for notebooks and terminals; a notebook also shows an interactive page with all maps."""

    trace: Trace
    choice: MapChoice

    def __repr__(self) -> str:
        """Return the map as text for a terminal."""
        console = Console(width=100, highlight=False)
        with console.capture() as captured:
            console.print(HeatMap(self.choice.view(self.trace), colour=False))
        return captured.get()

    def _repr_svg_(self) -> str:
        from dragoman.inspection import plots

        return plots.svg(plots.attention(self.trace, self.choice))

    def _repr_html_(self) -> str:
        from dragoman.inspection.trace_page import map_table, trace_page

        shown = self.choice.view(self.trace)
        # The frame is a page of its own, without the notebook's rights. It covers the picture; where a viewer strips
        # frames, the picture is there.
        page = escape(trace_page(self.trace, self.choice))
        return (
            '<div style="display: grid; grid-template-columns: minmax(0, 1fr)">'
            f'<figure role="group" aria-label="{escape(shown.caption, quote=True)}" style="{_IN_ONE_CELL}">'
            f"{self._repr_svg_()}</figure>"
            f'<iframe sandbox="allow-scripts" title="All attention maps" style="{_FRAME}" srcdoc="{page}"></iframe>'
            "</div>"
            f"<details><summary>The map as a table</summary>{map_table(shown)}</details>"
        )
