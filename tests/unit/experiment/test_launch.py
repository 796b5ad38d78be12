"""Runs in several processes, started by torch's own launcher."""

from pathlib import Path

import numpy as np
import pytest

from dragoman.bundle import open_bundle
from dragoman.data.dates import dates
from dragoman.experiment import launch as launching
from dragoman.experiment.begin import begin
from dragoman.experiment.launch import launch, num_processes
from dragoman.experiment.log import read_log
from dragoman.experiment.recipe import Recipe
from dragoman.experiment.run import carry_out
from dragoman.training.parallel import Group


def described(folder: Path) -> Recipe:
    for side, texts in zip(("source", "target"), zip(*dates(200, 1), strict=True), strict=True):
        (folder / f"train.{side}").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return Recipe.model_validate(
        {
            "name": "little dates",
            "data": {
                "train": [{"source": str(folder / "train.source"), "target": str(folder / "train.target")}],
                "split": 30,
                "vocabulary": {"size": 330, "character_coverage": 1.0},
            },
            "model": {"family": "transformer", "d_model": 16, "d_ff": 24, "num_heads": 2, "num_encoder_layers": 1},
            "training": {
                "batch": {"tokens": 300},
                "batches_per_update": 2,
                "schedule": {"factors": ["warmup"], "rate": 0.01, "warmup": 5},
                "optimizer": {"epsilon": 1e-4},
                "stop": {"updates": 16, "metric": "loss"},
                "validate_every": 8,
                "log_every": 1,
            },
            "validation": {"search": {"beam_size": 1}},
        }
    )


@pytest.mark.parametrize(
    ("cores", "batches", "expected"), [(1, 8, 1), (2, 4, 2), (2, 3, 1), (4, 6, 3), (8, 4, 4), (3, 1, 1)]
)
def test_as_many_processes_as_share_an_update_evenly(
    cores: int, batches: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "num_cores", lambda: cores)
    assert num_processes(None, batches) == expected
    assert num_processes(7, batches) == 7  # the user's word


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the launcher leaves in the environment is gone after the test."""
    monkeypatch.setenv(launching.ORDERS, "")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
@pytest.mark.filterwarnings("default")
def test_two_processes_leave_the_bundle_that_one_leaves(tmp_path: Path) -> None:
    recipe = described(tmp_path)
    for name in ("one", "two"):
        begin(recipe, tmp_path / name, num_workers=1)
    carry_out(tmp_path / "one", Group(), lambda _: None, "a command")
    launch(tmp_path / "two", 2, "a command", tensorboard=False)
    one, two = (open_bundle(tmp_path / name) for name in ("one", "two"))
    expected = one.weights()
    for name, found in two.weights().items():
        np.testing.assert_allclose(found, expected[name], rtol=0.0, atol=1e-5, err_msg=name)
    assert [score.value for score in two.card.scores] == [score.value for score in one.card.scores]
    assert (two.card.command, two.card.data, two.card.sizes) == (one.card.command, one.card.data, one.card.sizes)
    assert two.info == one.info
    kinds = [[event["event"] for event in read_log(tmp_path / name)] for name in ("one", "two")]
    assert kinds[0] == kinds[1]


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
@pytest.mark.filterwarnings("default")
def test_what_a_user_can_mend_is_said_by_the_launcher(tmp_path: Path) -> None:
    begin(described(tmp_path), tmp_path / "run", num_workers=1)
    with pytest.raises(ValueError, match="batches_per_update 2 cannot be shared by 3 processes: make it a multiple"):
        launch(tmp_path / "run", 3, "", tensorboard=False)
    assert not (tmp_path / "run" / ".complaint").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
@pytest.mark.filterwarnings("default")
def test_what_fails_twice_in_the_same_way_is_not_begun_a_third_time(tmp_path: Path) -> None:
    run = tmp_path / "run"
    begin(described(tmp_path), run, num_workers=1)
    (run / "curves.png").mkdir()  # the first validation cannot draw
    with pytest.raises(ValueError, match="failed twice in the same way, see above: IsADirectoryError"):
        launch(run, 2, "", tensorboard=False)
    assert sum(event["event"] == "begin" for event in read_log(run)) <= 2
    assert not (run / ".failure").exists()
