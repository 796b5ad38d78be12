import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from PIL import Image

from dragoman.data.alignment import AlignmentHead
from dragoman.decoding.hypothesis import Candidate
from dragoman.inspection import plots
from dragoman.inspection.aer import AlignmentScore
from dragoman.inspection.aer_grid import AlignmentGrid
from dragoman.inspection.intervention import Off
from dragoman.inspection.plots.canvas import COLOURS, FAINT, lettering
from dragoman.inspection.trace import Kind, Trace

Traced = Callable[..., Trace]


def mesh(ax: Axes) -> QuadMesh:
    return next(drawn for drawn in ax.collections if isinstance(drawn, QuadMesh))


def ticks(ax: Axes) -> tuple[list[str], list[str]]:
    return [label.get_text() for label in ax.get_yticklabels()], [label.get_text() for label in ax.get_xticklabels()]


def caption(ax: Axes) -> str:
    return ax.get_title(loc="left").replace("\n", " ")


def many(count: int, letter: str) -> tuple[str, ...]:
    return (*(f"▁{letter}{i}" for i in range(count - 1)), "</s>")


def test_a_picture_of_attention_has_its_numbers_labels_and_caption(traced: Traced) -> None:
    trace = traced()
    ax = plots.attention(trace, 0, 1, rows="read")
    weights = trace.attention["decoder.layers.0.cross_attention"][1]
    np.testing.assert_array_equal(mesh(ax).get_array(), weights)
    assert ticks(ax) == (["<s>", "▁How", "▁are", "▁you"], list(trace.source.pieces))
    assert ax.yaxis_inverted()
    for part in ("attention weights", "just read", "free-running", "model 0123456789ab", "rests on marks"):
        assert part in caption(ax)


def test_hidden_sinks_are_not_drawn_and_the_caption_says_so(traced: Traced) -> None:
    ax = plots.attention(traced(), hide_sinks=True)
    assert ticks(ax)[1] == ["▁Wie", "▁geht", "s", "▁dir"]
    np.testing.assert_allclose(mesh(ax).get_array().sum(axis=1), 1, rtol=1e-6)
    assert "renormalised" in caption(ax)


def test_rows_that_are_emptied_are_grey(traced: Traced) -> None:
    trace = traced()
    name = "decoder.layers.1.cross_attention"
    weights = trace.attention[name].copy()
    weights[:, 1] = np.eye(6, dtype=np.float32)[5]
    ax = plots.attention(replace(trace, attention={**trace.attention, name: weights}), hide_sinks=True)
    (band,) = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert (band.get_y(), band.get_height(), band.get_facecolor()[:3]) == (0.5, 1.0, to_rgb(FAINT))
    assert "less than 20% of them is left: ▁are." in caption(ax)


@pytest.mark.parametrize(
    ("kind", "row", "down", "across"),
    [
        ("cross", "a row is the token being written", "tokens being written", "source tokens"),
        ("encoder", "a row is the source token that looks", "source tokens", "source tokens"),
        ("decoder", "a row is the token being written", "tokens being written", "tokens read"),
    ],
)
def test_the_grid_of_heads_says_what_rows_columns_and_sinks_are(
    traced: Traced, kind: Kind, row: str, down: str, across: str
) -> None:
    ax = plots.heads(traced(), kind)
    for part in (row, "sinks are marks and punctuation", "One sentence is an anecdote."):
        assert part in caption(ax)
    assert ax.get_ylabel() == f"in each map, from the top: {down}"
    assert ax.get_xlabel() == f"in each map, from the left: {across}"


def test_the_grid_of_heads_says_which_are_off(traced: Traced) -> None:
    trace = traced()
    name = "decoder.layers.1.cross_attention"
    weights = trace.attention[name].copy()
    weights[2] = 0
    changed = replace(trace, attention={**trace.attention, name: weights}, interventions=(Off(where=name, heads=(2,)),))
    below = [text.get_text() for text in plots.heads(changed).texts]
    assert below[-1] == "off"
    assert sum(text.endswith(" in sinks") for text in below) == 5


def test_every_picture_is_drawn_on_the_axes_given(traced: Traced) -> None:
    trace, figure = traced(), Figure()
    grid = AlignmentGrid({AlignmentHead(layer="decoder.attention", head=0): scored(2, 3)})
    drawings = [
        lambda ax: plots.attention(trace, ax=ax),
        lambda ax: plots.heads(trace, ax=ax),
        lambda ax: plots.alignment(trace, ax=ax),
        lambda ax: plots.contributions(trace, np.ones((4, 6)), "occlusion", ax=ax),
        lambda ax: plots.source_share(trace, np.full(4, 0.5), ax=ax),
        lambda ax: plots.evolution({"entropy": [(1, 0.5)]}, "entropy", ax=ax),
        lambda ax: plots.aer_grid(grid, ax=ax),
        lambda ax: plots.beam_tree(searched(trace), ax=ax),
    ]
    for draw, ax in zip(drawings, figure.subplots(2, 4).flat, strict=True):
        assert draw(ax) is ax
        assert len(caption(ax)) > 0


def test_the_colours_fall_in_luminance_so_that_grey_print_says_the_same() -> None:
    shades = matplotlib.colormaps[COLOURS](np.linspace(0, 1, 64))[:, :3]
    luminance = shades @ [0.2126, 0.7152, 0.0722]
    assert all(np.diff(luminance) < 0)


@pytest.mark.parametrize(("rows", "columns", "raster"), [(1, 1, False), (50, 50, False), (41, 61, True)])
def test_a_map_is_made_of_paths_up_to_50_by_50_cells(traced: Traced, rows: int, columns: int, raster: bool) -> None:
    drawn = plots.svg(plots.attention(traced(many(columns, "s"), many(rows, "t"), 1, 1)))
    # The colour bar is an image in either case.
    assert drawn.count("<image") == 1 + raster


def test_labels_are_thinned_past_60_tokens_and_200_by_200_is_one_small_picture(traced: Traced, tmp_path: Path) -> None:
    ax = plots.attention(traced(many(200, "s"), many(61, "t"), 1, 1))
    rows, columns = ticks(ax)
    assert rows[:2] == ["▁t0", "▁t2"]
    assert (len(rows), len(columns)) == (31, 50)
    assert "There is room for the name of one row in 2 and one column in 4." in ax.get_title(loc="left").replace(
        "\n", " "
    )
    plots.save(plots.attention(traced(many(200, "s"), many(200, "t"), 1, 1)), tmp_path / "map.svg")
    assert (tmp_path / "map.svg").stat().st_size < 500_000


def test_a_grid_shows_every_head_of_every_layer_on_one_scale(traced: Traced) -> None:
    trace = traced()
    ax = plots.heads(trace, "encoder")
    meshes = [drawn for drawn in ax.collections if isinstance(drawn, QuadMesh)]
    weights = [trace.attention[f"encoder.layers.{i}.self_attention"] for i in range(2)]
    assert len(meshes) == 2 * 3
    np.testing.assert_array_equal(meshes[4].get_array(), weights[1][1])
    assert {drawn.get_clim() for drawn in meshes} == {(0.0, float(max(one.max() for one in weights)))}
    assert ticks(ax) == (["layer 0", "layer 1"], ["head 0", "head 1", "head 2"])
    assert sum("in sinks" in text.get_text() for text in ax.texts) == 6


def test_ribbons_are_as_wide_as_the_map_says(traced: Traced) -> None:
    trace = traced(("▁a", "▁b", "</s>"), ("▁x", "▁y", "▁z", "</s>"), 1, 1)
    weights = np.array([[[0.8, 0.1, 0.1], [0.4, 0.6, 0], [0.01, 0.0, 0.99], [0, 0, 1]]], np.float32)
    ax = plots.alignment(replace(trace, attention={"decoder.layers.0.cross_attention": weights}))
    ribbons = [drawn for drawn in ax.patches if isinstance(drawn, PathPatch)]
    assert [one.get_linewidth() / ribbons[0].get_linewidth() for one in ribbons] == pytest.approx(
        [1, 1 / 8, 1 / 2, 3 / 4]
    )
    assert [text.get_text() for text in ax.texts] == ["a", "b", "x", "y", "z"]


def test_links_are_lines_between_the_words_they_name(traced: Traced) -> None:
    ax = plots.alignment(traced(), [(0, 0), (2, 1)])
    places = {text.get_text(): text.get_position()[1] for text in ax.texts}
    ends = [(line.get_path().vertices[0][1], line.get_path().vertices[-1][1]) for line in ax.patches]
    assert ends == [(places["Wie"], places["How"]), (places["dir?"], places["are"])]
    with pytest.raises(ValueError, match="link 3-0 leaves"):
        plots.alignment(traced(), [(3, 0)])


def test_what_is_below_zero_is_marked_without_colour(traced: Traced) -> None:
    matrix = np.zeros((4, 6))
    matrix[1, 2], matrix[3, 5] = -0.5, 0.25
    ax = plots.contributions(traced(), matrix, "occlusion")
    dots = next(drawn for drawn in ax.collections if not isinstance(drawn, QuadMesh))
    assert dots.get_offsets().tolist() == [[2, 1]]
    assert mesh(ax).get_array().max() == 0.5


def test_shares_of_source_and_prefix_fill_each_bar(traced: Traced) -> None:
    ax = plots.source_share(traced(), np.array([0.75, 0.5, 0.25, 0.125]))
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == [0.75, 0.5, 0.25, 0.125, 0.25, 0.5, 0.75, 0.875]
    assert "not a proof" in caption(ax)


def scored(num_right: int, num_sure: int) -> AlignmentScore:
    """An error rate of 1 - right / sure."""
    return AlignmentScore(np.array([[num_sure, num_sure, num_right, num_right]]))


def test_the_best_cell_of_an_error_grid_is_framed_and_named() -> None:
    names = [f"decoder.layers.{i}.cross_attention" for i in range(2)]
    right = {(0, 0): 1, (0, 1): 2, (0, None): 3, (1, 0): 4, (1, 1): 7, (1, None): 6}
    heads = {AlignmentHead(layer=names[layer], head=head): scored(count, 8) for (layer, head), count in right.items()}
    ax = plots.aer_grid(AlignmentGrid(heads), text="508 gold pairs.")
    assert [text.get_text() for text in ax.texts] == ["0.875", "0.750", "0.625", "0.500", "0.125", "0.250"]
    assert ticks(ax) == (["decoder.layers.0", "decoder.layers.1"], ["head 0", "head 1", "mean"])
    assert "layer 1, head 1, 0.125" in caption(ax)
    assert caption(ax).endswith("508 gold pairs.")
    frames = [drawn for drawn in ax.patches if isinstance(drawn, Rectangle)]
    assert {(round(one.get_x() + 0.45), round(one.get_y() + 0.42)) for one in frames} == {(1, 1)}


def searched(trace: Trace) -> Trace:
    """Two places; the target is [11, 12, EOS]: it falls to second place, and ends from there."""
    history = (
        (Candidate(0, 11, -0.5, 0, False), Candidate(0, 21, -1.0, 1, False), Candidate(0, 31, -3.0, None, False)),
        (Candidate(1, 12, -1.1, 0, False), Candidate(0, 12, -1.2, 1, False), Candidate(0, 2, -1.3, None, True)),
        (Candidate(1, 2, -1.4, None, True), Candidate(0, 2, -1.5, None, True), Candidate(0, 13, -2.0, 0, False)),
    )
    target = replace(trace.target, ids=(11, 12, 2))
    return replace(trace, target=target, history=history, pieces={11: "▁an", 12: "▁end", 21: "▁x", 2: "</s>"})


def test_the_tree_follows_the_chosen_hypothesis_through_the_beam(traced: Traced) -> None:
    ax = plots.beam_tree(searched(traced()))
    heavy = [line.get_ydata().tolist() for line in ax.lines if line.get_linewidth() > 2]
    assert heavy == [[0, 0], [0, 1], [1, 2]]
    texts = [text.get_text() for text in ax.texts]
    assert "▁end  -1.2" in texts
    assert "#13  -2.0" in texts
    assert texts[-3:] == ["1 fell", "0 fell", "0 fell"]


def test_a_trace_without_history_has_no_tree(traced: Traced) -> None:
    with pytest.raises(ValueError, match="history=True"):
        plots.beam_tree(traced())


def test_lines_over_training_differ_in_more_than_colour() -> None:
    ax = plots.evolution({name: [(10, 0.5), (20, 0.75)] for name in "abcdefgh"}, "entropy")
    assert len({(line.get_linestyle(), line.get_marker()) for line in ax.lines}) == 8
    assert ax.lines[3].get_xydata().tolist() == [[10, 0.5], [20, 0.75]]


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_the_same_picture_gives_the_same_bytes(traced: Traced, tmp_path: Path, ending: str) -> None:
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        plots.save(plots.attention(traced()), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == paths


def test_an_unknown_ending_is_refused(traced: Traced, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"end its name in \.svg, \.pdf, \.png"):
        plots.save(plots.attention(traced()), tmp_path / "map.gif")


def test_text_stays_text_and_a_pdf_brings_its_fonts(traced: Traced, tmp_path: Path) -> None:
    ax = plots.attention(traced())
    drawn = plots.svg(ax)
    assert re.search(r"<text[^>]*>▁geht</text>", drawn)
    assert "<style" not in drawn
    plots.save(ax, tmp_path / "map.pdf")
    assert b"/FontFile2" in (tmp_path / "map.pdf").read_bytes()


def test_a_token_is_no_formula_and_no_markup(traced: Traced) -> None:
    drawn = plots.svg(plots.attention(traced(source=(r"$\frac$", "<b>&", "a\x1bb", "</s>"))))
    assert r">$\frac$</text>" in drawn
    assert "&lt;b&gt;&amp;" in drawn
    assert "a·b" in drawn


def test_letters_without_a_font_are_told_once_in_plain_words(traced: Traced, tmp_path: Path) -> None:
    # A letter of private use: no font of any machine need have it.
    ring = "\U0010fffd"
    with pytest.warns(UserWarning, match=f"no font of this machine has the letters {ring}: they show as boxes") as told:
        ax = plots.attention(traced(source=(f"▁{ring}", "▁b", "</s>")))
    assert len(told) == 1
    plots.save(ax, tmp_path / "map.png")
    assert ring in plots.svg(ax)


def test_the_font_that_is_named_is_one_for_the_letters_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.inspection.plots.canvas._drawable", lambda: frozenset("▁"))
    for text, said in {
        "▁नमस्ते": "such as Noto Sans Devanagari, or",
        "▁中文かな": "such as Noto Sans CJK, or",
        "▁中😀": "such as Noto Sans CJK and Noto Emoji, or",
        "▁abc": "that has them, or save as SVG",
        "▁abcdefghijklm": r"letters a b c d e f g h i j and 3 others: they",
    }.items():
        with pytest.warns(UserWarning, match=said):
            lettering([text])


def test_right_to_left_labels_are_drawn_from_right_to_left(tmp_path: Path) -> None:
    """Lamed is tall and vav is low: the letter that is spelled first must stand on the right."""
    tops = {}
    for word in ("\u05dc\u05d5", "\u05d5\u05dc"):
        figure = Figure(figsize=(1, 1))
        figure.text(0.1, 0.3, word, **lettering([word]) | {"fontsize": 40})
        figure.savefig(tmp_path / "word.png", dpi=100)
        ink = np.asarray(Image.open(tmp_path / "word.png").convert("L")) < 128
        columns = np.flatnonzero(ink.any(axis=0))
        letters = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1)
        tops[word] = [int(np.flatnonzero(ink[:, letter].any(axis=1))[0]) for letter in letters]
    (left, right), (other_left, other_right) = tops.values()
    assert left > right
    assert other_left < other_right


def test_no_warning_is_given_for_what_can_be_drawn(traced: Traced, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.save(plots.attention(traced(source=("▁Größe", "▁مرحبا", "▁שלום", "▁Ελλάδα", "</s>"))), tmp_path / "m.png")
