"""The studio in a real browser: its numbers are Python's, its commands print the same, and everyone can use it."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from browser import AXE, CHROMIUM, CODES, LOOKS, Browser
from typer.testing import CliRunner

from dragoman.bundle import demo_folder
from dragoman.cli.main import app
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.interventions import HeadsOff
from dragoman.inspection.view import MapChoice

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

PATIENCE_S = 120.0
TEXT = "A woman is reading a book in the garden."
LONG = " ".join(["Two young men in blue shirts are standing on a wet street,"] * 4)
HOSTILE = "<img src=x onerror=window.harmed=1>'\"\\</script><script>window.harmed=1</script> dogs"
CROSS = "decoder.layers.2.cross_attention"
CODES |= {key: ord(key.upper()) for key in "mprx123456789"}
CODES |= {"/": 191, "[": 219, "]": 221, ",": 188, ".": 190, " ": 32, "?": 191}


@pytest.fixture(scope="module")
def inspector() -> Inspector:
    return Inspector.load(demo_folder())


def opened(browser: Browser, address: str, text: str = TEXT, **fields: object) -> None:
    """The studio with a state in its address, when the picture is complete."""
    page, _, token = address.partition("#")
    fragment = "&".join(f"{name}={quote(str(value))}" for name, value in {"text": text, **fields}.items())
    browser.request("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.request("Page.navigate", url=f"{page}#{token}&{fragment}")
    browser.wait("Page.loadEventFired")
    complete(browser)


def complete(browser: Browser) -> None:
    browser.until("/cross-attention|first choice/.test(document.querySelector('.trust')?.innerText ?? '')")
    browser.until("!document.querySelector('.busy')")


def pressed(browser: Browser, *keys: str) -> None:
    """Outside of every field."""
    browser.run("document.activeElement.blur()")
    for key in keys:
        down = {"type": "keyDown", "text": key} if len(key) == 1 else {"type": "rawKeyDown"}
        for event in (down, {"type": "keyUp"}):
            browser.request("Input.dispatchKeyEvent", key=key, windowsVirtualKeyCode=CODES[key], **event)


def tab_to(browser: Browser, condition: str) -> None:
    """Press Tab until the element with the focus meets a condition."""
    for _ in range(100):
        browser.press("Tab")
        if browser.run(f"((one) => {condition})(document.activeElement)"):
            return
    pytest.fail(f"Tab finds nothing for {condition}")


def numbers(browser: Browser) -> np.ndarray:
    browser.run("document.querySelector('figure details').open = true")
    browser.until("document.querySelector('figure table') !== null")
    rows = "[...document.querySelectorAll('figure tbody tr')]"
    return np.array(browser.run(f"{rows}.map((row) => [...row.querySelectorAll('td')].map((cell) => +cell.innerText))"))


def command(browser: Browser) -> list[str]:
    return shlex.split(browser.run("document.querySelector('footer code').innerText"))


CHOICES = {
    "a head": MapChoice("cross", 2, 1, "written", "attention"),
    "words": MapChoice("cross", 0, 2, "read", "norm", by_word=True),
    "without marks": MapChoice("encoder", 1, "mean", "written", "attention", hide_sinks=True),
    "the decoder": MapChoice("decoder", 0, 0, "read", "norm"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_every_number_of_the_map_is_pythons(browser: Browser, address: str, inspector: Inspector, name: str) -> None:
    choice = CHOICES[name]
    flags = {"words": 1} if choice.by_word else {"hide-marks": 1} if choice.hide_sinks else {}
    opened(
        browser, address, kind=choice.kind, layer=choice.layer, head=choice.head, rows=choice.rows,
        measure=choice.measure, **flags,
    )  # fmt: skip
    expected = choice.view(inspector.trace(TEXT)).matrix
    shown = numbers(browser)
    digits = np.where(expected < 0.1, 0.0005, np.where(expected < 10, 0.005, 0.05))
    # Half precision is exact to 1 in 2,048.
    assert (abs(shown - expected) <= digits + expected / 2048).all()
    assert shown.any()


def test_the_command_prints_what_the_page_shows(browser: Browser, address: str) -> None:
    heads = f"{CROSS}.0,encoder.layers.0.self_attention"
    opened(browser, address, off=heads, kind="cross", layer=1, head=3, rows="read", measure="attention")
    words = command(browser)
    assert words[0] == "dragoman"
    printed = CliRunner().invoke(app, [*words[1:-2], "--csv", "-", *words[-2:]])
    assert printed.exit_code == 0, printed.output
    lines = [line.split(",") for line in printed.stdout.splitlines()]
    table = numbers(browser)
    found = [line[-table.shape[1] :] for line in lines if len(line) > table.shape[1]][-len(table) :]
    np.testing.assert_allclose(table, np.array(found, np.float64), atol=0.006)


def test_a_head_that_is_switched_off_changes_what_it_changes_in_python(
    browser: Browser, address: str, inspector: Inspector
) -> None:
    opened(browser, address, kind="cross", layer=2, head=0)
    pressed(browser, "x")
    browser.until("/changed on purpose/.test(document.querySelector('.trust')?.innerText ?? '')")
    changed = inspector.trace(TEXT, interventions=[HeadsOff(where=CROSS, heads=(0,))])
    trust = browser.text(".trust").replace("\u2212", "-")
    assert f"log-probability {changed.log_probabilities.sum():.2f}" in trust
    assert browser.run(
        "[...document.querySelectorAll('.line.target button')].map((word) => word.innerText).join(' ')"
    ) == (changed.target.text)
    pressed(browser, "4")
    before = inspector.trace(TEXT).log_probabilities.sum()
    shown = browser.text("table").replace("\u2212", "-")
    assert f"{before:.2f}" in shown
    assert f"{changed.log_probabilities.sum():.2f}" in shown
    pressed(browser, "1", "x")
    browser.until("!/changed on purpose/.test(document.querySelector('.trust')?.innerText ?? '')")


def test_a_forced_token_begins_another_translation(browser: Browser, address: str, inspector: Inspector) -> None:
    opened(browser, address, view="theatre")
    trace = inspector.trace(TEXT, history=True)
    token = trace.history[0][1].token
    browser.run("document.querySelector('[data-node=\"0-1\"]').click()")
    browser.until("document.querySelector('.branch') !== null")
    branch = inspector.trace(TEXT, prefix=[token])
    assert branch.target.text != trace.target.text
    assert branch.target.text in browser.text(".branch table")
    assert trace.target.text in browser.text(".branch table")
    assert f"prefix={token}" in browser.run("location.hash")
    assert command(browser)[2:4] == ["--prefix", trace.pieces[token].strip("▁")]


OPERATIONS = {
    "a head off": ({"layer": 2, "head": 0}, ["document.querySelector('.controls > button').click()"]),
    "all heads of a layer off, one uniform": (
        {"view": "operate"},
        [
            "document.querySelectorAll('.operate .whole')[0].click()",
            "document.querySelector('.operate input[value=uniform]').click()",
            "document.querySelectorAll('.operate .layer')[1].querySelectorAll('.head')[2].click()",
        ],
    ),
    "a word forced in the search": ({"view": "theatre"}, ["document.querySelector('[data-node=\"0-1\"]').click()"]),
    "a word forced in the step": (
        {"layer": 1, "head": 0, "rows": "written", "cell": "3.3"},
        ["document.querySelector('[aria-label^=\"Most probable\"] button').click()"],
    ),
    "a word forced with a head off": (
        {
            "off": f"{CROSS}.1,encoder.layers.0.self_attention.2",
            "layer": 1,
            "head": 0,
            "rows": "written",
            "cell": "1.1",
        },
        ["document.querySelector('[aria-label^=\"Most probable\"] button').click()"],
    ),
    "a given translation with a head off": (
        {"off": f"{CROSS}.3", "target": 'Eine Frau isst ein Buch, "im" $Garten.'},
        ["0"],
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_the_command_of_the_page_run_in_a_shell(browser: Browser, address: str, name: str) -> None:
    """The same text and the same log-probability; for changed heads also those of the unchanged model."""
    fields, clicks = OPERATIONS[name]
    opened(browser, address, **fields)
    own = target_of(browser)
    for click in clicks:
        browser.run(f"{click}; 0")
        time.sleep(0.2)
        complete(browser)
    total = re.search(r"log-probability (-?[\d.]+)", browser.text(".trust").replace("\u2212", "-"))
    assert total
    printed = run_in_shell(browser.text("footer code"))
    assert printed[-1] == (target_of(browser), total[1])
    if "off" in name:
        pressed(browser, "4")
        rows = browser.run("[...document.querySelectorAll('.operate tbody tr')].map((row) => row.innerText)")
        before, after = (row.replace("\u2212", "-").split("\t") for row in rows)
        assert (before[1], before[2]) == printed[0] or "forced" in name
        assert (after[1], after[2]) == printed[-1]
    else:
        assert target_of(browser) != own


def mouse(browser: Browser, kind: str, x: float, y: float) -> None:
    held = {"button": "left", "clickCount": 1} if kind != "Moved" else {}
    browser.request("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, **held)


def click(browser: Browser, x: float, y: float) -> None:
    for kind in ("Moved", "Pressed", "Released"):
        mouse(browser, kind, x, y)


def middle_of(browser: Browser, selector: str) -> tuple[float, float]:
    browser.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'nearest'}})")
    box = f"document.querySelector({selector!r}).getBoundingClientRect()"
    x, y = browser.run(f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({box})")
    return x, y


CANDIDATE = "[aria-label^='Most probable'] button"


@pytest.mark.parametrize("how", ["a click", "Enter", "a word"])
def test_a_chosen_row_stays_while_the_pointer_passes_over_others(
    browser: Browser, address: str, inspector: Inspector, how: str
) -> None:
    ids = list(inspector.trace(TEXT).target.ids)
    with browser.look("wide"):
        opened(browser, address, layer=1, head=0, rows="written", cell="0.0")
        x, _ = middle_of(browser, ".field")
        top, height = browser.run(
            "(({y, height}) => [y, height])(document.querySelector('.field').getBoundingClientRect())"
        )
        row_at = lambda row: top + (row + 0.5) * height / len(ids)  # noqa: E731
        mouse(browser, "Moved", x, row_at(3))
        browser.until("location.hash.includes('cell=3.')")
        if how == "a click":
            click(browser, x, row_at(3))
        elif how == "Enter":
            browser.run("document.querySelector('.field').focus()")
            browser.press("Enter")
        else:
            click(browser, *middle_of(browser, ".line.target button:nth-child(2)"))
        chosen = int(browser.run("/cell=(\\d+)/.exec(location.hash)[1]"))
        for row in range(len(ids)):
            mouse(browser, "Moved", x + row, row_at(row))
        assert f"Step {chosen + 1} of" in browser.text(".step h3")
        click(browser, *middle_of(browser, CANDIDATE))
        browser.until("location.hash.includes('prefix=')")
        prefix = browser.run("new URLSearchParams(location.hash.slice(1)).get('prefix')").split(".")
        assert [int(token) for token in prefix[:-1]] == ids[:chosen]
        complete(browser)
        browser.press("Escape")
        mouse(browser, "Moved", x, row_at(1))
        browser.until("location.hash.includes('cell=1.')")


def target_of(browser: Browser) -> str:
    return browser.run(
        "[...document.querySelectorAll('.line.target button')].map((word) => word.textContent).join(' ')"
    )


def run_in_shell(command: str) -> list[tuple[str, str]]:
    """What a command prints when it is pasted into a shell: texts with their log-probabilities."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "COLUMNS": "400"}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, timeout=PATIENCE_S)
    assert done.returncode == 0, command + done.stderr
    pattern = r"^(?:translation|target|changed) +(.*?) *\n +log-probability (-?[\d.]+),"
    return re.findall(pattern, done.stdout, re.MULTILINE)


def test_it_is_used_by_keys_alone(browser: Browser, address: str) -> None:
    opened(browser, address, kind="cross", layer=0, head=0, rows="written", measure="attention", cell="0.0")
    pressed(browser, "]", ".", "r", "m", "ArrowDown", "ArrowRight", "ArrowRight")
    browser.until("/layer=1&head=1&rows=read&measure=norm&cell=1.2/.test(location.hash)")
    pressed(browser, "/")
    assert browser.run("document.activeElement.type") == "text"
    browser.request("Input.insertText", text="A dog runs.")
    browser.press("Enter")
    browser.until("/A\\+dog\\+runs/.test(location.hash)")
    complete(browser)
    assert "A dog runs." in browser.run("document.querySelector('.line.source').innerText.replaceAll('\\n', ' ')")
    pressed(browser, "3", " ")
    assert browser.run("document.querySelector('output').innerText").startswith("1 of")
    pressed(browser, "?")
    assert browser.run("document.querySelector('dialog').open")


def cell_numbers(browser: Browser) -> list[str]:
    """The numbers of the chain of steps that a pocket calculator would print, those of the chosen key."""
    chain = browser.run("[...document.querySelectorAll('.cell nav .value')].map((one) => one.textContent)")
    return [number for value in chain for number in re.findall(r"-?\d+\.\d{4}", value.replace("\u2212", "-"))]


def weights(browser: Browser) -> list[str]:
    return browser.run("[...document.querySelectorAll('.cell .weight')].map((one) => one.textContent)")


def until_cell(browser: Browser, condition: str = "true") -> None:
    browser.until(f"document.querySelector('.cell[aria-busy=false]') !== null && ({condition})")


def test_the_cell_shows_what_its_command_prints(browser: Browser, address: str, tmp_path: Path) -> None:
    opened(browser, address, view="cell", kind="cross", layer=1, head=2, cell="3.1")
    until_cell(browser)
    words = command(browser)
    assert words[:2] == ["dragoman", "explain"]
    printed = CliRunner().invoke(app, words[1:])
    assert printed.exit_code == 0, printed.output
    shown = cell_numbers(browser)
    assert len(shown) >= 10
    assert all(re.search(rf"(?<![\d.-]){re.escape(number)}(?!\d)", printed.stdout) for number in shown)
    saved = CliRunner().invoke(app, [*words[1:-2], "--json", str(tmp_path / "a.json"), *words[-2:]])
    assert saved.exit_code == 0, saved.output
    data = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert weights(browser) == [f"{weight:.4f}" for weight in data["model_weights"]]
    assert [data["attention"], data["head"], data["row"]] == ["decoder.layers.1.cross_attention", 2, 3]


def test_the_cell_is_used_by_keys_alone_and_its_state_is_in_the_address(browser: Browser, address: str) -> None:
    opened(browser, address, kind="cross", layer=0, head=1, rows="written", measure="attention", cell="2.3")
    pressed(browser, "5")
    until_cell(browser)
    own = weights(browser)
    pressed(browser, "ArrowDown", "ArrowRight", ".", "]")
    browser.until("/view=cell.*layer=1&head=2&rows=written&measure=attention&cell=3.4/.test(location.hash)")
    until_cell(browser)
    assert weights(browser) != own
    browser.run("document.activeElement.blur()")
    for _ in range(60):
        browser.press("Tab")
        if browser.run("document.activeElement.type") == "range":
            break
    own = weights(browser)
    browser.press("Home")
    browser.until("/divisor=1(&|$)/.test(location.hash)")
    assert "1" in browser.run(
        "document.activeElement.ariaValueText ?? document.activeElement.getAttribute('aria-valuetext')"
    )
    changed = weights(browser)
    assert max(map(float, changed)) > max(map(float, own))
    pressed(browser, " ", " ")
    browser.until("/step=7/.test(location.hash)")
    assert browser.run("document.activeElement.getAttribute('aria-label')").startswith("Step 8 of")
    state = browser.run("location.hash").removeprefix("#")
    browser.request("Page.navigate", url="about:blank")
    browser.request("Page.navigate", url=f"{address}&{state}")
    until_cell(browser, "document.querySelector('[aria-current=step]') !== null")
    assert weights(browser) == changed
    assert browser.run("document.querySelector('.cell .step').getAttribute('aria-label')").startswith("Step 8 of")
    browser.run("document.querySelector('.cell .reset').click()")
    assert weights(browser) == own


def test_words_and_hidden_marks_become_tokens_in_the_cell(browser: Browser, address: str) -> None:
    opened(browser, address, **{"view": "cell", "kind": "cross", "words": 1, "hide-marks": 1, "rows": "read"})
    until_cell(browser)
    assert not re.search("words=|hide-marks=|rows=read", browser.run("location.hash"))
    chosen = browser.run("document.querySelector('.cell .key.chosen .weight').textContent")
    assert "--key" in command(browser)
    assert re.fullmatch(r"\d\.\d{4}", chosen)


def test_hostile_text_stays_text(browser: Browser, address: str) -> None:
    opened(browser, address, HOSTILE)
    assert browser.run("window.harmed") is None
    assert browser.run("document.querySelectorAll('#app img, #app script').length") == 0
    assert command(browser)[-1] == HOSTILE


def test_nothing_is_fetched_from_elsewhere_and_nothing_is_refused(browser: Browser, address: str) -> None:
    opened(browser, address)
    assert browser.complaints == []
    page = address.partition("#")[0]
    assert all(url.startswith((page, "data:")) for url in browser.requested)
    assert "token" not in browser.run("location.href")


def test_without_the_token_the_page_says_what_to_do(browser: Browser, address: str) -> None:
    page = address.partition("#")[0]
    browser.request("Page.navigate", url=page)
    browser.wait("Page.loadEventFired")
    browser.run("localStorage.clear()")
    browser.events.clear()
    browser.request("Page.navigate", url=f"{page}?again")
    browser.wait("Page.loadEventFired")
    browser.until("document.querySelector('[role=alert]') !== null")
    assert "dragoman studio" in browser.text("[role=alert]")


VIEWS = ["see", "heads", "theatre", "operate", "cell"]


def shown(browser: Browser, address: str, view: str) -> None:
    """A view with a head switched off and, where it has a slider, another divisor."""
    opened(browser, address, view=view, off=f"{CROSS}.1", **({"divisor": 3} if view == "cell" else {}))
    if view == "cell":
        until_cell(browser)


@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_and_nothing_overflows(browser: Browser, address: str, look: str) -> None:
    with browser.look(look) as width:
        for view in VIEWS:
            shown(browser, address, view)
            assert browser.violations() == [], view
            assert browser.run("document.documentElement.scrollWidth") <= width, view


@pytest.mark.parametrize("view", VIEWS)
def test_tab_reaches_everything(browser: Browser, address: str, view: str) -> None:
    shown(browser, address, view)
    names = browser.check_tour()
    assert {"Translate", "See", "Theatre", "Copy as command"} <= set(names)
    assert view != "see" or any("arrow keys" in name for name in names)


def test_the_keys_open_as_a_dialog_that_keeps_the_focus_until_escape(browser: Browser, address: str) -> None:
    opened(browser, address)
    browser.run("document.querySelector('button.help').focus()")
    browser.press("Enter")
    browser.until("document.querySelector('dialog[open]') !== null")
    assert browser.check_tour() == ["Close"]
    browser.press("Escape")
    browser.until("document.querySelector('dialog[open]') === null")
    assert browser.run("document.activeElement.className").startswith("help")


def test_every_key_of_the_list_does_what_it_says(browser: Browser, address: str) -> None:
    opened(browser, address, kind="cross", layer=1, head=1, rows="written", measure="attention", cell="1.1")
    keys = browser.run("[...document.querySelectorAll('dialog dt')].map((one) => one.textContent)")
    changes = {
        "[": "layer=0", "]": "layer=1", ",": "head=0", ".": "head=1", "r": "rows=read", "m": "measure=norm",
        "ArrowUp": "cell=0.1", "ArrowDown": "cell=1.1", "ArrowLeft": "cell=1.0", "ArrowRight": "cell=1.1",
        "x": f"off={CROSS.replace('2', '1')}.1", "2": "view=heads", "3": "view=theatre", "4": "view=operate",
        "p": "pin=model", "5": "view=cell",
    }  # fmt: skip
    named = set(" ".join(keys).replace("arrow keys", "").replace(" and", "").split()) - {"to", "9"}
    assert named == {"/", "[", "]", ",", ".", "r", "m", "x", "p", "Space", "1", "?", "Enter", "Escape"}
    for key, change in changes.items():
        pressed(browser, key)
        browser.until(f"('&' + location.hash.slice(1) + '&').includes({'&' + change!r})", 20)
    until_cell(browser)
    step = browser.run("document.querySelector('.cell .step').getAttribute('aria-label')")
    pressed(browser, " ")
    browser.until(f"document.querySelector('.cell .step').getAttribute('aria-label') !== {step!r}")
    pressed(browser, "1")
    browser.until("!location.hash.includes('view=')")
    pressed(browser, "x")
    browser.until("!location.hash.includes('off=')")


@pytest.mark.parametrize("rows", ["written", "read"])
@pytest.mark.parametrize("words", [{}, {"words": 1}], ids=["tokens", "words"])
def test_a_pressed_word_shows_the_step_that_wrote_it(
    browser: Browser, address: str, rows: str, words: dict[str, object]
) -> None:
    opened(browser, address, layer=1, head=0, rows=rows, **words)
    texts = browser.run("[...document.querySelectorAll('.line.target button')].map((one) => one.innerText)")
    for number, text in enumerate(texts):
        browser.run(f"document.querySelectorAll('.line.target button')[{number}].click()")
        browser.until(f"location.hash.includes('cell={number + (rows == 'read' and not words)}.')")
        step = re.sub(r"\s+", " ", browser.text(".step h3"))
        assert step.startswith(f"Step {number + 1} of {len(texts) + 2} wrote “{text.rstrip('.')}”")


@pytest.mark.parametrize("look", ["wide", "phone"])
def test_source_words_that_no_translated_word_attends_to_are_marked(
    browser: Browser, address: str, inspector: Inspector, look: str
) -> None:
    text, target = (
        "Please tell my neighbour that the man will come back on Thursday.",
        "Bitte erzählen Sie es meinem Nachbarn.",
    )
    map_ = (
        MapChoice("cross", 1, 0, "written", "attention", by_word=True).view(inspector.trace(text, target=target)).matrix
    )
    most = map_[: len(target.split())].max(0)[: len(text.split())] / map_.max()
    expected = [word for word, share in zip(text.split(), most, strict=True) if share < 0.1]
    with browser.look(look):
        opened(browser, address, text, target=target, layer=1, head=0, rows="written")
        marked = browser.run("[...document.querySelectorAll('.line.source .unlinked')].map((one) => one.innerText)")
    assert "Thursday." in expected
    assert marked == expected


def test_a_given_translation_is_scored_and_says_that_nothing_can_be_forced(
    browser: Browser, address: str, inspector: Inspector
) -> None:
    trace = inspector.trace("Dogs play.", target="Hunde spielen")
    last = len(trace.target.pieces) - 1
    opened(browser, address, "Dogs play.", target="Hunde spielen", layer=1, head=0, rows="written", cell=f"{last}.0")
    list_of = "document.querySelectorAll('[aria-label^=\"Most probable\"] {}')"
    names = browser.run(f"[...{list_of.format('.name')}].map((one) => one.innerText)")
    assert names == [trace.pieces[token].removeprefix("▁") for token in trace.alternative_ids[last].tolist()]
    assert "</s>" in names
    assert browser.run(f"[...{list_of.format('.name')}].every((one) => one.offsetWidth > 0)")
    assert browser.run(f"{list_of.format('button')}.length") == 0
    assert "given translation" in browser.text(".step .hint")


def test_the_tabs_stay_at_one_place(browser: Browser, address: str) -> None:
    tabs = "[...document.querySelectorAll('nav[aria-label=Views] button')]"
    with browser.look("wide"):
        opened(browser, address)
        tops = list[float]()
        for number in range(browser.run(f"{tabs}.length")):
            pressed(browser, str(number + 1))
            browser.until(f"{tabs}[{number}].ariaCurrent === 'page'")
            tops.append(browser.run(f"{tabs}[0].getBoundingClientRect().y"))
    assert max(tops) - min(tops) < 2


def test_the_number_keys_are_the_tabs_in_their_order(browser: Browser, address: str) -> None:
    opened(browser, address)
    tabs = browser.run("[...document.querySelectorAll('nav[aria-label=Views] button')].map((one) => one.innerText)")
    assert "Compare" not in tabs  # there is one model
    for number, tab in enumerate(tabs, start=1):
        pressed(browser, str(number))
        browser.until(f"document.querySelector('nav [aria-current=page]').innerText === {tab!r}", 20)
    described = browser.run(
        "[...document.querySelectorAll('dialog dt')].map((one) => [one.innerText, one.nextElementSibling.innerText])"
    )
    assert [f"1 to {len(tabs)}", ", ".join(tabs)] in described


def test_a_token_is_forced_by_keys_alone(browser: Browser, address: str) -> None:
    opened(browser, address, view="theatre")
    pressed(browser, " ", " ")
    tab_to(browser, "one.dataset.node !== undefined")
    all_nodes = set(browser.run("[...document.querySelectorAll('[data-node]')].map((one) => one.dataset.node)"))
    reached = set()
    for key in [*["ArrowLeft"] * 3, *(["ArrowDown"] * 12 + ["ArrowUp"] * 12 + ["ArrowRight"]) * 3]:
        browser.press(key)
        reached.add(browser.run("document.activeElement.dataset.node"))
    assert reached == all_nodes
    browser.press(*["ArrowLeft"] * 3, *["ArrowUp"] * 12, "ArrowDown", "Enter")
    browser.until("document.querySelector('.branch') !== null")
    assert "prefix=" in browser.run("location.hash")
    tab_to(browser, "one.className.includes('reset')")
    browser.press("Enter")
    browser.until("document.querySelector('.branch') === null")


@pytest.mark.parametrize("look", ["wide", "phone", "zoomed"])
@pytest.mark.parametrize("num_words", [5, 7, 8, 9, 12, 15])
def test_no_word_is_cut_off(browser: Browser, address: str, look: str, num_words: int) -> None:
    with browser.look(look) as width:
        opened(browser, address, " ".join(LONG.split()[:num_words]), view="theatre")
        ends = "[...document.querySelectorAll('.line button')].map((one) => one.getBoundingClientRect().right)"
        assert max(browser.run(ends)) <= width
        controls = "[...document.querySelectorAll('header :is(select, .primary)')]"
        assert browser.run(f"{controls}.every((one) => one.scrollWidth <= one.clientWidth + 1)")


def test_words_of_two_directions_stand_below_each_other(browser: Browser, address: str) -> None:
    opened(browser, address, "A woman reads.", target="אישה קוראת ספר.")
    boxes = "[...document.querySelectorAll('.line')].map((one) => one.getBoundingClientRect().left)"
    first, second = browser.run(boxes)
    assert first == second
    lefts = "[...document.querySelectorAll('.target button')].map((one) => one.getBoundingClientRect().left)"
    assert browser.run(lefts) == sorted(browser.run(lefts), reverse=True)
    labels = "[...document.querySelectorAll('.rows span')].every((one) => one.scrollWidth <= one.clientWidth)"
    assert browser.run(labels)


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
@pytest.mark.parametrize("text", [TEXT, LONG], ids=["short", "long"])
def test_the_map_is_above_the_fold_and_nothing_overflows(
    browser: Browser, address: str, width: int, height: int, text: str
) -> None:
    browser.request("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
    opened(browser, address, text)
    assert browser.run("document.documentElement.scrollWidth") <= width
    top = browser.run("document.querySelector('.field').getBoundingClientRect().top")
    assert top < (0.65 if text == TEXT else 1.0) * height
    browser.request("Emulation.clearDeviceMetricsOverride")
