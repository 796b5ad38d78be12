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
from matplotlib.patches import Rectangle
from PIL import Image

from dragoman.alignment.error_rate import AlignmentScore
from dragoman.attention.kinds import Kind
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.inspection import plots
from dragoman.inspection.head_search import AlignmentGrid
from dragoman.inspection.interventions import HeadsOff
from dragoman.inspection.plots.canvas import COLOURS, FAINT, lettering
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import MapChoice

Traced = Callable[..., Trace]


def mesh(ax: Axes) -> QuadMesh:
    return next(drawn for drawn in ax.collections if isinstance(drawn, QuadMesh))


def ticks(ax: Axes) -> tuple[list[str], list[str]]:
    return [label.get_text() for label in ax.get_yticklabels()], [label.get_text() for label in ax.get_xticklabels()]


def caption(ax: Axes) -> str:
    """The title above and the caption below."""
    return f"{ax.get_title(loc='left')}: {ax.get_xlabel()}".replace("\n", " ")


def many(count: int, letter: str) -> tuple[str, ...]:
    return (*(f"▁{letter}{i}" for i in range(count - 1)), "</s>")


def test_a_picture_of_attention_has_its_numbers_labels_and_caption(traced: Traced) -> None:
    trace = traced()
    ax = plots.attention(trace, MapChoice(layer=0, head=1, rows="read"))
    weights = trace.attention["decoder.layers.0.cross_attention"][1]
    np.testing.assert_array_equal(mesh(ax).get_array(), weights)
    assert ticks(ax) == (["<s>", "▁How", "▁are", "▁you"], list(trace.source.pieces))
    assert ax.yaxis_inverted()
    for part in ("attention weights", "just read", "free-running", "model 0123456789ab", "rests on marks"):
        assert part in caption(ax)


def test_the_title_is_above_the_map_and_the_caption_below(traced: Traced) -> None:
    ax = plots.attention(traced(many(9, "s"), many(5, "t"), 1, 1))
    ax.figure.draw_without_rendering()
    assert ax.xaxis.label.get_window_extent().y1 <= min(label.get_window_extent().y0 for label in ax.get_xticklabels())
    assert "a row is" in ax.get_xlabel().replace("\n", " ")
    assert ax.get_title(loc="left").startswith("decoder.layers.0.cross_attention, its only head")


def test_hidden_sinks_are_not_drawn_and_the_caption_says_so(traced: Traced) -> None:
    ax = plots.attention(traced(), MapChoice(hide_sinks=True))
    assert ticks(ax)[1] == ["▁Wie", "▁geht", "s", "▁dir"]
    np.testing.assert_allclose(mesh(ax).get_array().sum(axis=1), 1, rtol=1e-6)
    assert "renormalised" in caption(ax)


def test_rows_that_are_emptied_are_grey(traced: Traced) -> None:
    trace = traced()
    name = "decoder.layers.1.cross_attention"
    weights = trace.attention[name].copy()
    weights[:, 1] = np.eye(6, dtype=np.float32)[5]
    ax = plots.attention(replace(trace, attention={**trace.attention, name: weights}), MapChoice(hide_sinks=True))
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
    assert ax.get_xlabel().startswith(f"in each map, from the left: {across}\n")


def test_the_grid_of_heads_says_which_are_off(traced: Traced) -> None:
    trace = traced()
    name = "decoder.layers.1.cross_attention"
    weights = trace.attention[name].copy()
    weights[2] = 0
    changed = replace(
        trace, attention={**trace.attention, name: weights}, interventions=(HeadsOff(where=name, heads=(2,)),)
    )
    below = [text.get_text() for text in plots.heads(changed).texts]
    assert below[-1] == "off"
    assert sum(text.endswith(" in sinks") for text in below) == 5


def test_every_picture_is_drawn_on_the_axes_given(traced: Traced) -> None:
    trace, figure = traced(), Figure()
    grid = AlignmentGrid({AlignmentHead(layer="decoder.attention", head=0): scored(2, 3)})
    drawings = [
        lambda ax: plots.attention(trace, ax=ax),
        lambda ax: plots.heads(trace, ax=ax),
        lambda ax: plots.aer_grid(grid, ax=ax),
    ]
    for draw, ax in zip(drawings, figure.subplots(1, 3).flat, strict=True):
        assert draw(ax) is ax
        assert len(caption(ax)) > 0


def test_the_colours_fall_in_luminance_so_that_grey_print_says_the_same() -> None:
    shades = matplotlib.colormaps[COLOURS](np.linspace(0, 1, 64))[:, :3]
    luminance = shades @ [0.2126, 0.7152, 0.0722]
    assert all(np.diff(luminance) < 0)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns", "raster"), [(1, 1, False), (50, 50, False), (41, 61, True)])
def test_a_map_is_made_of_paths_up_to_50_by_50_cells(traced: Traced, rows: int, columns: int, raster: bool) -> None:
    drawn = plots.svg(plots.attention(traced(many(columns, "s"), many(rows, "t"), 1, 1)))
    # The colour bar is an image in either case.
    assert drawn.count("<image") == 1 + raster


@pytest.mark.slow
def test_labels_are_thinned_past_60_tokens_and_200_by_200_is_one_small_picture(traced: Traced, tmp_path: Path) -> None:
    ax = plots.attention(traced(many(200, "s"), many(61, "t"), 1, 1))
    rows, columns = ticks(ax)
    assert rows[:2] == ["▁t0", "▁t2"]
    assert (len(rows), len(columns)) == (31, 50)
    assert "There is space for the name of one row in 2 and one column in 4." in caption(ax)
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


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_the_same_picture_gives_the_same_bytes(traced: Traced, tmp_path: Path, ending: str) -> None:
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        plots.save(plots.attention(traced()), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == paths


def test_an_unknown_ending_is_refused(traced: Traced, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"use the extension \.svg or \.pdf or \.png"):
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


def test_letters_without_a_font_give_one_plain_warning(traced: Traced, tmp_path: Path) -> None:
    # A letter of private use: no font of any machine need have it.
    ring = "\U0010fffd"
    with pytest.warns(
        UserWarning, match=f"no font of this machine has the letters {ring}: they show as boxes"
    ) as caught:
        ax = plots.attention(traced(source=(f"▁{ring}", "▁b", "</s>")))
    assert len(caught) == 1
    plots.save(ax, tmp_path / "map.png")
    assert ring in plots.svg(ax)


def test_the_font_that_is_named_is_one_for_the_letters_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.inspection.plots.canvas._drawable", lambda: frozenset("▁"))
    for text, warning in {
        "▁नमस्ते": "such as Noto Sans Devanagari, or",
        "▁中文かな": "such as Noto Sans CJK, or",
        "▁中😀": "such as Noto Sans CJK and Noto Emoji, or",
        "▁abc": "that has them, or save as SVG",
        "▁abcdefghijklm": r"letters a b c d e f g h i j and 3 others: they",
    }.items():
        with pytest.warns(UserWarning, match=warning):
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
