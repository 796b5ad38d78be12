"""Pictures of an evolution: every line, cell and map is the number it stands for."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from dragoman.inspection import plots
from dragoman.inspection.evolution import ROLES, Evolution, ProbeSnapshot, read_evolution, save_snapshot
from dragoman.inspection.plots.evolution_curves import apart, lines, maps, roles, spread, turning_points
from dragoman.inspection.trace import Trace

Traced = Callable[..., Trace]
UPDATES = (0, 300, 700, 1000)


@pytest.fixture
def evolution(tmp_path: Path, traced: Traced) -> Evolution:
    """The last snapshot is an average; the third was kept."""
    for i, update in enumerate(UPDATES):
        trace = traced(free=False, norms=False)
        rng = np.random.default_rng(i)
        mixed = {}
        for name, weights in trace.attention.items():
            drawn = rng.exponential(size=weights.shape) ** (i + 1)
            mixed[name] = (drawn / drawn.sum(-1, keepdims=True)).astype(np.float32)
        snapshot = ProbeSnapshot(
            update=update, which="?", is_average=i == 3, best=i == 2, loss=1.0, bleu=20.0 + i, chrf=1.0
        )
        save_snapshot(snapshot, [replace(trace, attention=mixed)], tmp_path / "run")
    return read_evolution(tmp_path / "run")


def caption(ax: Axes) -> str:
    """The title above and the caption below."""
    return f"{ax.get_title(loc='left')}: {ax.get_xlabel()}".replace("\n", " ")


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_every_head_is_a_line_over_the_updates_without_the_average(evolution: Evolution) -> None:
    ax = lines(evolution, "alignment")
    curves = [line for line in ax.lines if len(line.get_xdata()) == 3]
    for curve, history in zip(curves, evolution.heads("cross"), strict=True):
        assert tuple(curve.get_xdata()) == UPDATES[:3]
        assert tuple(curve.get_ydata()) == history.alignment[:3]
    strokes = {(curve.get_color(), curve.get_linestyle()) for curve in curves}
    assert len(strokes) == len({color for color, _ in strokes}) == len({style for _, style in strokes}) == 2
    assert sorted(texts(ax)) == [history.short for history in evolution.heads("cross")]
    (kept,) = [line for line in ax.lines if len(line.get_xdata()) == 2]
    assert kept.get_xdata()[0] == 700
    assert caption(ax).endswith("Dotted: the update that was kept.")
    for part in ("alignment", "between source words and target words", "forced", "run run", "target looks at source"):
        assert part in caption(ax)


def test_names_at_the_ends_of_lines_do_not_lie_on_each_other(evolution: Evolution) -> None:
    level = tuple(replace(history, entropy=(0.5,) * 4) for history in evolution.histories)
    ax = lines(replace(evolution, histories=level), "entropy")
    heights = sorted(text.get_position()[1] for text in ax.texts)
    assert len(heights) == 6
    assert min(np.diff(heights)) > 0.05
    assert np.mean(heights) == pytest.approx(0.5)


def test_names_are_moved_apart_by_as_little_as_can_be() -> None:
    assert apart([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    assert apart([0.4, 0.4, 0.4, 0.8], 0.1) == pytest.approx([0.3, 0.4, 0.5, 0.8])
    assert apart([0.4, 0.4, 0.48, 0.5], 0.1) == pytest.approx([0.295, 0.395, 0.495, 0.595])


def test_every_name_is_led_to_the_end_of_its_line(evolution: Evolution) -> None:
    ax = lines(evolution, "entropy")
    ends = {text.get_text(): text.xy for text in ax.texts}  # type: ignore[attr-defined]
    assert ends == {history.short: (700, history.entropy[2]) for history in evolution.heads("cross")}
    assert all(text.arrow_patch is not None for text in ax.texts)  # type: ignore[attr-defined]


def test_of_many_lines_the_thick_one_is_named_and_layers_have_a_legend(evolution: Evolution) -> None:
    many = tuple(replace(history, layer=i, head=i) for i, history in enumerate(evolution.heads("cross") * 3))
    ax = lines(replace(evolution, histories=many), "entropy", thick=many[16])
    assert texts(ax) == ["L16H16"]
    widths = [line.get_linewidth() for line in ax.lines[:18]]
    assert widths.index(max(widths)) == 16
    assert sorted(widths)[-2] < 1
    assert "layer 16 head 16 thick" in caption(ax)
    legend = ax.get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == 18


def test_of_few_lines_the_one_that_stands_out_is_thick(evolution: Evolution) -> None:
    ax = lines(evolution, "entropy", "decoder")
    widths = [line.get_linewidth() for line in ax.lines[:6]]
    heads = evolution.heads("decoder")
    assert heads[widths.index(max(widths))] == evolution.standout("decoder")
    assert ax.get_legend() is None


def test_a_number_that_is_not_known_leaves_a_gap(evolution: Evolution) -> None:
    first, *rest = evolution.heads("cross")
    ax = lines(replace(evolution, histories=(replace(first, entropy=(0.4, None, 0.2, 0.1)), *rest)), "entropy")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [0.4, np.nan, 0.2])


def test_a_role_has_its_letter_and_its_colour(evolution: Evolution) -> None:
    heads = evolution.heads(None)
    ax = roles(evolution, heads)
    cells = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert len(cells) == len(heads) * 4 == len(texts(ax))
    for cell, text in zip(cells, ax.texts, strict=True):
        history, snapshot = heads[int(cell.get_y())], int(cell.get_x())
        letter, colour = ROLES[history.label[snapshot]]
        assert text.get_text() == letter
        assert cell.get_facecolor()[:3] == to_rgb(colour)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "300", "700\nkept", "average"]
    assert ax.get_yticklabels()[0].get_text() == "cross layer 0 head 0"


def test_roles_are_told_apart_in_grey() -> None:
    letters = [letter for letter, _ in ROLES.values()]
    assert len(set(letters)) == len(ROLES) == 7
    grey = sorted(float(np.dot(to_rgb(colour), (0.2126, 0.7152, 0.0722))) for _, colour in ROLES.values())
    assert min(np.diff(grey)) > 0.03


def test_the_maps_are_those_of_the_snapshots_on_one_scale(evolution: Evolution) -> None:
    history = evolution.head("cross", 1, 2)
    ax = maps(evolution, 0, history)
    meshes = [drawn for drawn in ax.collections if isinstance(drawn, QuadMesh)]
    expected = [trace.attention[history.name][2] for trace in evolution.traces(0)][:3]
    for mesh, weights in zip(meshes, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(mesh.get_array()).reshape(weights.shape), weights)
        assert mesh.get_clim() == (0, max(float(one.max()) for one in expected))
    (above,) = ax.child_axes
    names = [label.get_text() for label in above.get_xticklabels()]
    assert names == ["update 0", "update 300", "update 700, kept"]
    assert [label.get_text() for label in ax.get_yticklabels()] == list(evolution.traces(0)[0].target.pieces)
    assert len(ax.get_xticklabels()) == 3 * 6
    assert "room" not in caption(ax)
    for part in ("decoder.layers.1.cross_attention, head 2 of 3", "attention weights", "being written", "not why"):
        assert part in caption(ax)


def test_of_a_long_sentence_only_labels_that_have_room_are_shown(
    traced: Traced, tmp_path: Path, evolution: Evolution
) -> None:
    long = traced((*(f"▁w{i}" for i in range(63)), "</s>"), (*(f"▁v{i}" for i in range(63)), "</s>"), free=False)
    for i in range(2):
        save_snapshot(ProbeSnapshot(update=i, which="?"), [replace(long, norms={})], tmp_path / "long")
    ax = maps(read_evolution(tmp_path / "long"), 0, evolution.head("cross", 0, 0))
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels == [*(f"▁w{i}" for i in range(0, 63, 3)), "</s>"] * 2
    assert len(ax.get_yticklabels()) == 32
    assert "There is space for the name of one row in 2 and one column in 3." in caption(ax)


def test_of_many_snapshots_the_first_and_the_last_are_shown() -> None:
    assert spread(3, 6) == [0, 1, 2]
    assert spread(1, 6) == [0]
    assert spread(11, 6) == [0, 2, 4, 6, 8, 10]
    assert len(spread(1000, 40)) == 40
    assert (spread(1000, 40)[0], spread(1000, 40)[-1]) == (0, 999)


def test_maps_are_shown_where_they_changed() -> None:
    still, moved = np.zeros((2, 3)), np.ones((2, 3))
    assert turning_points([still] * 5 + [0.5 * moved] + [moved] * 9, 3) == [0, 5, 14]
    assert turning_points([still], 6) == [0]
    assert turning_points([still, moved], 6) == [0, 1]
    assert turning_points([still] * 4, 6) == [0, 3]
    assert turning_points([i * moved for i in range(11)], 6) == [0, 2, 4, 6, 8, 10]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cross", "encoder", "decoder"])
def test_one_sheet_has_it_all(kind: str, evolution: Evolution, tmp_path: Path) -> None:
    ax = plots.evolution(evolution, kind, 0)  # type: ignore[arg-type]
    figure = ax.get_figure(root=True)
    assert figure is not None
    left, right, strip, last = figure.axes
    assert last is ax
    assert left.get_title(loc="left").endswith(": entropy")
    assert right.get_title(loc="left").endswith(": alignment" if kind == "cross" else ": sink share")
    assert len(strip.get_yticklabels()) == 18
    assert f"{evolution.standout(kind).name}, head" in caption(last)  # type: ignore[arg-type]
    plots.save(ax, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size > 10_000


def test_of_a_large_model_the_sheet_has_the_roles_of_one_kind(evolution: Evolution) -> None:
    large = replace(evolution, histories=tuple(history for history in evolution.histories for _ in range(3)))
    figure = plots.evolution(large, "cross", 0).get_figure(root=True)
    assert figure is not None
    assert len(figure.axes[2].get_yticklabels()) == 18
