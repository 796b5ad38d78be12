from collections.abc import Callable
from html import escape

from dragoman.inspection.notebook import Shown
from dragoman.inspection.page import page
from dragoman.inspection.trace import Trace


def test_a_notebook_shows_a_still_picture_first_and_the_page_in_a_frame_without_rights(
    traced: Callable[..., Trace],
) -> None:
    trace = traced()
    shown = Shown(trace, layer=0, head=1)
    html = shown._repr_html_()
    assert html.index("<svg") < html.index("<table>") < html.index("<iframe")
    assert '<iframe sandbox="allow-scripts"' in html
    assert f'srcdoc="{escape(page(trace))}"' in html
    assert "decoder.layers.0.cross_attention, head 1 of 3" in html
    still = html[: html.index("<details>")]
    assert "<script" not in still
    assert shown._repr_svg_() in still
