"""The page of an evolution: what is in the file, and what a real browser makes of it, by keyboard."""

import base64
import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, Browser

from dragoman.inspection import evolution_page
from dragoman.inspection.evolution import Evolution, ProbeSnapshot, read_evolution, save_snapshot
from dragoman.inspection.evolution_page import page
from dragoman.inspection.html_file import save_text
from dragoman.inspection.trace import Trace

Traced = Callable[..., Trace]
HOSTILE = ("▁</script><script>alert(1)</script>", "▁<!--", "▁$title", "▁<img/src=x>", "</s>")


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
    return json.loads(text.split('id="data">')[1].split("</script>")[0])


def weights_of(text: str, sentence: int, name: str, snapshot: int, shape: tuple[int, ...]) -> np.ndarray:
    content = base64.b64decode(data_of(text)["sentences"][sentence]["maps"][name][snapshot])
    return np.frombuffer(content, np.uint8).reshape(shape) / 255


def test_the_page_holds_every_map_at_every_snapshot(evolution: Evolution) -> None:
    text = page(evolution)
    for sentence in range(3):
        for snapshot, trace in enumerate(evolution.traces(sentence)):
            for name, weights in trace.attention.items():
                found = weights_of(text, sentence, name, snapshot, weights.shape)
                np.testing.assert_allclose(found, weights, atol=0.5 / 255 + 1e-6)


def test_no_text_of_a_sentence_becomes_a_part_of_the_page(evolution: Evolution) -> None:
    text = page(evolution)
    assert text.count("<script") == 2
    assert "<img" not in text
    assert data_of(text)["sentences"][1]["source"].startswith("</script><script>")


def test_only_our_own_script_and_style_may_run(evolution: Evolution) -> None:
    text = page(evolution)
    for kind, part in (("script", text.rsplit("<script>", 1)[1]), ("style", text.split("<style>", 1)[1])):
        digest = base64.b64encode(hashlib.sha256(part.split(f"</{kind}>")[0].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_the_numbers_are_there_without_scripts(evolution: Evolution) -> None:
    table = page(evolution).split("<table>")[1].split("</table>")[0]
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)(?=<)", row) for row in table.split("<tr>")[1:]]
    assert rows[0][:4] == ["update", "BLEU", "entropy", "best aligned head"]
    assert [row[:2] for row in rows[1:]] == [
        ["update 0", "-"],
        ["update 4,000, kept", "30.00"],
        ["update 8,000", "60.00"],
    ]
    assert all(len(row) == len(rows[0]) for row in rows)


def test_one_kind_alone_makes_a_smaller_page(evolution: Evolution) -> None:
    found = data_of(page(evolution, "encoder"))
    assert {head["kind"] for head in found["heads"]} == set(found["first"]) == {"encoder"}
    assert set(found["sentences"][0]["maps"]) == {f"encoder.layers.{i}.self_attention" for i in (0, 1)}


def test_what_has_no_room_is_left_out_and_the_page_says_how_much(
    evolution: Evolution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evolution_page, "MOST_BYTES", 1)
    text = page(evolution, sentence=2)
    assert [sentence["number"] for sentence in data_of(text)["sentences"]] == [3]
    assert "Maps of 1 of 3 sentences" in text
    monkeypatch.undo()
    assert "Maps of 3 of 3 sentences" in page(evolution)


@pytest.fixture
def browser(evolution: Evolution, tmp_path: Path) -> Iterator[Browser]:
    """With the page open."""
    save_text(page(evolution), tmp_path / "page.html")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        opened = Browser(home)
        opened.open(tmp_path / "page.html")
        yield opened
        opened.close()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_in_a_browser_the_arrow_keys_go_from_snapshot_to_snapshot(
    browser: Browser, evolution: Evolution, tmp_path: Path
) -> None:
    asked = [
        event["params"]["request"]["url"] for event in browser.events if event["method"] == "Network.requestWillBeSent"
    ]
    assert asked == [(tmp_path / "page.html").as_uri()]
    assert browser.run("document.activeElement.id") == "moment"
    assert browser.text("#when") == "update 4,000, kept: BLEU 30.0, loss 2.500"
    browser.run("document.getElementById('twin').open = true")
    head = evolution.standout("cross")
    for key, snapshot, when in (
        ("ArrowRight", 2, "update 8,000: BLEU 60.0, loss 2.500"),
        ("Home", 0, "update 0: before"),
    ):
        browser.press(key)
        assert browser.text("#when").startswith(when)
        assert browser.run("document.getElementById('moment').getAttribute('aria-valuetext')").startswith(when)
        assert browser.text("#role strong") == f"cross {head}: {head.label[snapshot]}"
        rows = "[...document.querySelectorAll('#numbers tbody tr')]"
        found = browser.run(f"{rows}.map((row) => [...row.querySelectorAll('td')].map((cell) => +cell.textContent))")
        expected = evolution.traces(0)[snapshot].attention[head.name][head.head]
        np.testing.assert_allclose(np.array(found), expected, atol=0.0075)
        assert browser.run("[...document.querySelectorAll('#roles .now')].length") == 1 + len(evolution.histories)
        column = "[...document.querySelectorAll('#roles tbody .now')].map((cell) => cell.title)"
        assert browser.run(column) == [history.label[snapshot] for history in evolution.histories]
    dragged = "slider.value = '1'; slider.dispatchEvent(new Event('input', {bubbles: true}))"
    browser.run(f"const slider = document.getElementById('moment'); {dragged}")
    assert browser.text("#when").startswith("update 4,000, kept")
    events = [event for event in browser.events if event["method"] in {"Log.entryAdded", "Runtime.exceptionThrown"}]
    assert events == []


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_in_a_browser_a_head_is_chosen_by_its_name_in_the_table_of_roles(
    browser: Browser, evolution: Evolution
) -> None:
    number = next(i for i, history in enumerate(evolution.histories) if history.kind == "decoder" and history.head == 1)
    browser.run(f"document.querySelectorAll('#roles button')[{number}].click()")
    history = evolution.histories[number]
    assert browser.text("#role strong").startswith(f"decoder {history}: ")
    assert browser.run("document.getElementById('kind').value") == "decoder"
    assert f"{history.name}, head 1" in browser.text("#caption")
    assert "a row is the token being written" in browser.text("#caption")
    browser.choose(sentence="2")
    assert browser.text("#pair").startswith("Ja so → How are you")
    assert browser.text("#right + figcaption").startswith("share of the attention weights on marks")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_in_a_browser_nothing_sticks_out_and_no_column_of_a_map_is_cut_off(tmp_path: Path, traced: Traced) -> None:
    tokens = (*(f"▁token{i}" for i in range(17)), "</s>")
    save_snapshot(
        ProbeSnapshot(update=0, which="update 0"), [sharpened(traced(tokens, free=False), 1)], tmp_path / "run"
    )
    save_text(page(read_evolution(tmp_path / "run")), tmp_path / "page.html")
    inside = (
        "(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)(document.getElementById('map').parentElement)"
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        opened, widths = Browser(home), []
        for width in (360, 1280):
            opened.request(
                "Emulation.setDeviceMetricsOverride", width=width, height=700, deviceScaleFactor=1, mobile=False
            )
            opened.open(tmp_path / "page.html")
            widths.append(opened.run("document.documentElement.scrollWidth"))
        whole, legend = opened.run(inside), opened.text("#legend + span")
        opened.close()
    assert widths[0] <= 360
    assert widths[1] <= 1280
    assert whole
    assert legend == "1.0 of the row"
