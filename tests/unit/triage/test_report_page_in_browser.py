"""The report of a triage in a real browser: from a file, without network, by keyboard, on to the traces."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser

from dragoman.inspection.html_file import save_text
from dragoman.inspection.trace import Trace
from dragoman.inspection.trace_page import trace_page
from dragoman.triage.ranking import TranslationPair, TriageMethod, rank_pairs
from dragoman.triage.report_page import report
from dragoman.triage.text_flags import FlagRules

Traced = Callable[..., Trace]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

PAIRS = [
    TranslationPair("He has 300 dogs.", "Er hat 500 Hunde."),
    TranslationPair("He has 7 cats.", "Er hat Er hat 8 Katzen."),
]
FOCUSED = "document.activeElement.textContent"


def shown(
    browser: Browser, folder: Path, pairs: Sequence[TranslationPair] = PAIRS, pages: Mapping[int, str] | None = None
) -> Path:
    path = folder / "a report.html"
    save_text(report(rank_pairs(pairs), TriageMethod(FlagRules()), pages), path)
    browser.open(path)
    return path


def tab_to(browser: Browser, text: str) -> None:
    """Fails if Tab does not get there before it comes round."""
    for _ in range(20):
        browser.press("Tab")
        if browser.run(FOCUSED) == text:
            return
    pytest.fail(f"Tab does not lead to {text!r}")


def test_it_opens_from_a_file_asks_for_nothing_and_has_no_complaints(browser: Browser, tmp_path: Path) -> None:
    path = shown(browser, tmp_path)
    assert browser.requested == [path.as_uri()]
    assert browser.complaints == []
    assert browser.run("[...document.querySelectorAll('article h2')].map((one) => one.textContent.slice(0, 6))") == [
        "Line 2",
        "Line 1",
    ]
    # The style was let in by its hash.
    assert browser.run("getComputedStyle(document.querySelector('mark')).backgroundColor") == "rgb(255, 224, 138)"
    assert browser.run("[...document.querySelectorAll('mark')].map((one) => one.textContent)") == [
        "7",
        "Er hat Er hat",
        "8",
        "300",
        "500",
    ]


def test_by_keyboard_a_trace_is_reached_and_works(browser: Browser, traced: Traced, tmp_path: Path) -> None:
    folder = tmp_path / "a report_traces"
    folder.mkdir()
    save_text(trace_page(traced()), folder / "line-2.html")
    shown(browser, tmp_path, pages={2: "a report_traces/line-2.html"})
    tab_to(browser, "Open the trace of line 2")
    browser.events.clear()
    browser.press("Enter")
    browser.wait("Page.loadEventFired")
    assert browser.run("location.href") == (folder / "line-2.html").as_uri()
    assert browser.complaints == []
    for _ in range(60):
        browser.press("Tab")
        if browser.run("document.activeElement.role") == "application":
            break
    before = browser.text("figure [role=status]")
    browser.press("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown")
    assert browser.text("figure [role=status]") != before


def test_from_each_flag_the_keyboard_leads_to_its_lines(browser: Browser, tmp_path: Path) -> None:
    path = shown(browser, tmp_path)
    tab_to(browser, "1")
    browser.press("Enter")
    assert browser.run("location.href") == f"{path.as_uri()}#line-1"
    assert browser.run("document.querySelector(':target h2').textContent").startswith("Line 1")


def test_hostile_text_is_only_text(browser: Browser, tmp_path: Path) -> None:
    source = '<img src=x onerror="window.harmed=1"> 17 </dd><script>window.harmed=1</script>'
    shown(browser, tmp_path, [TranslationPair(source, "<style>*{display:none}</style> 18")])
    assert browser.run("window.harmed === undefined")
    assert browser.run("document.querySelector('dd').textContent") == source
    assert browser.complaints == []


@pytest.mark.parametrize("width", [360, 1000])
def test_it_fits_a_narrow_screen_and_a_wide_one(browser: Browser, tmp_path: Path, width: int) -> None:
    browser.request("Emulation.setDeviceMetricsOverride", width=width, height=700, deviceScaleFactor=1, mobile=True)
    try:
        long = TranslationPair(f"{'x' * 300} 17 www.{'long' * 60}.org", f"{'y' * 300} 18")
        shown(browser, tmp_path, [long, *PAIRS], {1: f"{'z' * 300}.html"})
        assert browser.run("document.documentElement.scrollWidth") == width
    finally:
        browser.request("Emulation.clearDeviceMetricsOverride")
