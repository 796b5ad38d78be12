"""Runs in several processes, started by torch's own launcher."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.launcher import api

from dragoman.bundle import open_bundle
from dragoman.data.dates import dates
from dragoman.experiment import launchers
from dragoman.experiment.launchers import Launcher, LocalProcesses, describe_loss, is_lost_process
from dragoman.experiment.log import Event, read_log
from dragoman.experiment.request import TrainRequest
from dragoman.experiment.train_model import train_model
from dragoman.experiment.training_data import prepare_run
from dragoman.recipes.recipe import Recipe
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
            "model": {
                "family": "transformer",
                "d_model": 16,
                "d_ff": 24,
                "num_heads": 2,
                "num_encoder_layers": 1,
                "num_decoder_layers": 1,
            },
            "training": {
                "batch": {"tokens": 300},
                "batches_per_update": 2,
                "precision": "float32",  # two processes and one round alike
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
    monkeypatch.setattr(launchers, "num_cores", lambda: cores)
    assert LocalProcesses().num_processes(None, batches) == expected
    assert LocalProcesses().num_processes(7, batches) == 7  # as requested
    assert Launcher().num_processes(None, batches) == 1


@pytest.fixture(autouse=True)
def one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def launch(folder: Path, processes: int, command: str = "") -> list[Event]:
    """Train in several processes, and return the events that were reported here."""
    events: list[Event] = []
    LocalProcesses().train(TrainRequest(out=folder, command=command), processes, events.append)
    return events


def test_a_timeout_is_named() -> None:
    error = RuntimeError("[../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 90000ms for recv operation")
    assert is_lost_process(error)
    assert "90s" in describe_loss(error)
    assert "--timeout" in describe_loss(error)
    assert "--timeout" not in describe_loss(RuntimeError("[gloo/pair.cc:547] Connection closed by peer"))


def test_only_an_error_of_gloo_means_a_lost_process() -> None:
    assert is_lost_process(RuntimeError("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer"))
    assert not is_lost_process(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_lost_process(ValueError("gloo"))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_two_processes_leave_the_bundle_that_one_leaves(tmp_path: Path) -> None:
    recipe = described(tmp_path)
    for name in ("one", "two"):
        prepare_run(recipe, tmp_path / name, num_workers=1)
    train_model(tmp_path / "one", Group(), lambda _: None, "a command")
    before = dict(os.environ)
    events = launch(tmp_path / "two", 2, "a command")
    assert dict(os.environ) == before
    logged = [event for event in events if event["event"] not in ("progress", "validating", "scoring")]
    assert json.loads(json.dumps(logged)) == read_log(tmp_path / "two")
    one, two = (open_bundle(tmp_path / name) for name in ("one", "two"))
    expected = one.weights()
    for name, found in two.weights().items():
        np.testing.assert_allclose(found, expected[name], rtol=0.0, atol=1e-5, err_msg=name)
    assert [score.value for score in two.card.scores] == [score.value for score in one.card.scores]
    assert (two.card.command, two.card.data, two.card.sizes) == (one.card.command, one.card.data, one.card.sizes)
    assert two.info == one.info
    logs = [read_log(tmp_path / name) for name in ("one", "two")]
    kinds = [[event["event"] for event in log if event["event"] != "saved"] for log in logs]  # that depends on the time
    assert kinds[0] == kinds[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_an_error_of_the_workers_is_raised_by_the_launcher(tmp_path: Path) -> None:
    prepare_run(described(tmp_path), tmp_path / "run", num_workers=1)
    with pytest.raises(ValueError, match="3 processes cannot share 2 batches"):
        launch(tmp_path / "run", 3)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_an_error_in_the_callback_ends_the_training(tmp_path: Path) -> None:
    prepare_run(described(tmp_path), tmp_path / "run", num_workers=1)

    def fail(event: Event) -> None:
        raise ZeroDivisionError(event["event"])

    with pytest.raises(ZeroDivisionError, match="begin"):
        LocalProcesses().train(TrainRequest(out=tmp_path / "run"), 2, fail)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_failure_that_happens_twice_is_not_tried_a_third_time(tmp_path: Path) -> None:
    run = tmp_path / "run"
    prepare_run(described(tmp_path), run, num_workers=1)
    (run / "curves.png").mkdir()  # the first validation cannot draw
    with pytest.raises(ValueError, match="IsADirectoryError"):
        launch(run, 2)
    assert sum(event["event"] == "begin" for event in read_log(run)) <= 2


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_ctrl_c_stops_the_training_even_if_its_exception_got_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries that call Python from C may drop the exception of a signal handler."""

    class Forgetful(api.elastic_launch):
        def __call__(self, *arguments: str) -> dict[int, object]:
            with suppress(SignalException):
                signal.raise_signal(signal.SIGINT)
            return super().__call__(*arguments)

    run = tmp_path / "run"
    prepare_run(described(tmp_path), run, num_workers=1)
    monkeypatch.setattr(api, "elastic_launch", Forgetful)
    with pytest.raises(KeyboardInterrupt):
        launch(run, 2)
    assert not (run / "log.jsonl").exists()
