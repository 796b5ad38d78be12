from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dragoman.inspection.interventions import HeadsOff
from dragoman.inspection.trace import ModelIdentity, Trace
from dragoman.inspection.view import MapChoice, MapView, single_bytes, view

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
    seen = MapView(matrix, ("a", "b"), ("c", "d", "</s>"), (False, False, True), "A caption.")
    assert seen.sink_share == pytest.approx(0.5)
    assert seen.with_sink_share().caption == "A caption. 50% of it rests on marks and punctuation."


def test_sinks_are_hidden_and_rows_renormalised_and_the_caption_says_so() -> None:
    matrix = np.array([[0.3, 0.1, 0.6], [0.3, 0.2, 0.5], [0.2, 0.2, 0.6]], np.float32)
    marks = (False, True, False)
    seen = MapView(
        matrix, ("a", ".", "b"), ("c", "d", "</s>"), (False, False, True), "A caption.", marks
    ).without_sinks()
    np.testing.assert_allclose(seen.matrix, [[0.75, 0.25], [0.5, 0.5]], rtol=1e-6)
    assert (seen.rows, seen.columns, seen.empty_rows) == (("a", "b"), ("c", "d"), ())
    assert seen.caption == "A caption. Sinks hidden, as rows too; rows renormalised."


def test_a_row_with_little_left_beside_the_sinks_is_not_blown_up_but_empty_and_named() -> None:
    matrix = np.array([[0.12, 0.07, 0.81], [0.13, 0.08, 0.79], [0.0, 0.0, 1.0]], np.float32)
    seen = MapView(matrix, ("a\n", "b", "e"), ("c", "d", "</s>"), (False, False, True), "A caption.").without_sinks()
    np.testing.assert_allclose(seen.matrix, [[0, 0], [13 / 21, 8 / 21], [0, 0]], rtol=1e-6)
    assert seen.empty_rows == (0, 2)
    assert seen.caption.endswith("renormalised. Empty, as less than 20% of them is left: a·, e.")


def test_where_the_sinks_are_all_there_is_nothing_is_drawn(traced: Traced) -> None:
    with pytest.raises(ValueError, match="leave out --hide-sinks"):
        view(traced(source=("▁", "...", "</s>"))).without_sinks()
    sinking = MapView(np.array([[0.1, 0.9]], np.float32), ("a",), ("c", "."), (False, True), "A caption.")
    with pytest.raises(ValueError, match="less than 20% of every row remains"):
        sinking.without_sinks()


def test_by_word_what_went_to_eos_counts_for_what_is_left(traced: Traced) -> None:
    trace = traced(source=("▁Wie", "▁gehts", "▁?", "</s>"))
    weights = np.zeros((1, 4, 4), np.float32)
    weights[0] = [0.05, 0.05, 0.0, 0.9]
    weights[0, 1] = [0.5, 0.3, 0.1, 0.1]
    changed = replace(trace, attention={"decoder.layers.0.cross_attention": weights})
    seen = MapChoice(by_word=True, hide_sinks=True).view(changed)
    np.testing.assert_allclose(seen.matrix, [[0, 0], [0.625, 0.375], [0, 0]], rtol=1e-6)
    assert "less than 20% of them is left: How, you." in seen.caption


def test_rows_of_marks_are_told_apart(traced: Traced) -> None:
    trace = traced(target=("▁a", ",", "▁b", "</s>"))
    assert view(trace).sink_rows == (False, True, False, True)
    assert view(trace, rows="read").sink_rows == (True, False, True, False)
    assert view(trace, kind="encoder").sink_rows == (False, False, False, False, True, True)


# Heads that were switched off


def switched_off(trace: Trace, name: str, *heads: int) -> Trace:
    maps = {name: trace.attention[name].copy()}
    maps[name][list(heads)] = 0
    norms = {name: trace.norms[name] * (maps[name] > 0)}
    return replace(
        trace,
        attention={**trace.attention, **maps},
        norms={**trace.norms, **norms},
        interventions=(HeadsOff(where=name, heads=heads),),
    )


LAST = "decoder.layers.1.cross_attention"


@pytest.mark.parametrize("measure", ["attention", "norm"])
def test_the_mean_is_of_the_heads_that_are_on(traced: Traced, measure: str) -> None:
    trace = switched_off(traced(), LAST, 1)
    maps = (trace.attention if measure == "attention" else trace.norms)[LAST]
    seen = view(trace, measure=measure)
    np.testing.assert_allclose(seen.matrix, maps[[0, 2]].mean(0), rtol=1e-6)
    assert f"{LAST}, mean of 2 of 3 heads, head 1 off: " in seen.caption
    assert ", mean of 3 heads: " in view(trace, 0).caption
    assert "mean of 1 of 3 heads, heads 0 and 2 off: " in view(switched_off(traced(), LAST, 0, 2)).caption


def test_a_head_that_is_off_says_so_and_not_where_it_rests(traced: Traced) -> None:
    caption = view(switched_off(traced(), LAST, 1), head=1).with_sink_share().caption
    assert f"{LAST}, head 1 of 3, off: " in caption
    assert "rests on" not in caption
    everything = view(switched_off(traced(), LAST, 0, 1, 2)).with_sink_share()
    assert f"{LAST}, all 3 heads, off: " in everything.caption
    assert not everything.matrix.any()
    alone = switched_off(traced(num_heads=1), LAST, 0)
    assert f"{LAST}, its only head, off: " in view(alone).caption


def test_a_head_that_looked_nowhere_by_itself_is_not_called_off(traced: Traced) -> None:
    assert "mean of 3 heads" in view(replace(switched_off(traced(), LAST, 1), interventions=())).caption


# Letters that the model has not learned


def test_the_first_byte_of_a_letter_has_the_letter_with_it(traced: Traced) -> None:
    pieces = ("▁a", "<0xE4>", "<0xB8>", "<0xAD>", "<0xC3>", "<0xA4>", "</s>")
    spans = ((0, 1), (1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (3, 3))
    trace = traced(source=pieces)
    trace = replace(trace, source=replace(trace.source, text="a中ä", spans=spans))
    assert view(trace).columns == ("▁a", "中<0xE4>", "<0xB8>", "<0xAD>", "ä<0xC3>", "<0xA4>", "</s>")
    assert single_bytes(trace.source) == [1, 2, 3, 4, 5]
    assert view(trace).sinks == (False,) * 6 + (True,)


def test_the_caption_names_measure_rows_model_and_how_the_target_came_about(traced: Traced) -> None:
    caption = view(traced(free=False), 1, 2, rows="read", measure="norm").caption
    for part in ("decoder.layers.1.cross_attention", "head 2 of 3", "Kobayashi", "just read", "forced", "0123456789ab"):
        assert part in caption
    assert caption.endswith("Where it looked, not why. One sentence is an anecdote.")
    free = view(replace(traced(), model=ModelIdentity(sha256="", vocabulary="", family="")), kind="cross").caption
    assert "free-running; a model that was never saved" in free


def test_the_encoder_knows_no_target_and_its_rows_are_source_tokens(traced: Traced) -> None:
    caption = view(traced(), kind="encoder").caption
    assert ": attention weights; a row is the source token that looks; model 0123456789ab. Where it looked" in caption


def test_the_caption_says_what_was_done_to_the_model(traced: Traced) -> None:
    changed = replace(traced(), interventions=(HeadsOff(where="decoder.layers.1.cross_attention", heads=(2,)),))
    expected = "model 0123456789ab, changed on purpose: head 2 of decoder.layers.1.cross_attention off. Where it looked"
    assert expected in view(changed).caption
    assert "changed" not in view(traced()).caption


def test_a_map_by_words_sums_what_is_received_and_takes_the_mean_of_what_is_given(traced: Traced) -> None:
    trace = traced(target=("▁H", "ow", "▁are", "</s>"))
    weights = trace.attention["decoder.layers.1.cross_attention"][0]
    seen = MapChoice(layer=1, head=0, by_word=True).view(trace)
    assert (seen.rows, seen.columns) == (("How", "are"), ("Wie", "gehts", "dir?"))
    assert seen.matrix[0, 1] == pytest.approx((weights[0, 1] + weights[0, 2] + weights[1, 1] + weights[1, 2]) / 2)
    read = MapChoice(layer=1, head=0, rows="read", by_word=True).view(trace)
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
    with pytest.raises(ValueError, match="has no encoder attention"):
        view(recurrent, 0, kind="encoder")
