"""Lab in a real browser: the stored numbers, the keys, a guess before the verdict, and nothing for axe to find."""

import re
import shlex
from pathlib import Path

import pytest
from browser import AXE, CHROMIUM, CODES, LOOKS, Browser

from dragoman.lab.result_page import format_number
from dragoman.lab.run_experiment import ExperimentResult, experiment_names, read_result
from dragoman.studio.lab_and_course import LabExperiment, load_lab

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

RESULTS = Path(__file__).parents[3] / "docs" / "lab"
CODES |= {"/": 191, "[": 219, "]": 221, "7": ord("7"), "9": ord("9")}
LISTED = "[...document.querySelectorAll('.list li')].map((one) => [one.id.slice(4), one.lastElementChild.innerText])"
SELECT = "document.querySelector('[role=search] select')"


def opened(browser: Browser, address: str, fragment: str = "") -> None:
    page, _, token = address.partition("#")
    browser.request("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.request("Page.navigate", url=f"{page}#{token}&view=lab{fragment}")
    browser.until("document.querySelector('.list, article') !== null")


def press(browser: Browser, *keys: str) -> None:
    browser.run("document.activeElement.blur()")
    browser.press(*keys)


def rows(browser: Browser) -> list[list[str]]:
    """The cells of the table of numbers, as they are read."""
    cells = "[...document.querySelectorAll('article > section tbody tr')].slice(0, {})"
    count = browser.run("document.querySelector('article > section table').tBodies[0].rows.length")
    return list(
        browser.run(
            f"{cells.format(count)}.map((row) => [row.cells[0].innerText, row.querySelector('b')?.innerText ?? '', "
            "row.querySelector('small')?.innerText ?? '', row.cells[2].innerText])"
        )
    )


def expected(shown: LabExperiment, result: ExperimentResult) -> list[list[str]]:
    names = [criterion.number for criterion in result.criteria]
    parts = [
        f"{one.reason}: {shown.numbers[one.number]} is {one.side} {format_number(one.bound)}" for one in result.criteria
    ]
    rest = [name for name in shown.numbers if name not in names]
    outcomes = {True: "met", False: "refuted", None: "undecided"}
    ends = [outcomes[one.is_met(result.intervals[one.number])] for one in result.criteria]
    table = []
    for name, text, end in zip(
        [*names, *rest],
        [*parts, *(shown.numbers[name] for name in rest)],
        [*ends, *["no rule"] * len(rest)],
        strict=True,
    ):
        interval = result.intervals[name]
        whole = f"{format_number(interval.low)} to {format_number(interval.high)}"
        spread = "the same for every seed" if interval.low == interval.high else whole
        table.append([text, format_number(interval.mean), spread, end])
    return table


def test_all_experiments_are_listed_with_their_verdicts_and_can_be_filtered(browser: Browser, address: str) -> None:
    opened(browser, address)
    signs = {"holds": "✓", "depends": "◐", "fails as told": "✗", "not run": "·"}
    verdicts = {one.name: one.verdict or "not run" for one in load_lab().experiments}
    assert browser.run(LISTED) == [[name, f"{signs[verdict]} {verdict}"] for name, verdict in verdicts.items()]
    assert list(verdicts) == experiment_names()
    browser.run(f"{SELECT}.value = 'holds'; {SELECT}.dispatchEvent(new Event('change', {{bubbles: true}}))")
    held = [name for name, verdict in verdicts.items() if verdict == "holds"]
    browser.until(f"document.querySelectorAll('.list li').length === {len(held)}")
    assert [name for name, _ in browser.run(LISTED)] == held
    press(browser, "/")
    for key in "root":
        browser.request("Input.dispatchKeyEvent", type="keyDown", key=key, text=key, windowsVirtualKeyCode=ord(key))
    browser.until("document.querySelectorAll('.list li').length === 1")
    browser.until("/verdict=holds/.test(location.hash) && /find=root/.test(location.hash)")
    assert browser.text("footer code") == "dragoman lab"
    assert browser.complaints == []
    assert all(url.startswith(("http://127.0.0.1:", "about:")) for url in browser.requested)


def test_the_numbers_of_every_experiment_are_those_stored(browser: Browser, address: str) -> None:
    all_shown = load_lab().experiments
    opened(browser, address, f"&experiment={all_shown[0].name}")
    for number, shown in enumerate(all_shown):
        browser.until(f"document.querySelector('h2').innerText === {shown.name!r}")
        assert shlex.split(browser.text("footer code")) == ["dragoman", "lab", "run", shown.name]
        assert browser.run("document.querySelectorAll('.plot').length") == len(shown.panels)
        if shown.verdict is not None:
            assert rows(browser) == expected(shown, read_result(RESULTS / f"{shown.name}.json"))
            assert browser.text(".badge").endswith(shown.verdict)
            lesson = re.sub(r"\s+", " ", "".join(span.text for span in shown.lesson))
            assert lesson in re.sub(r"\s+", " ", browser.text(".verdict"))
        for panel, drawn in zip(shown.panels, range(len(shown.panels)), strict=True):
            figure = f"document.querySelectorAll('figure')[{drawn}]"
            lines = browser.run(f"[...{figure}.querySelectorAll('.key strong')].map((one) => one.innerText)")
            assert lines == [format_number(line.mean[-1]) for line in panel.lines]
            cells = browser.run(f"[...{figure}.querySelectorAll('td')].map((one) => one.firstChild.data)")
            by_x = zip(*(line.mean for line in panel.lines), strict=True)
            assert cells == [format_number(mean) for means in by_x for mean in means]
        if number < len(all_shown) - 1:
            press(browser, "]")
    assert browser.complaints == []


def test_points_are_where_their_numbers_are(browser: Browser, address: str) -> None:
    """Between two labels of an axis, a point is as far as its number, or the logarithm of its number, says."""
    opened(browser, address, "&experiment=square-root")
    entropy = next(one for one in load_lab().experiments if one.name == "square-root").panels[0]
    heights = browser.run(
        "[...document.querySelector('.plot').querySelectorAll('circle')].map((one) => [+one.getAttribute('cx'), "
        "+one.getAttribute('cy')])"
    )
    marks = browser.run(
        "[...document.querySelector('.plot').querySelectorAll('.grid')].map((one) => [+one.getAttribute('y1'), "
        "+one.nextElementSibling.textContent])"
    )
    (low_y, low), (high_y, high) = marks[0], marks[-1]
    means = [mean for line in entropy.lines for mean in line.mean]
    for (_, y), mean in zip(heights, means, strict=True):
        assert low + (y - low_y) / (high_y - low_y) * (high - low) == pytest.approx(mean, abs=1e-3)
    x = [place for place, _ in heights[: len(entropy.x)]]
    assert (x[1] - x[0]) / (x[2] - x[1]) == pytest.approx(1, abs=1e-3)  # from 4 to 16 is as far as from 16 to 64


def test_keys_open_an_experiment_and_return_to_the_list(browser: Browser, address: str) -> None:
    opened(browser, address)
    second = experiment_names()[1]
    press(browser, "ArrowDown", "ArrowDown", "Enter")
    browser.until(f"document.querySelector('h2')?.innerText === {second!r}")
    assert f"experiment={second}" in browser.run("location.hash")
    press(browser, "[")
    browser.until(f"document.querySelector('h2').innerText === {experiment_names()[0]!r}")
    browser.run("history.back()")
    browser.until(f"document.querySelector('h2').innerText === {second!r}")
    press(browser, "Escape")
    browser.until(f"document.activeElement.innerText === {second!r}")
    browser.run("history.back()")
    browser.until(f"document.querySelector('h2')?.innerText === {second!r}")


def test_a_guess_comes_before_the_verdict(browser: Browser, address: str) -> None:
    opened(browser, address)
    browser.run("document.querySelector('[role=search] input[type=checkbox]').click()")
    browser.until("/guess=1/.test(location.hash)")
    assert not re.search("holds|depends|fails", " ".join(verdict for _, verdict in browser.run(LISTED)))
    browser.run("document.querySelector('#lab-square-root button').click()")
    browser.until("document.querySelector('.guess') !== null")
    assert "Prediction" not in browser.text("article")
    assert browser.run("document.querySelector('table, .plot, .badge') === null")
    browser.run("document.querySelectorAll('.guess button')[1].click()")
    browser.until("document.querySelector('.verdict') !== null")
    assert re.search("depends.*holds", browser.text(".guessed"))
    press(browser, "Escape")
    browser.until("document.querySelector('.list') !== null")
    assert [name for name, verdict in browser.run(LISTED) if "holds" in verdict] == ["square-root"]


def test_an_unknown_experiment_says_so(browser: Browser, address: str) -> None:
    page, _, token = address.partition("#")
    browser.request("Page.navigate", url="about:blank")
    browser.request("Page.navigate", url=f"{page}#{token}&view=lab&experiment=no-such")
    browser.until("/no experiment no-such/.test(document.querySelector('main')?.innerText)")
    browser.run("document.querySelector('main button.plain').click()")
    browser.until("document.querySelector('.list') !== null")


@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_and_nothing_overflows(browser: Browser, address: str, look: str) -> None:
    with browser.look(look) as width:
        for fragment in ("", "&experiment=layer-costs", "&experiment=gradient-distance&guess=1"):
            opened(browser, address, fragment)
            browser.run("for (const one of document.querySelectorAll('summary')) one.click(); 0")
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert browser.violations() == []


def test_tab_reaches_everything(browser: Browser, address: str) -> None:
    opened(browser, address)
    names = browser.check_tour()
    assert set(experiment_names()) <= set(names)
    opened(browser, address, "&experiment=layer-costs")
    browser.run("for (const one of document.querySelectorAll('summary')) one.click(); 0")
    names = browser.check_tour()
    assert "All experiments" in names
    assert sum("Numbers of" in name for name in names) == 2
