import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.inspection.heads import summarise_heads
from dragoman.inspection.html_file import embedded, save_text
from dragoman.inspection.trace import HeadVectors, Trace
from dragoman.inspection.trace_page import map_table, trace_page
from dragoman.inspection.view import MapChoice, MapView

Traced = Callable[..., Trace]

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "</script /x",
    "<img/src=x>",
    "\"'><b>",
    "$title",
    "\\u003c",
    "\u2028",
    "<script>",
    "</s>",
)


class Elements(HTMLParser):
    """Which elements a browser would see, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.raw: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.names and self.names[-1] in {"script", "style"} and data.strip():
            self.raw.append(data)


def data_of(text: str) -> dict[str, object]:
    return json.loads(text.split('id="dragoman-trace">')[1].split("</script>")[0])


def trace_of(text: str, folder: Path) -> Trace:
    """The trace that a page holds."""
    (folder / "a.trace").write_bytes(base64.b64decode(str(data_of(text)["trace"])))
    return Trace.load(folder / "a.trace")


def test_no_token_becomes_an_element(traced: Traced) -> None:
    tame = Elements(trace_page(traced(source=[f"▁{i}" for i in range(9)] + ["</s>"])))
    hostile = Elements(trace_page(traced(source=HOSTILE)))
    assert hostile.names == tame.names
    assert tame.names.count("script") == 2
    assert "<script" not in trace_page(traced(source=HOSTILE)).split("</noscript>")[0]


def test_tokens_come_back_from_the_data_as_they_were(traced: Traced, tmp_path: Path) -> None:
    assert trace_of(trace_page(traced(source=HOSTILE)), tmp_path).source.pieces == HOSTILE


def test_embedded_json_holds_nothing_that_html_could_read() -> None:
    text = embedded({"a": [*HOSTILE, "\ud800"]})
    assert not re.search(r"[<>&\u2028]", text)
    assert json.loads(text) == {"a": [*HOSTILE, "\ud800"]}


def test_nothing_runs_but_our_script_and_nothing_is_asked_of_a_network(traced: Traced) -> None:
    text = trace_page(traced())
    seen = Elements(text)
    policy = re.search(r'Policy" content="([^"]*)"', text)[1]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none';")
    style, _, script = seen.raw[:1] + seen.raw[-2:]
    for kind, part in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert {name for name, _ in seen.attributes} & {"src", "href", "style", "onclick", "onload"} == set()
    assert not re.search("<script|</script", script)
    addresses = re.findall(r"https?://[^\s\"'`]+", text)
    assert all("www.w3.org" in address or "svelte.dev/e/" in address for address in addresses)


def test_the_page_holds_every_map_in_half_precision_and_no_vectors(traced: Traced, tmp_path: Path) -> None:
    trace = traced()
    name = "decoder.layers.1.cross_attention"
    parts = np.ones((3, 4, 2), np.float32)
    found = trace_of(trace_page(replace(trace, vectors={name: HeadVectors(parts, parts, parts)})), tmp_path)
    assert set(found.attention) == set(trace.attention)
    assert not found.vectors
    np.testing.assert_allclose(found.attention[name], trace.attention[name], rtol=1 / 2048)
    np.testing.assert_allclose(found.norms[name], trace.norms[name], rtol=1 / 1024)


def test_the_page_holds_the_role_of_every_head(traced: Traced) -> None:
    trace = traced()
    roles = data_of(trace_page(trace))["roles"]
    expected = [summary.model_dump() for summary in summarise_heads([trace])]
    assert isinstance(roles, list)
    assert [role.items() <= summary.items() for role, summary in zip(roles, expected, strict=True)] == [True] * 18


@pytest.mark.parametrize("size", [1, 60])
@pytest.mark.parametrize(("num_layers", "num_heads"), [(1, 1), (6, 8)])
def test_the_size_is_within_the_budget(traced: Traced, size: int, num_layers: int, num_heads: int) -> None:
    tokens = (*(f"▁wort{i}" for i in range(size - 1)), "</s>")
    trace = traced(tokens, tokens, num_layers, num_heads)
    assert len(trace_page(trace).encode()) <= 150_000 + 1.4 * len(trace.to_bytes())


def test_a_model_with_one_attention_has_a_page_too(traced: Traced) -> None:
    trace = traced(num_layers=1, num_heads=1)
    weights = trace.attention["decoder.layers.0.cross_attention"]
    text = trace_page(replace(trace, attention={"decoder.attention": weights}, norms={}))
    assert "decoder.attention, its only head" in text


def test_the_page_says_caveats_measure_and_sink_share_without_its_script_too(traced: Traced) -> None:
    trace = traced()
    shown = MapChoice().view(trace)
    assert "Where it looked, not why." in shown.caption
    assert f"{shown.sink_share:.0%} of it rests on marks" in shown.caption
    unscripted = trace_page(trace).split("<noscript>")[1].split("</noscript>")[0]
    assert map_table(shown) in unscripted
    assert trace.source.text in unscripted
    assert trace.target.text in unscripted


def test_the_page_opens_on_the_map_that_was_chosen_without_its_script_too(traced: Traced) -> None:
    trace = traced()
    choice = MapChoice("decoder", -2, 1, "read", "norm", hide_sinks=True)
    text = trace_page(trace, choice)
    assert map_table(choice.view(trace)) in text
    assert data_of(text)["choice"] == {
        "kind": "decoder", "layer": 0, "head": 1, "rows": "read", "measure": "norm", "hideSinks": True, "byWord": False
    }  # fmt: skip


def test_notes_stand_below_the_texts_and_are_only_text(traced: Traced) -> None:
    notes = {"unchanged": "Wie <b>geht</b> es?", "what if": "3 of 9"}
    text = trace_page(traced(), notes=notes)
    assert data_of(text)["notes"] == notes
    assert '<p dir="auto">unchanged: Wie &lt;b&gt;geht&lt;/b&gt; es?</p>' in text
    assert "<b>geht" not in text


def test_the_table_twin_names_its_rows_and_columns() -> None:
    shown = MapView(np.array([[0.25, 0.75]], np.float32), ("<a>",), ("b", "c"), (False, False), "A & B.")
    assert map_table(shown) == (
        '<table><caption>A &amp; B.</caption><thead><tr><th scope="col" dir="auto"></th>'
        '<th scope="col" dir="auto">b</th><th scope="col" dir="auto">c</th></tr></thead><tbody>'
        '<tr><th scope="row" dir="auto">&lt;a&gt;</th><td>0.250<td>0.750</tr></tbody></table>'
    )


@pytest.mark.parametrize("letters", ["日本語", "שלום", "naïve"])
def test_a_page_is_written_in_utf_8_and_leaves_nothing_beside_it(traced: Traced, tmp_path: Path, letters: str) -> None:
    save_text(trace_page(traced(source=(f"▁{letters}", "</s>"))), tmp_path / "page.html")
    assert letters in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_it_opens_on_the_head_that_the_model_aligns_by_if_the_trace_shows_it(traced: Traced) -> None:
    trace = traced()
    name = trace.names("cross")[0]
    head = AlignmentHead(layer=name, head=1, rows="read", measure="norm")
    seen = replace(trace, alignment_heads=(head,), norms={name: trace.attention[name]})
    first = data_of(trace_page(seen))["choice"]
    assert isinstance(first, dict)
    assert (first["layer"], first["head"], first["rows"], first["measure"]) == (0, 1, "read", "norm")
    for poor in (replace(seen, norms={}), replace(seen, alignment_heads=(head.model_copy(update={"layer": "x"}),))):
        first = data_of(trace_page(poor))["choice"]
        assert isinstance(first, dict)
        assert (first["layer"], first["head"]) == (len(trace.names("cross")) - 1, "mean")
