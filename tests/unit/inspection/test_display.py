import subprocess
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from dragoman.inspection.display import MapDisplay
from dragoman.inspection.trace import Trace
from dragoman.inspection.trace_page import trace_page
from dragoman.inspection.view import MapChoice

GOLDEN = Path(__file__).parents[2] / "golden"


def test_a_notebook_shows_a_still_picture_first_and_the_page_in_a_frame_without_rights(
    traced: Callable[..., Trace],
) -> None:
    trace = traced()
    choice = MapChoice("cross", 0, 1, "written", "attention")
    shown = MapDisplay(trace, choice)
    html = shown._repr_html_()
    assert html.index("<svg") < html.index("<iframe")
    assert '<iframe sandbox="allow-scripts"' in html
    page = unescape(html.split('srcdoc="')[1].split('"')[0])
    head, _, rest = trace_page(trace, choice).partition('"trace":')  # a trace file has no fixed order
    assert page.startswith(head)
    assert page.endswith(rest.partition("</script>")[2])
    assert "decoder.layers.0.cross_attention, head 1 of 3" in html
    still = html[: html.index("<iframe")]
    assert "<script" not in still
    assert shown._repr_svg_() in still


MISTAKES = {
    "view(trace, kind='self')": "unknown kind 'self': choose 'cross' or 'encoder' or 'decoder'",
    "view(trace, measure='norms')": "unknown measure 'norms': choose 'attention' or 'norm'",
    "view(trace, rows='wrote')": "unknown rows 'wrote': choose 'written' or 'read'",
    "view(trace, head='first')": "unknown head 'first': give a number from 0, or 'mean'",
    "plots.attention(trace, MapChoice(kind='self'))": "unknown kind 'self': choose 'cross' or 'encoder' or 'decoder'",
    "plots.heads(trace, 'self')": "unknown kind 'self': choose 'cross' or 'encoder' or 'decoder'",
    "plots.heads(trace, measure='norms')": "unknown measure 'norms': choose 'attention' or 'norm'",
    "Inspector.load('nowhere')": (
        "nowhere: there is no such folder; give a folder that dragoman train has written, or `demo`"
    ),
    "inspector.trace(None)": "the source is None, which is not a string: give one sentence",
    "inspector.trace('two red dogs.', 7)": "the target is 7, which is not a string: give one sentence",
}


@pytest.mark.slow
def test_names_of_files_are_taken_as_text_and_mistakes_are_answered_with_the_mend(
    traced: Callable[..., Trace], tmp_path: Path
) -> None:
    traced().save(tmp_path / "a.trace")
    # In a process of its own: here, beartype would refuse them first.
    code = (
        "from dragoman.inspection import plots\n"
        "from dragoman.inspection.inspector import Inspector\n"
        "from dragoman.inspection.html_file import save_text\n"
        "from dragoman.inspection.trace_page import trace_page\n"
        "from dragoman.inspection.view import MapChoice, view\n"
        "from dragoman.inspection.trace import Trace\n"
        "trace = Trace.load('a.trace')\n"
        "trace.save('b.trace'); save_text(trace_page(trace), 'b.html'); plots.save(plots.attention(trace), 'b.svg')\n"
        f"inspector = Inspector.load({str(GOLDEN / 'v1')!r})\n"
        f"for line in {list(MISTAKES)!r}:\n"
        "    try:\n"
        "        eval(line)\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stderr == ""
    assert done.stdout.splitlines() == list(MISTAKES.values())
    assert {path.name for path in tmp_path.iterdir()} == {"a.trace", "b.trace", "b.html", "b.svg"}
