"""An explanation as one self-contained HTML file: the studio's viewer, opened at its Cell screen."""

from dragoman.inspection.cell import describe_cell
from dragoman.inspection.explanation.explain import Explanation
from dragoman.inspection.explanation.terminal_text import plain_text
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.trace_page import trace_page
from dragoman.inspection.view import MapChoice


def page(inspector: Inspector, explanation: Explanation) -> str:
    """Return the HTML page of an explanation, with the maps of the whole sentence.

    If the explanation has no target, as in the encoder, the maps are those of the model's own translation.
    """
    target, layer = explanation.target, explanation.layer
    if target is None or explanation.free:
        trace = inspector.trace(explanation.source.text, history=True)
    else:
        trace = inspector.capture(explanation.source, target)
    choice = MapChoice(layer.kind, layer.layer, explanation.head)
    return trace_page(trace, choice, cell=describe_cell(explanation), printed=plain_text(explanation))
