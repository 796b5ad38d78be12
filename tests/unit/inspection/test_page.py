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
from dragoman.inspection.html_file import save_text
from dragoman.inspection.page import embedded, map_table, page
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import MapChoice, MapView, view

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
    "\ud800",
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
    return json.loads(text.split('id="data">')[1].split("</script>")[0])


def test_no_token_becomes_an_element(traced: Traced) -> None:
    tame = Elements(page(traced(source=[f"▁{i}" for i in range(9)] + ["</s>"])))
    hostile = Elements(page(traced(source=HOSTILE)))
    assert hostile.names == tame.names
    assert tame.names.count("script") == 2


def test_tokens_come_back_from_the_data_as_they_were(traced: Traced) -> None:
    labels = data_of(page(traced(source=HOSTILE)))["labels"]["cross"]
    assert labels["columns"] == [*HOSTILE[:7], "·", "·", "</s>"]


def test_embedded_json_holds_nothing_that_html_could_read() -> None:
    text = embedded({"a": list(HOSTILE[:-2])})
    assert not re.search(r"[<>&\u2028]", text)
    assert json.loads(text) == {"a": list(HOSTILE[:-2])}


def test_nothing_runs_but_our_script_and_nothing_is_asked_of_a_network(traced: Traced) -> None:
    text = page(traced())
    seen = Elements(text)
    policy = re.search(r'Policy" content="([^"]*)"', text)[1]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none';")
    style, _, script = seen.raw[:1] + seen.raw[-2:]
    for kind, part in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert {name for name, _ in seen.attributes} & {"src", "href", "style", "onclick", "onload"} == set()
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]


def test_maps_are_packed_to_a_65536th_of_their_largest_value(traced: Traced) -> None:
    trace = traced()
    maps = {one["name"]: one for one in data_of(page(trace))["maps"]}
    assert set(maps) == set(trace.attention)
    packed = maps["decoder.layers.1.cross_attention"]
    assert (packed["kind"], packed["heads"], packed["rows"], packed["columns"]) == ("cross", 3, 4, 6)
    for measure, weights in (("attention", trace.attention), ("norm", trace.norms)):
        whole = np.frombuffer(base64.b64decode(packed[measure]["base64"]), "<u2").reshape(3, 4, 6)
        exact = weights["decoder.layers.1.cross_attention"]
        np.testing.assert_allclose(whole / 65535 * packed[measure]["largest"], exact, atol=exact.max() / 65535)


def test_a_trace_without_norms_offers_none(traced: Traced) -> None:
    assert all("norm" not in one for one in data_of(page(traced(norms=False)))["maps"])


def test_a_model_with_one_attention_has_a_page_too(traced: Traced) -> None:
    trace = traced(num_layers=1, num_heads=1)
    weights = trace.attention["decoder.layers.0.cross_attention"]
    text = page(replace(trace, attention={"decoder.attention": weights}, norms={}))
    assert "decoder.attention, its only head" in text


def test_the_page_says_caveats_measure_and_sink_share_without_its_script_too(traced: Traced) -> None:
    trace = traced()
    text = page(trace)
    shown = view(trace)
    assert "Where it looked, not why." in text
    assert f"{shown.sink_share:.0%} of it rests on sinks" in text
    assert shown.caption in text
    assert map_table(shown) in text


def test_the_page_opens_on_the_map_that_was_chosen_without_its_script_too(traced: Traced) -> None:
    trace = traced()
    text = page(trace, MapChoice("decoder", -2, 1, "read", "norm", hide_sinks=True))
    seen = view(trace, 0, 1, kind="decoder", rows="read", measure="norm")
    assert seen.caption in text
    assert map_table(seen) in text
    assert data_of(text)["first"].items() >= {
        "kind": "decoder", "layer": 0, "head": 1, "rows": "read", "measure": "norm", "hide": True, "words": False
    }.items()  # fmt: skip


def test_notes_stand_below_the_texts_and_are_only_text(traced: Traced) -> None:
    text = page(traced(), notes={"unchanged": "Wie <b>geht</b> es?", "what if": "3 of 9"})
    assert '<dt>Unchanged</dt><dd dir="auto">Wie &lt;b&gt;geht&lt;/b&gt; es?</dd>' in text
    assert '<dt>What if</dt><dd dir="auto">3 of 9</dd>' in text


def test_the_table_twin_names_its_rows_and_columns() -> None:
    shown = MapView(np.array([[0.25, 0.75]], np.float32), ("<a>",), ("b", "c"), (False, False), "A & B.")
    assert map_table(shown) == (
        '<table><caption>A &amp; B.</caption><thead><tr><th scope="col" dir="auto"></th>'
        '<th scope="col" dir="auto">b</th><th scope="col" dir="auto">c</th></tr></thead><tbody>'
        '<tr><th scope="row" dir="auto">&lt;a&gt;</th><td>0.250</td><td>0.750</td></tr></tbody></table>'
    )


@pytest.mark.parametrize("letters", ["日本語", "שלום", "naïve"])
def test_a_page_is_written_in_utf_8_and_leaves_nothing_beside_it(traced: Traced, tmp_path: Path, letters: str) -> None:
    save_text(page(traced(source=(f"▁{letters}", "</s>"))), tmp_path / "page.html")
    assert letters in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_it_opens_on_the_head_that_the_model_aligns_by_if_the_trace_shows_it(traced: Traced) -> None:
    trace = traced()
    name = trace.names("cross")[0]
    head = AlignmentHead(layer=name, head=1, rows="read", measure="norm")
    seen = replace(trace, alignment_heads=(head,), norms={name: trace.attention[name]})
    first = data_of(page(seen))["first"]
    assert isinstance(first, dict)
    assert (first["layer"], first["head"], first["rows"], first["measure"]) == (0, 1, "read", "norm")
    for poor in (replace(seen, norms={}), replace(seen, alignment_heads=(head.model_copy(update={"layer": "x"}),))):
        first = data_of(page(poor))["first"]
        assert isinstance(first, dict)
        assert (first["layer"], first["head"]) == (len(trace.names("cross")) - 1, "mean")
