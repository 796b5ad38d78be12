"""An attention map for a notebook or a terminal, as returned by `Trace.show`."""

from dataclasses import dataclass
from html import escape

from rich.console import Console

from dragoman.inspection.terminal import HeatMap
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import MapChoice


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
        from dragoman.inspection.page import map_table, page

        shown = self.choice.view(self.trace)
        every = escape(page(self.trace, self.choice))
        # The frame is a page of its own, without the notebook's rights; a viewer that strips it leaves the picture.
        frame = f'<iframe sandbox="allow-scripts" width="100%" height="720" srcdoc="{every}"></iframe>'
        return (
            f'<figure role="group" aria-label="{escape(shown.caption, quote=True)}">{self._repr_svg_()}</figure>'
            f"<details><summary>The map as a table</summary>{map_table(shown)}</details>"
            f"<details><summary>Every map, to choose from</summary>{frame}</details>"
        )
