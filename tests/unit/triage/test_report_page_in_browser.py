"""The report of a triage in a real browser: from a file, without network, by keyboard, on to the traces and back."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from browser import AXE, CHROMIUM, CODES, LOOKS, Browser

from dragoman.alignment.tokens import Tokens
from dragoman.inspection.html_file import save_text
from dragoman.inspection.trace import Trace
from dragoman.inspection.trace_page import trace_page
from dragoman.triage.calibration import load_calibration
from dragoman.triage.model_signals import LABELS, ModelReadings
from dragoman.triage.ranking import TranslationPair, TriageMethod, TriageResult, rank_pairs
from dragoman.triage.report_page import report, trace_note
from dragoman.triage.text_flags import FlagRules

Traced = Callable[..., Trace]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

PATIENCE_S = 60.0
CODES |= {"/": 191}
PAIRS = [
    TranslationPair("He has 300 dogs.", "Er hat 500 Hunde."),
    TranslationPair("He has 7 cats \U0001f600.", "\U0001f600 Er hat Er hat 8 Katzen."),
    TranslationPair("A dog.", "Ein Hund."),
]
METHOD = TriageMethod(FlagRules())
FOCUSED = "document.activeElement.textContent"
NUMBERS = "[...document.querySelectorAll('ol > li')].map((one) => +one.id.slice(5))"


def measured(pair: TranslationPair, *log_probabilities: float) -> TranslationPair:
    """A pair with the readings of a made-up model."""
    tokens = Tokens(pair.source, (0, 1), ("x", "</s>"), ((0, 1), (1, 1)), (0, -1))
    return pair._replace(readings=ModelReadings(tokens, np.array(log_probabilities), ("Ein Tier.",), 0.7, 0.3))


def until(browser: Browser, expression: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not browser.run(expression):
        assert time.monotonic() < end, f"{expression}: {browser.run('document.body.innerText')}"
        time.sleep(0.05)


def shown(
    browser: Browser,
    folder: Path,
    pairs: Sequence[TranslationPair] = PAIRS,
    pages: Mapping[int, str] | None = None,
) -> list[TriageResult]:
    ranked = rank_pairs(pairs, calibration=load_calibration())
    save_text(report(ranked, METHOD, pages), folder / "a report.html")
    browser.open(folder / "a report.html")
    until(browser, "document.querySelector('ol > li') !== null")
    return ranked


def choose(browser: Browser, label: str, value: str) -> None:
    """Set the field with this label as a user does."""
    element = f"[...document.querySelectorAll('label')].find((one) => one.innerText.startsWith({label!r})).control"
    events = "for (const kind of ['input', 'change']) field.dispatchEvent(new Event(kind, {bubbles: true}))"
    browser.run(f"{{const field = {element}; field.value = {value!r}; {events}}}; 0")


def tab_to(browser: Browser, text: str) -> None:
    """Fails if Tab does not get there before it comes round."""
    for _ in range(20):
        browser.press("Tab")
        if browser.run(FOCUSED) == text:
            return
    pytest.fail(f"Tab does not lead to {text!r}")


@contextmanager
def screen(browser: Browser, width: int, is_dark: bool = False) -> Iterator[None]:
    browser.request("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=True)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
    browser.request("Emulation.setEmulatedMedia", features=[scheme])
    try:
        yield
    finally:
        browser.request("Emulation.setEmulatedMedia", features=[])
        browser.request("Emulation.clearDeviceMetricsOverride")


def test_it_opens_from_a_file_asks_for_nothing_and_has_no_complaints(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path)
    assert browser.requested == [(tmp_path / "a report.html").as_uri()]
    assert browser.complaints == []
    assert browser.run(NUMBERS) == [2, 1, 3]
    # The style was let in by its hash.
    assert browser.run("getComputedStyle(document.querySelector('mark')).backgroundColor") == "rgb(255, 223, 148)"
    assert browser.run("[...document.querySelectorAll('mark')].map((one) => one.textContent)") == [
        "7",
        "Er hat Er hat",
        "8",
        "300",
        "500",
    ]


def test_every_number_is_pythons(browser: Browser, tmp_path: Path) -> None:
    pairs = [measured(PAIRS[0], -0.125, -2.5), PAIRS[1], measured(PAIRS[2], -3.0, -0.375)]
    ranked = shown(browser, tmp_path, pairs)
    assert any(line.signals for line in ranked)
    assert browser.run("[...document.querySelectorAll('.toggle strong')].map((one) => one.lastChild.data)") == [
        f"{line.score:.2f}" for line in ranked
    ]
    assert browser.run("document.querySelectorAll('li table').length") == 0
    browser.run("for (const button of document.querySelectorAll('.toggle')) button.click(); 0")
    for line in ranked:
        rows = f"[...document.querySelectorAll('#line-{line.number} tbody tr')]"
        assert browser.run(f"{rows}.map((row) => [...row.cells].map((cell) => cell.innerText))") == [
            [LABELS[each.name], f"{each.value:.2f}", f"{each.usual:.2f}", f"{each.effect:+.1f}"]
            for each in line.signals
        ]
        evidence = f"[...document.querySelectorAll('#line-{line.number} ul li')].map((one) => one.innerText)"
        assert browser.run(evidence) == [f"{flag.name} {flag.severity:.2f}: {flag.evidence}" for flag in line.flags]


def test_lines_are_filtered_and_sorted(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path)
    choose(browser, "Order", "line")
    assert browser.run(NUMBERS) == [1, 2, 3]
    choose(browser, "Flags", "repeated")
    assert browser.run(NUMBERS) == [2]
    choose(browser, "Flags", "")
    choose(browser, "Score", "0.5")
    assert browser.run(NUMBERS) == [1, 2]
    choose(browser, "Text", "katzen")
    assert browser.run(NUMBERS) == [2]
    assert browser.text("[role=status]") == "1 of 3 lines"


def test_thousands_of_lines_are_drawn_by_pages(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, PAIRS * 2000)
    assert browser.run("document.querySelectorAll('ol > li').length") == 200
    assert browser.text("[role=status]") == "6,000 of 6,000 lines"
    first = browser.run(NUMBERS)
    start = time.monotonic()
    choose(browser, "Order", "line")
    assert browser.run(NUMBERS) == list(range(1, 201))
    assert time.monotonic() - start < 2
    choose(browser, "Order", "score")
    browser.run("[...document.querySelectorAll('nav button')].at(-1).click()")
    until(browser, "document.querySelector('nav span').innerText === '201 to 400'")
    assert not set(first) & set(browser.run(NUMBERS))


def test_by_keyboard_a_trace_is_reached_and_leads_back(browser: Browser, traced: Traced, tmp_path: Path) -> None:
    folder = tmp_path / "a report_traces"
    folder.mkdir()
    ranked = rank_pairs(PAIRS, calibration=load_calibration())
    note = trace_note(next(line for line in ranked if line.number == 1), "../a report.html")
    save_text(trace_page(traced(), note=note), folder / "line-1.html")
    shown(browser, tmp_path, pages={1: "a report_traces/line-1.html"})
    browser.press("ArrowDown", "ArrowDown")
    assert browser.run("document.activeElement.closest('li').id") == "line-1"
    browser.press("ArrowUp", "End", "ArrowUp", "Enter")
    assert browser.run("document.activeElement.getAttribute('aria-expanded')") == "true"
    tab_to(browser, "Open the trace of line 1")
    browser.events.clear()
    browser.press("Enter")
    browser.wait("Page.loadEventFired")
    assert browser.run("location.href") == (folder / "line-1.html").as_uri()
    assert browser.complaints == []
    tab_to(browser, "Back to line 1 of the report")
    browser.events.clear()
    browser.press("Enter")
    browser.wait("Page.loadEventFired")
    until(browser, "document.querySelector('.here') !== null")
    assert browser.run("document.querySelector('.here').id") == "line-1"


def test_the_slash_goes_to_the_filter(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path)
    browser.press("/")
    assert browser.run("document.activeElement.type") == "search"


def test_hostile_text_is_only_text(browser: Browser, tmp_path: Path) -> None:
    source = '<img src=x onerror="window.harmed=1"> 17 </dd><script>window.harmed=1</script>'
    shown(browser, tmp_path, [TranslationPair(source, "<style>*{display:none}</style> 18")])
    assert browser.run("window.harmed === undefined")
    assert browser.run("document.querySelector('li p').textContent") == source
    assert browser.complaints == []


def test_without_scripts_it_is_a_table(browser: Browser, tmp_path: Path) -> None:
    save_text(report(rank_pairs(PAIRS), METHOD, {1: "a.html"}), tmp_path / "a report.html")
    browser.request("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(tmp_path / "a report.html")
    finally:
        browser.request("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("[...document.querySelectorAll('tbody tr')].map((row) => row.id)") == ["line-2", "line-1"]
    assert browser.run("document.querySelector('tbody a').getAttribute('href')") == "a.html"


@pytest.mark.parametrize("width", [360, 1000])
def test_it_fits_a_narrow_screen_and_a_wide_one(browser: Browser, tmp_path: Path, width: int) -> None:
    with screen(browser, width):
        long = TranslationPair(f"{'x' * 300} 17 www.{'long' * 60}.org", f"{'y' * 300} 18")
        shown(browser, tmp_path, [long, *PAIRS], {1: f"{'z' * 300}.html"})
        browser.run("for (const button of document.querySelectorAll('.toggle')) button.click(); 0")
        assert browser.run("document.documentElement.scrollWidth") == width


@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_and_nothing_overflows(browser: Browser, tmp_path: Path, look: str) -> None:
    with browser.look(look) as width:
        shown(browser, tmp_path, [measured(PAIRS[0], -0.1, -2.5), *PAIRS[1:]] * 70, {1: "a.html"})
        browser.run("for (const one of document.querySelectorAll('.toggle, summary')) one.click(); 0")
        assert browser.violations() == []
        assert browser.run("document.documentElement.scrollWidth") <= width


def test_tab_reaches_everything(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, [measured(PAIRS[0], -0.1, -2.5), *PAIRS[1:]], {1: "a.html"})
    browser.run("for (const one of document.querySelectorAll('.toggle, summary')) one.click(); 0")
    assert "Open the trace of line 1" in browser.check_tour()
