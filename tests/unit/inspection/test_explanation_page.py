"""The explanation as a page: complete, harmless, and usable in a real browser by keyboard and on a narrow screen."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser

from dragoman.inspection.explanation import Explanation, explain
from dragoman.inspection.explanation.explanation_page import formula, page, prose
from dragoman.inspection.explanation.worksheet import Table, format_number
from dragoman.inspection.inspector import Inspector

INSPECTOR = Inspector.load(Path(__file__).parents[2] / "golden" / "v1")
HOSTILE = "</script><script>alert(1) <!-- \"'><b> $x &lt; <img/src> two"


def lesson(**options: Any) -> Explanation:
    return explain(INSPECTOR, "two red dogs.", "zwei rote Hunde.", kind="decoder", **options)


class Elements(HTMLParser):
    """Which elements a browser would see, the text of scripts and styles, and all other text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.raw: dict[str, str] = {}
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "rect"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "rect":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.names and self.names[-1] in {"script", "style"} and data.strip():
            self.raw[self.names[-1]] = data
        else:
            self.text += data


def test_every_step_and_every_printed_number_is_on_the_page() -> None:
    shown = lesson()
    seen = Elements(page(shown))
    assert seen.open == []
    text = " ".join(seen.text.replace("\N{MINUS SIGN}", "-").split())
    for step in shown.steps:
        for text_part in (step.section, re.sub(r"[_^]", "", step.why), re.sub(r"[_^]", "", step.title)):
            assert text_part in text
        for block in step.blocks:
            rows = block.rows if isinstance(block, Table) else ()
            assert all(format_number(cell) in text for row in rows for cell in row.cells)
    assert shown.caveats in text
    assert all(line in text for line in shown.choices)


def test_all_numbers_of_a_vector_can_be_opened() -> None:
    shown = lesson()
    query = " ".join(f"{number:.6f}" for number in shown.recomputed.query).replace("-", "\N{MINUS SIGN}")
    assert query in page(shown)


def test_no_word_becomes_an_element() -> None:
    tame = Elements(page(explain(INSPECTOR, "a" * 3 + " two", word="two")))
    hostile = Elements(page(explain(INSPECTOR, HOSTILE, word="two")))
    assert hostile.names.count("script") == tame.names.count("script") == 1
    assert set(hostile.names) == set(tame.names)
    assert hostile.names.count("b") == hostile.names.count("img") == 0
    assert "alert(1)" in hostile.text


def test_nothing_runs_but_our_script_and_nothing_is_requested_from_a_network() -> None:
    text = page(lesson())
    seen = Elements(text)
    policy = re.search(r'Policy" content="([^"]*)"', text)[1]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none';")
    for kind in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(seen.raw[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert {name for name, _ in seen.attributes} & {"src", "style", "onclick", "onload"} == set()
    assert {value[0] for name, value in seen.attributes if name == "href"} == {"#"}
    assert "http:" not in text
    assert "https:" not in text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("W^Q", "<i>W</i><sup><i>Q</i></sup>"),
        ("√d_k", "√<i>d</i><sub><i>k</i></sub>"),
        ("d_model", "<i>d</i><sub>model</sub>"),
        ("10000^{2i/d_model}", "10000<sup>2<i>i</i>/<i>d</i><sub>model</sub></sup>"),
        ("s_{i-1}", "<i>s</i><sub><i>i</i>\N{MINUS SIGN}1</sub>"),
        ("exp(s_j) < 1", "exp(<i>s</i><sub><i>j</i></sub>) &lt; 1"),
    ],
)
def test_formulas_are_set_with_high_and_low_letters(given: str, expected: str) -> None:
    assert formula(given) == expected


def test_a_word_of_the_users_is_not_taken_for_a_formula() -> None:
    assert prose("snake_case x^2 <b>") == "snake_case x^2 &lt;b&gt;"
    assert prose("columns of W^Q: -0.5") == "columns of <i>W</i><sup><i>Q</i></sup>: \N{MINUS SIGN}0.5"


@pytest.mark.parametrize("letters", ["日本語", "שלום", "naïve"])
def test_any_script_is_shown_as_it_is(letters: str) -> None:
    text = page(explain(INSPECTOR, f"{letters} two", word="0"))
    assert f"<strong>{letters}</strong> two" in text


needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")


def opened(browser: Browser, folder: Path, shown: Explanation) -> None:
    (folder / "lesson.html").write_text(page(shown), encoding="utf-8")
    browser.open(folder / "lesson.html")


@needs_browser
def test_it_opens_from_a_file_without_requests_and_errors(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, lesson())
    assert browser.requested == [(tmp_path / "lesson.html").as_uri()]
    assert browser.complaints == []
    assert browser.run("getComputedStyle(document.querySelector('.look')).display") == "flex"


@pytest.mark.slow
@needs_browser
def test_the_arrow_keys_turn_the_steps(browser: Browser, tmp_path: Path) -> None:
    shown = lesson()
    opened(browser, tmp_path, shown)
    for keys, step in [
        (["ArrowRight"], 1),
        (["ArrowRight", "ArrowRight"], 3),
        (["ArrowLeft"], 2),
        (["ArrowLeft"] * 5, 1),
        (["ArrowRight"] * 15, len(shown.steps)),
    ]:
        browser.press(*keys)
        assert browser.run("document.activeElement.id") == f"step-{step}"
        assert browser.run("location.hash") == f"#step-{step}"
        marked = "[...document.querySelectorAll('nav [aria-current]')].map((link) => link.getAttribute('href'))"
        assert browser.run(marked) == [f"#step-{step}"]


@needs_browser
def test_by_tab_every_step_table_and_detail_is_reached(browser: Browser, tmp_path: Path) -> None:
    shown = lesson()
    opened(browser, tmp_path, shown)
    browser.press("Tab")
    assert browser.run("document.activeElement.getAttribute('href')") == "#step-1"
    browser.press(*["Tab"] * len(shown.steps))
    assert browser.run("document.activeElement.className") == "scroll"
    browser.press("Tab")
    assert browser.run("document.activeElement.tagName") == "SUMMARY"


@needs_browser
@pytest.mark.parametrize("width", [320, 500, 1280])
def test_nothing_sticks_out_of_a_narrow_screen(browser: Browser, tmp_path: Path, width: int) -> None:
    opened(browser, tmp_path, explain(INSPECTOR, "two red dogs and ten old houses at four green tables."))
    browser.request("Emulation.setDeviceMetricsOverride", width=width, height=700, deviceScaleFactor=1, mobile=False)
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.request("Emulation.clearDeviceMetricsOverride")
