"""What a trace says of itself."""

import numpy as np
import pytest

from dragoman.alignment.tokens import Tokens
from dragoman.attention.kinds import Kind, kind_of
from dragoman.inspection.trace import Trace

NAMES: dict[str, Kind] = {
    "encoder.layers.0.self_attention": "encoder",
    "encoder.layers.10.self_attention": "encoder",
    "decoder.layers.0.self_attention": "decoder",
    "decoder.layers.0.cross_attention": "cross",
    "decoder.attention": "cross",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_who_looks_at_what(name: str) -> None:
    assert kind_of(name) == NAMES[name]


def test_the_maps_of_one_kind_come_in_the_order_of_the_layers() -> None:
    side = Tokens("", (2,), ("</s>",), ((0, 0),), (-1,))
    nothing = np.zeros((1, 0))
    trace = Trace(side, side, True, np.zeros(1), nothing.astype(int), nothing, {n: np.ones((1, 1, 1)) for n in NAMES})
    assert trace.names("encoder") == ["encoder.layers.0.self_attention", "encoder.layers.10.self_attention"]
    assert trace.names("decoder") == ["decoder.layers.0.self_attention"]
    assert trace.names("cross") == ["decoder.layers.0.cross_attention", "decoder.attention"]


def test_a_trace_names_itself_in_one_line_without_its_numbers() -> None:
    source, target = (Tokens(text, (2,), ("</s>",), ((0, 0),), (-1,)) for text in ("a b", "c"))
    nothing = np.zeros((1, 0))
    trace = Trace(
        source, target, True, np.zeros(1), nothing.astype(int), nothing, {n: np.ones((1, 1, 1)) for n in NAMES}
    )
    assert repr(trace) == "<Trace of 'a b' to 'c': free-running, 1 target tokens, 5 attention maps>"


def test_the_words_of_a_text_stand_between_its_spaces() -> None:
    tokens = Tokens(" ein  Hund\u2003läuft", (2,), ("</s>",), ((17, 17),), (-1,))
    assert [tokens.text[a:b] for a, b in tokens.word_spans] == ["ein", "Hund", "läuft"]
