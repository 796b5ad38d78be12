"""The one entrance to training, in this process."""

import signal
from pathlib import Path

import numpy as np
import pytest

from dragoman.bundle import open_bundle, unfinished_note
from dragoman.data.dates import dates
from dragoman.experiment.launchers import Launcher, LocalProcesses, Torchrun, default_launcher
from dragoman.experiment.log import Event
from dragoman.experiment.request import TrainRequest
from dragoman.experiment.run_training import run_training, write_recipe
from dragoman.io.progress import ignore_progress

pytestmark = pytest.mark.slow

RECIPE = """\
name: short
data:
  train:
    - source: a.en
      target: a.iso
  split: 20
  vocabulary: {size: 380}
model: {d_model: 16, d_ff: 24, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1}
training:
  batch: {tokens: 512}
  schedule: {factors: [warmup, linear], rate: 0.002, warmup: 2}
  stop: {updates: 4}
  validate_every: 4
validation: {search: {beam_size: 1}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for side, texts in zip(("en", "iso"), zip(*dates(200, seed=1), strict=True), strict=True):
        (tmp_path / f"a.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    (tmp_path / "r.yaml").write_text(RECIPE, encoding="utf-8")
    return tmp_path


def test_it_reports_events_returns_the_bundle_and_has_nothing_to_do_the_second_time(folder: Path) -> None:
    request = TrainRequest(out=folder / "run", recipe=folder / "r.yaml", command="dragoman train r.yaml")
    events: list[Event] = []
    result = run_training(request, Launcher(), on_event=events.append)
    kinds = [event["event"] for event in events]
    assert (kinds[0], kinds[1], kinds[-1]) == ("plan", "begin", "finished")
    assert {"validation", "score", "end"} <= set(kinds)
    assert (result.bundle / "model.safetensors").is_file()
    assert [score.test_set for score in result.scores] == ["dev", "dev"]
    assert not result.was_finished
    again = run_training(request, Launcher(), on_event=events.append)
    assert (again.was_finished, again.scores) == (True, result.scores)
    with pytest.raises(ValueError, match="seed"):
        run_training(TrainRequest(out=folder / "run", recipe=folder / "r.yaml", overrides=("seed=9",)), Launcher())


def test_what_is_wrong_is_raised_before_anything_is_written(folder: Path) -> None:
    for overrides, expected in ((("model.d_model=65536",), "GB"), (("data.train.0.source=none.en",), r"none\.en")):
        request = TrainRequest(out=folder / "run", recipe=folder / "r.yaml", overrides=overrides)
        with pytest.raises(ValueError, match=expected):
            run_training(request, Launcher())
        assert not (folder / "run" / "prepared").exists()
    with pytest.raises(ValueError, match="--processes 2"):
        run_training(TrainRequest(out=folder / "run", recipe=folder / "r.yaml", processes=2), Launcher())


def test_a_training_that_is_interrupted_reports_how_far_it_came(folder: Path) -> None:
    events: list[Event] = []

    def interrupt(event: Event) -> None:
        events.append(event)
        if event["event"] == "begin":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_training(TrainRequest(out=folder / "run", recipe=folder / "r.yaml"), Launcher(), on_event=interrupt)
    assert events[-1]["event"] == "stopped"
    assert "before the first checkpoint" in events[-1]["message"]


def test_ctrl_c_saves_and_the_best_weights_so_far_can_be_used(folder: Path) -> None:
    events: list[Event] = []

    def interrupt(event: Event) -> None:
        events.append(event)
        if event["event"] == "validation":
            signal.raise_signal(signal.SIGINT)

    changes = ("training.stop.updates=8", "training.log_every=1")
    request = TrainRequest(out=folder / "run", recipe=folder / "r.yaml", overrides=changes)
    with pytest.raises(KeyboardInterrupt):
        run_training(request, Launcher(), on_event=interrupt)
    assert events[-1]["event"] == "stopped"
    assert "resumes from update 4" in events[-1]["message"]
    assert "stopping" in {event["event"] for event in events}
    assert "stopping" not in (folder / "run" / "log.jsonl").read_text("utf-8")

    best = open_bundle(folder / "run")
    assert best.folder == (folder / "run" / "best").resolve()
    assert best.card.unfinished == unfinished_note(folder / "run")
    assert "update 4" in (best.card.unfinished or "")

    run_training(request, Launcher())
    undisturbed = TrainRequest(out=folder / "other", recipe=folder / "r.yaml", overrides=changes)
    run_training(undisturbed, Launcher())
    weights, expected = (open_bundle(folder / name).weights() for name in ("run", "other"))
    assert all(np.array_equal(weights[name], expected[name]) for name in expected)
    assert not (folder / "run" / "best").exists()
    assert open_bundle(folder / "run").card.unfinished is None
    assert unfinished_note(folder / "run") is None


def test_the_end_is_a_verdict_with_samples(folder: Path) -> None:
    events: list[Event] = []
    run_training(TrainRequest(out=folder / "run", recipe=folder / "r.yaml"), Launcher(), on_event=events.append)
    verdict = next(event for event in events if event["event"] == "verdict")
    assert verdict["message"].startswith("BLEU ")
    sources = (folder / "run" / "dev.source").read_text("utf-8").splitlines()
    assert [source for source, _, _ in verdict["samples"]] == [sources[index] for index in (5, 10, 15)]
    scoring = [event for event in events if event["event"] == "scoring"]
    assert {event["total"] for event in scoring} == {20}


def test_a_restart_before_the_first_checkpoint_keeps_the_choices(folder: Path) -> None:
    request = TrainRequest(
        out=folder / "run", source=(str(folder / "a.en"),), target=(str(folder / "a.iso"),), time="60s", processes=1
    )
    recipes: list[bytes] = []

    def interrupt(event: Event) -> None:
        if event["event"] == "begin":
            recipes.append((folder / "run" / "recipe.yaml").read_bytes())
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run_training(request, Launcher(), on_event=interrupt)
        # A second plan would differ: it measures the speed of the machine again.
        path = folder / "run" / "recipe.yaml"
        path.write_text(path.read_text("utf-8").replace("ema: 0.998", "ema: 0.75"), encoding="utf-8")
    assert b"ema: 0.75" in recipes[1]


def test_the_recipe_alone_can_be_written(folder: Path) -> None:
    request = TrainRequest(out=folder / "run", recipe=folder / "r.yaml", overrides=("seed=7",))
    path = write_recipe(request, ignore_progress, lambda _: None)
    assert "seed: 7\n" in path.read_text(encoding="utf-8")
    assert [file.name for file in path.parent.iterdir()] == ["recipe.yaml"]


def test_a_recipe_that_the_user_wrote_is_not_overwritten(folder: Path) -> None:
    request = TrainRequest(out=folder / "run", source=(str(folder / "a.en"),), target=(str(folder / "a.iso"),))
    path = write_recipe(request, ignore_progress, lambda _: None)
    for begin in (run_training, lambda request: write_recipe(request, ignore_progress, lambda _: None)):
        with pytest.raises(ValueError, match=str(path)):
            begin(request)


def test_a_folder_with_other_files_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="new folder"):
        run_training(TrainRequest(out=folder, source=(str(folder / "a.en"),), target=(str(folder / "a.iso"),)))


def test_the_launcher_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert type(default_launcher()) is LocalProcesses
    monkeypatch.setenv("RANK", "1")
    assert type(default_launcher()) is Torchrun
