"""The page of an evolution: what is in the file, and what a real browser makes of it, by keyboard."""

import base64
import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import AXE, CHROMIUM, CODES, LOOKS, Browser

from dragoman.inspection import evolution_file
from dragoman.inspection.evolution import Evolution, ProbeSnapshot, read_evolution, save_snapshot
from dragoman.inspection.evolution_file import evolution_page
from dragoman.inspection.html_file import save_text
from dragoman.inspection.trace import Trace

Traced = Callable[..., Trace]
HOSTILE = ("▁</script><script>alert(1)</script>", "▁<!--", "▁$title", "▁<img/src=x>", "</s>")
CODES |= {" ": 32}


def sharpened(trace: Trace, power: float) -> Trace:
    maps = {}
    for name, weights in trace.attention.items():
        seen = np.tril(weights) if "decoder" in name and "self" in name else weights
        raised = np.where(seen > 0, seen.astype(np.float64), 0.0) ** power * (seen > 0)
        maps[name] = (raised / raised.sum(-1, keepdims=True)).astype(np.float32)
    return replace(trace, attention=maps, norms={})


@pytest.fixture
def evolution(tmp_path: Path, traced: Traced) -> Evolution:
    """Three snapshots, the second of which was the best; three sentences, one of them hostile."""
    sentences = [traced(free=False), traced(HOSTILE, free=False), traced(("▁Ja", "▁so", "</s>"), free=False)]
    for i in range(3):
        scores = {"loss": 2.5, "bleu": 30.0 * i, "chrf": 30.0} if i else {}
        snapshot = ProbeSnapshot(update=4000 * i, which=f"update {4000 * i:,}", best=i == 1, **scores)
        save_snapshot(snapshot, [sharpened(trace, 0.1 + i) for trace in sentences], tmp_path / "run")
    return read_evolution(tmp_path / "run")


def data_of(text: str) -> Any:
    return json.loads(text.split('id="dragoman-evolution">')[1].split("</script>")[0])


def trace_of(text: str, sentence: int, snapshot: int, folder: Path) -> Trace:
    (found,) = (traces for traces in data_of(text)["traces"] if traces["sentence"] == sentence)
    (folder / "a.trace").write_bytes(base64.b64decode(found["files"][snapshot]))
    return Trace.load(folder / "a.trace")


def test_the_page_holds_every_map_at_every_snapshot(evolution: Evolution, tmp_path: Path) -> None:
    text = evolution_page(evolution)
    for sentence in range(3):
        for snapshot, trace in enumerate(evolution.traces(sentence)):
            found = trace_of(text, sentence, snapshot, tmp_path)
            assert found.source.pieces == trace.source.pieces
            for name, weights in trace.attention.items():
                np.testing.assert_allclose(found.attention[name], weights, atol=2 / 255)


def test_no_text_of_a_sentence_becomes_a_part_of_the_page(evolution: Evolution) -> None:
    text = evolution_page(evolution)
    assert text.count("<script") == 2
    assert "<img" not in text
    assert data_of(text)["evolution"]["sentences"][1][0].startswith("</script><script>")


def test_only_our_own_script_and_style_may_run(evolution: Evolution) -> None:
    text = evolution_page(evolution)
    parts = (("script", text.rsplit('<script type="module">', 1)[1]), ("style", text.split("<style>", 1)[1]))
    for kind, part in parts:
        digest = base64.b64encode(hashlib.sha256(part.split(f"</{kind}>")[0].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text


def test_the_numbers_are_there_without_scripts(evolution: Evolution) -> None:
    table = evolution_page(evolution).split("<noscript>")[1].split("<table>")[1].split("</table>")[0]
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)(?=<)", row) for row in table.split("<tr>")[1:]]
    assert rows[0][:4] == ["update", "BLEU", "entropy", "best aligned head"]
    assert [row[:2] for row in rows[1:]] == [
        ["update 0", "-"],
        ["update 4,000, kept", "30.00"],
        ["update 8,000", "60.00"],
    ]
    assert all(len(row) == len(rows[0]) for row in rows)


def test_one_kind_alone_makes_a_smaller_page(evolution: Evolution, tmp_path: Path) -> None:
    text = evolution_page(evolution, "encoder")
    assert {head["kind"] for head in data_of(text)["evolution"]["heads"]} == {"encoder"}
    assert set(trace_of(text, 0, 1, tmp_path).attention) == {f"encoder.layers.{i}.self_attention" for i in (0, 1)}
    assert data_of(text)["choice"]["kind"] == "encoder"


def test_the_page_opens_with_the_head_that_was_asked_for(evolution: Evolution) -> None:
    assert data_of(evolution_page(evolution))["choice"]["head"] == evolution.standout("cross").head
    head = evolution.head("decoder", 1, 2)
    found = data_of(evolution_page(evolution, None, 2, head))
    assert found["choice"] == {"kind": "decoder", "layer": 1, "head": 2}
    assert found["traces"][0]["sentence"] == 2


def test_what_has_no_room_is_left_out(evolution: Evolution, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evolution_file, "MOST_BYTES", 1)
    assert [traces["sentence"] for traces in data_of(evolution_page(evolution, sentence=2))["traces"]] == [2]
    monkeypatch.undo()
    assert [traces["sentence"] for traces in data_of(evolution_page(evolution, sentence=2))["traces"]] == [2, 0, 1]


def until(browser: Browser, expression: str) -> None:
    end = time.monotonic() + 60
    while not browser.run(expression):
        assert time.monotonic() < end, f"{expression}: {browser.run('document.body.innerText')}"
        time.sleep(0.05)


def numbers(browser: Browser) -> np.ndarray:
    browser.run("document.querySelector('figure details').open = true")
    until(browser, "document.querySelector('figure table') !== null")
    rows = "[...document.querySelectorAll('figure tbody tr')]"
    return np.array(browser.run(f"{rows}.map((row) => [...row.querySelectorAll('td')].map((cell) => +cell.innerText))"))


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_in_a_browser_a_key_goes_from_snapshot_to_snapshot(
    browser: Browser, evolution: Evolution, tmp_path: Path
) -> None:
    save_text(evolution_page(evolution), tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    until(browser, "document.querySelector('.field') !== null")
    assert browser.requested == [(tmp_path / "page.html").as_uri()]
    assert browser.text("output") == "update 4,000, kept: BLEU 30.0, loss 2.500"
    head = evolution.standout("cross")
    for snapshot, when in ((2, "update 8,000: BLEU 60.0"), (0, "update 0")):
        browser.request("Input.dispatchKeyEvent", type="keyDown", text=" ", key=" ", windowsVirtualKeyCode=32)
        browser.request("Input.dispatchKeyEvent", type="keyUp", key=" ", windowsVirtualKeyCode=32)
        until(browser, f"document.querySelector('output').innerText.startsWith({when!r})")
        expected = evolution.traces(0)[snapshot].attention[head.name][head.head]
        np.testing.assert_allclose(numbers(browser), expected, atol=0.012)
        column = "[...document.querySelectorAll('td.now')].map((cell) => cell.dataset.role)"
        assert browser.run(column) == [history.label[snapshot] for history in evolution.histories]
    assert browser.complaints == []


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_in_a_browser_a_head_is_chosen_by_its_name_in_the_table_of_roles(
    browser: Browser, evolution: Evolution, tmp_path: Path
) -> None:
    save_text(evolution_page(evolution), tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    until(browser, "document.querySelector('tbody th button') !== null")
    number = next(i for i, history in enumerate(evolution.histories) if history.kind == "decoder" and history.head == 1)
    browser.run(f"document.querySelectorAll('tbody th button')[{number}].click()")
    until(browser, "/Decoder self-attention · layer 0 · head 1/.test(document.querySelector('.map h2').innerText)")
    assert browser.run("document.querySelectorAll('main img, main script').length") == 0
    select = "document.querySelector('.bar select')"
    browser.run(f"{select}.value = '2'; {select}.dispatchEvent(new Event('change', {{bubbles: true}}))")
    until(browser, "document.querySelector('.rows').innerText.includes('How')")
    assert "How are you" in browser.text(".bar p")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None or not AXE.exists(), reason="needs chromium, and npm ci in studio")
@pytest.mark.parametrize("look", LOOKS)
def test_in_a_browser_axe_finds_nothing_and_nothing_overflows(
    browser: Browser, evolution: Evolution, tmp_path: Path, look: str
) -> None:
    save_text(evolution_page(evolution), tmp_path / "page.html")
    with browser.look(look) as width:
        browser.open(tmp_path / "page.html")
        until(browser, "document.querySelector('.field') !== null")
        browser.run("for (const details of document.querySelectorAll('details')) details.open = true; 0")
        assert browser.violations() == []
        assert browser.run("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_in_a_browser_tab_reaches_everything(browser: Browser, evolution: Evolution, tmp_path: Path) -> None:
    save_text(evolution_page(evolution), tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    until(browser, "document.querySelector('.field') !== null")
    browser.run("for (const details of document.querySelectorAll('details')) details.open = true; 0")
    assert any("arrow keys" in name for name in browser.check_tour())
