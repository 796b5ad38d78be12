"""The picture of a run: whole whenever someone looks, with what the log says in it."""

import struct
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from dragoman.experiment.training_curves import draw, label_heights

pytestmark = pytest.mark.slow

UPDATES: list[dict[str, Any]] = [
    {"event": "update", "update": 50 * n, "loss": 8.0 / n, "rate": 1e-5 * n} for n in range(1, 9)
]
VALIDATIONS: list[dict[str, Any]] = [
    {
        "event": "validation",
        "update": 200,
        "which": "update 200",
        "best": True,
        "loss": 3.0,
        "bleu": 20.5,
        "chrf": 40.0,
    },
    {
        "event": "validation",
        "update": 400,
        "which": "update 400",
        "best": False,
        "loss": 2.5,
        "bleu": 19.0,
        "chrf": 44.0,
    },
]
EVENTS = [{"event": "begin", "update": 0}, *UPDATES[:4], VALIDATIONS[0], *UPDATES[4:], VALIDATIONS[1]]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved."""
    figures: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **b: (figures.append(self), save(self, *a, **b)))
    return figures


def test_a_png_is_written_and_nothing_beside_it(tmp_path: Path) -> None:
    draw(EVENTS, tmp_path / "curves.png", "little")
    content = (tmp_path / "curves.png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (1100, 418)
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]


def test_both_panels_show_what_the_log_says(tmp_path: Path, drawn: list[Figure]) -> None:
    draw(EVENTS, tmp_path / "curves.png", "little")
    left, right, rates = drawn[0].axes
    curves = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in left.get_lines()}
    assert curves["training"] == ([50 * n for n in range(1, 9)], [8.0 / n for n in range(1, 9)])
    assert curves["validation"] == ([200, 400], [3.0, 2.5])
    scores = {line.get_label(): list(line.get_ydata()) for line in right.get_lines()}
    assert scores["BLEU"] == [20.5, 19.0]
    assert scores["chrF"] == [40.0, 44.0]
    assert rates.get_ylim()[1] > 8e-5
    assert drawn[0].get_suptitle().startswith("little: BLEU 20.5")


def test_the_best_validation_is_marked_and_the_last_one_labelled(tmp_path: Path, drawn: list[Figure]) -> None:
    draw(EVENTS, tmp_path / "curves.png", "little")
    right = drawn[0].axes[1]
    (star,) = [line for line in right.get_lines() if line.get_marker() == "*"]
    assert (star.get_xdata()[0], star.get_ydata()[0]) == (200, 20.5)
    assert "update 200" in right.get_title(loc="left")
    assert [text.get_text() for text in right.texts] == ["BLEU 19.0", "chrF 44.0"]
    assert right.get_ylim()[0] == 0.0
    assert 44.0 < right.get_ylim()[1] < 55.0


@pytest.mark.parametrize("events", [[], EVENTS[:1], EVENTS[:3], VALIDATIONS[:1]])
def test_a_young_run_can_be_drawn_too(events: list[dict[str, Any]], tmp_path: Path) -> None:
    draw(events, tmp_path / "curves.png", "young")
    assert (tmp_path / "curves.png").stat().st_size > 5000


def test_a_picture_that_fails_leaves_the_last_one(tmp_path: Path) -> None:
    draw(EVENTS, tmp_path / "curves.png", "little")
    before = (tmp_path / "curves.png").read_bytes()
    with pytest.raises(KeyError):
        draw([{"event": "update", "update": 1}], tmp_path / "curves.png", "little")
    assert (tmp_path / "curves.png").read_bytes() == before


@pytest.mark.parametrize("values", [(2.0, 50.0), (12.0, 12.5), (12.5, 12.0), (0.0, 0.0), (0.1, 9.9)])
def test_labels_do_not_overlap_and_stay_in_order(values: tuple[float, float]) -> None:
    first, second = label_heights(values, 60.0)
    assert abs(first - second) >= 0.07 * 60 - 1e-9
    assert min(first, second) >= 0.0
    assert values[0] == values[1] or (first < second) == (values[0] < values[1])
