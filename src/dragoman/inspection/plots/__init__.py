"""Matplotlib plots for papers and notebooks: each function returns the axes of a plot with a caption.

The caption names the measure, the meaning of a row, and the model.
"""

from dragoman.inspection.plots.canvas import save, svg
from dragoman.inspection.plots.evolution_curves import evolution
from dragoman.inspection.plots.maps import aer_grid, attention, heads

__all__ = ["aer_grid", "attention", "evolution", "heads", "save", "svg"]
