"""From a text to its trace, with the committed models of both families."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.inspection.inspector import Inspector
from dragoman.text.vocab import EOS
from dragoman.translation.translator import Translator

GOLDEN = Path(__file__).parents[2] / "golden"
SHAPES = {
    "v1": {"encoder.layers.0.self_attention", "decoder.layers.0.self_attention", "decoder.layers.0.cross_attention"},
    "v1-recurrent": {"decoder.attention"},
    "v1-convolutional": {"decoder.layers.0.attention", "decoder.layers.1.attention"},
}
TEXT = "four green women."


@cache
def inspector(name: str) -> Inspector:
    return Inspector.load(GOLDEN / name)


@pytest.mark.parametrize("name", SHAPES)
def test_a_trace_holds_the_translation_and_how_it_came_about(name: str) -> None:
    trace = inspector(name).trace(TEXT)
    assert trace.free
    assert not trace.cut
    assert (trace.source.text, trace.target.text) == (TEXT, Translator.load(GOLDEN / name).translate([TEXT])[0])
    assert trace.source.ids[-1] == trace.target.ids[-1] == EOS
    assert set(trace.attention) == set(trace.norms) == SHAPES[name]
    assert (trace.history, trace.vectors) == ((), {})
    written = [[trace.pieces[token] for token in row] for row in trace.alternative_ids.tolist()]
    assert [row[0] for row in written] == list(trace.target.pieces)  # a model as sure as this one
    assert np.exp(trace.log_probabilities).min() > 0.5


@pytest.mark.parametrize("name", SHAPES)
def test_it_says_which_model_it_was(name: str) -> None:
    expected = json.loads((GOLDEN / name / "expected.json").read_text(encoding="utf-8"))
    model = inspector(name).trace(TEXT).model
    assert model.sha256 == expected["sha256"]
    assert model.vocabulary == inspector(name).vocab.sha256
    assert model.family == (name.partition("-")[2] or "transformer")
    unsaved = Inspector(inspector(name).model, inspector(name).vocab)
    assert unsaved.identity == model.model_copy(update={"sha256": ""})


def test_a_target_can_be_forced() -> None:
    trace = inspector("v1").trace(TEXT, "zehn rote Tische.")
    assert not trace.free
    assert trace.target.text == "zehn rote Tische."
    assert trace.log_probabilities.min() < -3.0  # not what the model would have written
    own = inspector("v1").trace(TEXT)
    again = inspector("v1").trace(TEXT, own.target.text)
    np.testing.assert_allclose(again.log_probabilities, own.log_probabilities, atol=1e-6)


def test_texts_are_mended_as_they_are_for_translation() -> None:
    assert inspector("v1").trace(" four\tgreen  women. ", "vier  grüne Frauen.\n").source.text == TEXT
    assert inspector("v1").trace(TEXT, "vier  gru\u0308ne Frauen.\n").target.text == "vier grüne Frauen."


def test_the_history_of_the_search_is_kept_on_request() -> None:
    trace = inspector("v1").trace(TEXT, history=True)
    assert len(trace.history) >= len(trace.target)
    place = next(c.parent for c in trace.history[len(trace.target) - 1] if c.ended)
    tokens = [EOS]
    for step in reversed(trace.history[: len(trace.target) - 1]):
        (candidate,) = (c for c in step if c.place == place)
        tokens.append(candidate.token)
        place = candidate.parent
    assert tuple(reversed(tokens)) == trace.target.ids
    assert {c.token for step in trace.history for c in step} <= set(trace.pieces)


def test_vectors_and_fewer_alternatives_are_kept_on_request() -> None:
    trace = inspector("v1").trace(TEXT, vectors=True, alternatives=2)
    assert set(trace.vectors) == SHAPES["v1"]
    assert trace.alternative_ids.shape == (len(trace.target), 2)


def test_another_beam_is_used_when_asked_for() -> None:
    assert Inspector.load(GOLDEN / "v1", beam_size=2).options.beam_size == 2
    assert inspector("v1").options.beam_size == 3


def test_a_target_that_was_cut_says_so() -> None:
    whole = inspector("v1")
    options = SearchOptions(max_length=LengthLimit(ratio=0.0, extra=4))
    trace = Inspector(whole.model, whole.vocab, options).trace(TEXT)
    assert trace.cut
    assert len(trace.target) == 4


def test_what_cannot_be_traced_is_refused() -> None:
    model = inspector("v1")
    with pytest.raises(ValueError, match="has no text"):
        model.trace(" \t ")
    with pytest.raises(ValueError, match=r"source has \d+ tokens, but the model takes 64: shorten the"):
        model.trace("two red dogs. " * 20)
    with pytest.raises(ValueError, match="the target has"):
        model.trace(TEXT, "zwei rote Hunde. " * 20)
    with pytest.raises(ValueError, match="history"):
        model.trace(TEXT, "vier", history=True)
    with pytest.raises(ValueError, match="prefix"):
        model.trace(TEXT, "vier", prefix="zwei")


def test_the_models_own_target_can_begin_with_a_prefix() -> None:
    trace = inspector("v1").trace(TEXT, prefix="zehn")
    assert trace.free
    assert trace.target.text.split()[0] == "zehn" != inspector("v1").trace(TEXT).target.text.split()[0]


def test_an_empty_target_can_be_forced() -> None:
    trace = inspector("v1").trace(TEXT, "")
    assert trace.target.ids == (EOS,)
    assert trace.attention["decoder.layers.0.cross_attention"].shape == (2, 1, len(trace.source))
