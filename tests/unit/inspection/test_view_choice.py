"""Which map is shown: the one asked for, else the head that the model aligns by, else the best guess at one."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dragoman.alignment.head_names import guess_head
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import MapChoice, choose, view

Traced = Callable[..., Trace]
CROSS = "decoder.layers.{}.cross_attention"
FIRST = AlignmentHead(layer=CROSS.format(0), head=2, rows="read", measure="norm")


@pytest.fixture
def aligning(traced: Traced) -> Trace:
    return replace(traced(), alignment_heads=(FIRST, AlignmentHead(layer=CROSS.format(1), head=None)))


def test_left_alone_it_is_the_head_that_the_model_aligns_by(aligning: Trace) -> None:
    chosen = choose(replace(aligning, alignment_heads=(FIRST,)))
    assert chosen == MapChoice("cross", 0, 2, "read", "norm", reason="the head that this model aligns by")
    assert chosen.alignment_head(aligning) == FIRST


def test_of_several_it_is_the_first_and_says_so(aligning: Trace) -> None:
    assert choose(aligning).reason == "the first of the 2 heads that this model aligns by"
    assert choose(aligning).head == 2
    mean = replace(aligning, alignment_heads=aligning.alignment_heads[1:])
    assert (choose(mean).layer, choose(mean).head) == (1, "mean")
    assert choose(mean).alignment_head(mean) == mean.alignment_heads[0]


def test_rows_and_measure_can_be_changed_alone(aligning: Trace) -> None:
    chosen = choose(aligning, rows="written", measure="attention")
    assert (chosen.layer, chosen.head, chosen.rows, chosen.measure) == (0, 2, "written", "attention")


def test_with_a_layer_or_a_head_the_rest_has_the_plain_defaults(aligning: Trace) -> None:
    assert choose(aligning, layer=0) == MapChoice("cross", 0, "mean", "written", "attention")
    assert choose(aligning, head=1) == MapChoice("cross", -1, 1, "written", "attention")


def test_without_an_alignment_head_it_is_the_guess_that_links_are_made_by_and_says_so(traced: Traced) -> None:
    trace = traced(num_layers=4)
    chosen = choose(trace)
    assert (chosen.layer, chosen.head, chosen.rows, chosen.measure) == (2, "mean", "written", "attention")
    assert chosen.reason == "no alignment head is known for this model: this is a guess, the mean of layer 2"
    assert (
        chosen.alignment_head(trace)
        == guess_head(trace.names("cross"))
        == AlignmentHead(layer=CROSS.format(2), head=None)
    )
    assert choose(traced(num_layers=1)).layer == 0
    assert choose(traced(num_layers=1, num_heads=1)).reason == ""  # there was nothing to choose
    assert choose(traced(num_layers=2, num_heads=1)).reason


def test_the_alignment_head_is_of_cross_attention_alone(aligning: Trace) -> None:
    assert choose(aligning, "encoder") == MapChoice("encoder", -1, "mean", "written", "attention")


def test_an_alignment_head_that_the_model_does_not_have_is_refused(aligning: Trace) -> None:
    gone = AlignmentHead(layer=CROSS.format(7), head=0)
    with pytest.raises(ValueError, match=r"alignment head is in '.*7.*', but the model has .*: give a layer"):
        choose(replace(aligning, alignment_heads=(gone,)))


def test_the_view_is_of_the_map_chosen(traced: Traced) -> None:
    trace = traced()
    seen = MapChoice("decoder", 0, 1, "read", "norm").view(trace)
    expected = view(trace, 0, 1, kind="decoder", rows="read", measure="norm").with_sink_share()
    np.testing.assert_array_equal(seen.matrix, expected.matrix)
    assert (seen.rows, seen.columns, seen.caption) == (expected.rows, expected.columns, expected.caption)


def test_words_are_merged_and_sinks_hidden_on_request(traced: Traced) -> None:
    trace = traced(source=("▁Wie", "▁geht", "s", "▁?", "</s>"))
    by_word = MapChoice("cross", 0, 2, "read", "attention", by_word=True)
    seen, pieces = by_word.view(trace), trace.attention[CROSS.format(0)][2]
    assert (seen.rows, seen.columns) == (("How", "are", "you"), ("Wie", "gehts", "?"))
    np.testing.assert_allclose(seen.matrix[0], [pieces[1, 0], pieces[1, 1:3].sum(), pieces[1, 3]], rtol=1e-6)
    hidden = replace(by_word, hide_sinks=True).view(trace)
    assert hidden.columns == ("Wie", "gehts")
    np.testing.assert_allclose(hidden.matrix.sum(1), 1, rtol=1e-6)
    assert "Sinks hidden" in hidden.caption
