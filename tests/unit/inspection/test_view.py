from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dragoman.inspection.intervention import Off
from dragoman.inspection.trace import Identity, Trace
from dragoman.inspection.view import View, view, word_view

Traced = Callable[..., Trace]


def test_a_view_is_the_map_of_the_layer_and_head_asked_for(traced: Traced) -> None:
    trace = traced()
    seen = view(trace, 0, 2, kind="cross")
    np.testing.assert_array_equal(seen.matrix, trace.attention["decoder.layers.0.cross_attention"][2])
    assert (seen.rows, seen.columns) == (trace.target.pieces, trace.source.pieces)


def test_the_mean_is_over_the_heads(traced: Traced) -> None:
    trace = traced()
    expected = trace.norms["encoder.layers.1.self_attention"].mean(axis=0)
    np.testing.assert_allclose(view(trace, -1, "mean", kind="encoder", measure="norm").matrix, expected, rtol=1e-6)


def test_the_same_rows_are_named_by_what_was_written_or_by_what_was_read(traced: Traced) -> None:
    written, read = view(traced(), rows="written"), view(traced(), rows="read")
    assert written.rows == ("▁How", "▁are", "▁you", "</s>")
    assert read.rows == ("<s>", "▁How", "▁are", "▁you")
    np.testing.assert_array_equal(written.matrix, read.matrix)


def test_the_decoder_looks_at_what_it_has_read(traced: Traced) -> None:
    seen = view(traced(), kind="decoder")
    assert seen.columns == ("<s>", "▁How", "▁are", "▁you")
    assert seen.sinks == (True, False, False, False)


def test_marks_and_punctuation_are_sinks(traced: Traced) -> None:
    trace = traced(source=("▁a", ",", "▁", "▁«", "▁5", "$", "</s>"))
    assert view(trace).sinks == (False, True, True, True, False, False, True)


def test_the_sink_share_is_what_lies_on_the_sinks() -> None:
    matrix = np.array([[0.5, 0.1, 0.4], [0.2, 0.2, 0.6]], np.float32)
    seen = View(matrix, ("a", "b"), ("c", "d", "</s>"), (False, False, True), "A caption.")
    assert seen.sink_share == pytest.approx(0.5)
    assert seen.with_sink_share().caption == "A caption. 50% of it rests on marks and punctuation."


def test_sinks_are_hidden_and_rows_renormalised_and_the_caption_says_so() -> None:
    matrix = np.array([[0.3, 0.1, 0.6], [0.0, 0.0, 1.0]], np.float32)
    seen = View(matrix, ("a", "b"), ("c", "d", "</s>"), (False, False, True), "A caption.").without_sinks()
    np.testing.assert_allclose(seen.matrix, [[0.75, 0.25], [0, 0]], rtol=1e-6)
    assert seen.columns == ("c", "d")
    assert "renormalised" in seen.caption


def test_the_caption_names_measure_rows_model_and_how_the_target_came_about(traced: Traced) -> None:
    caption = view(traced(free=False), 1, 2, rows="read", measure="norm").caption
    for part in ("decoder.layers.1.cross_attention", "head 2 of 3", "Kobayashi", "just read", "forced", "0123456789ab"):
        assert part in caption
    assert caption.endswith("Where it looked, not why.")
    free = view(replace(traced(), model=Identity(sha256="", vocabulary="", family="")), kind="encoder").caption
    assert "free-running; a model that was never saved" in free
    assert "a row is" not in free


def test_the_caption_says_what_was_done_to_the_model(traced: Traced) -> None:
    changed = replace(traced(), interventions=(Off(where="decoder.layers.1.cross_attention", heads=(2,)),))
    expected = "model 0123456789ab, changed on purpose: head 2 of decoder.layers.1.cross_attention off. Where it looked"
    assert expected in view(changed).caption
    assert "changed" not in view(traced()).caption


def test_a_map_by_words_sums_what_is_received_and_takes_the_mean_of_what_is_given(traced: Traced) -> None:
    trace = traced(target=("▁H", "ow", "▁are", "</s>"))
    weights = trace.attention["decoder.layers.1.cross_attention"][0]
    seen = word_view(trace, 1, 0)
    assert (seen.rows, seen.columns) == (("How", "are"), ("Wie", "gehts", "dir?"))
    assert seen.matrix[0, 1] == pytest.approx((weights[0, 1] + weights[0, 2] + weights[1, 1] + weights[1, 2]) / 2)
    read = word_view(trace, 1, 0, rows="read")
    assert read.matrix[1, 0] == pytest.approx(weights[3, 0])


@pytest.mark.parametrize(
    ("layer", "head", "measure", "message"),
    [
        (2, "mean", "attention", "choose 0 to 1"),
        (-3, "mean", "attention", "choose 0 to 1"),
        (0, 3, "attention", "choose 0 to 2"),
        (0, 0, "norm", "trace the sentence again"),
    ],
)
def test_what_is_not_there_is_refused_with_the_mend(
    traced: Traced, layer: int, head: int, measure: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        view(traced(norms=False), layer, head, measure=measure)


def test_a_kind_the_model_does_not_have_is_refused(traced: Traced) -> None:
    trace = traced()
    recurrent = replace(trace, attention={"decoder.attention": trace.attention["decoder.layers.0.cross_attention"]})
    assert view(recurrent, 0).columns == trace.source.pieces
    with pytest.raises(ValueError, match="has no attention in which source could look at source"):
        view(recurrent, 0, kind="encoder")
