"""The log of a run: readable at any moment, even the last one."""

import json
import sys
from pathlib import Path

import pytest

from dragoman.experiment.log import LOG, TrainingLog, read_log

EVENTS = [
    {"event": "begin", "update": 0, "seconds": 0.0},
    {"event": "update", "update": 50, "seconds": 1.5, "loss": 7.5, "rate": 0.001, "tokens_per_second": 900.0},
    {"event": "validation", "update": 50, "loss": 7.0, "bleu": 1.5, "samples": [["a", "größer", "\u2028 größe\n"]]},
]


def test_each_event_is_a_line_of_json_and_there_at_once(tmp_path: Path) -> None:
    with TrainingLog(tmp_path) as log:
        for number, event in enumerate(EVENTS, 1):
            log(event)
            assert (tmp_path / LOG).read_text("utf-8").count("\n") == number
            assert read_log(tmp_path) == EVENTS[:number]
    assert [json.loads(line) for line in (tmp_path / LOG).read_bytes().split(b"\n")[:-1]] == EVENTS
    assert "größer" in (tmp_path / LOG).read_text("utf-8")


def test_wherever_a_kill_cuts_the_last_line_the_rest_is_read(tmp_path: Path) -> None:
    with TrainingLog(tmp_path) as log:
        for event in EVENTS:
            log(event)
    whole = (tmp_path / LOG).read_bytes()
    begin_of_last = whole[:-1].rindex(b"\n") + 1
    for end in range(begin_of_last, len(whole) - 1):
        (tmp_path / LOG).write_bytes(whole[:end])
        assert read_log(tmp_path) == EVENTS[:2], whole[begin_of_last:end]


def test_a_new_run_begins_a_new_log(tmp_path: Path) -> None:
    for _ in range(2):
        with TrainingLog(tmp_path) as log:
            log(EVENTS[0])
    assert read_log(tmp_path) == EVENTS[:1]


def test_tensorboard_is_only_imported_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with TrainingLog(tmp_path) as log:
        log(EVENTS[1])
    assert not (tmp_path / "tensorboard").exists()
    with pytest.raises(ModuleNotFoundError, match="tensorboard"):
        TrainingLog(tmp_path, tensorboard=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_gets_the_curves(tmp_path: Path) -> None:
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with TrainingLog(tmp_path, tensorboard=True) as log:
        for event in EVENTS:
            log(event)
    board = event_accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    found = {name: [(point.step, point.value) for point in board.Scalars(name)] for name in board.Tags()["scalars"]}
    assert found == {
        "training/loss": [(50, 7.5)],
        "training/rate": [(50, pytest.approx(0.001))],
        "training/tokens_per_second": [(50, 900.0)],
        "validation/loss": [(50, 7.0)],
        "validation/bleu": [(50, 1.5)],
    }


def test_a_run_that_goes_on_forgets_what_will_happen_again(tmp_path: Path) -> None:
    def event(name: str, update: int) -> dict[str, object]:
        return {"event": name, "update": update, "seconds": 0.5}

    with TrainingLog(tmp_path) as log:
        for happened in (event("begin", 0), event("update", 5), event("validation", 5), event("update", 10)):
            log(happened)
    with (tmp_path / LOG).open("a") as cut_off:  # killed while it wrote
        cut_off.write('{"event": "upd')
    with TrainingLog(tmp_path, is_resumed=True) as log:
        log(event("begin", 0))
        log(event("resumed", 5))
        log(event("update", 10))
    kept = [(found["event"], found["update"]) for found in read_log(tmp_path)]
    assert kept == [("begin", 0), ("update", 5), ("validation", 5), ("resumed", 5), ("update", 10)]
