"""Pictures for paper and notebook: each function takes `ax`, draws on it and gives it back, with a caption that says
what is measured, how the rows are to be read and which model it was.
"""

from dragoman.inspection.plots.alignment import alignment
from dragoman.inspection.plots.attention import attention, contributions, heads
from dragoman.inspection.plots.curves import evolution, source_share
from dragoman.inspection.plots.grid import aer_grid
from dragoman.inspection.plots.saving import save, svg
from dragoman.inspection.plots.tree import beam_tree

__all__ = [
    "aer_grid",
    "alignment",
    "attention",
    "beam_tree",
    "contributions",
    "evolution",
    "heads",
    "save",
    "source_share",
    "svg",
]
