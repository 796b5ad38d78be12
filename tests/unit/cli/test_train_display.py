"""The line for each event of a training."""

import sys

import pytest

from dragoman.cli.train_display import TimeEstimate, TrainingDisplay, describe_event

EVENTS = {
    "begin": (
        {"parameters": 1234, "vocabulary": 50, "pairs": 7, "added": 2000, "last": 900},
        "1,234 parameters, 50 subwords, 7 pairs and 2,000 added",
    ),
    "update": ({"loss": 2.5, "rate": 0.001, "tokens_per_second": 8000.4}, "loss 2.500  rate 1.00e-03  8,000 tokens/s"),
    "planned": ({"last": 1200}, "1,200 updates"),
    "left out": ({"reason": "the loss is NaN", "batches": ["batch 3", "batch 4"]}, "the loss is NaN: batch 3; batch 4"),
    "damaged": ({"snapshots": 2}, "2 snapshots"),
    "saved": ({"checkpoint": 1500}, "update 1,500"),
    "not saved": ({"checkpoint": 1500, "reason": "no space left"}, ": no space left"),
    "resumed": (
        {"then": (1, 1), "now": (2, 4)},
        "2 x 4 threads instead of 1 x 1",
    ),
    "validation": ({"loss": 1.0, "bleu": 12.34, "chrf": 40.0, "best": True}, "BLEU 12.3  chrF 40.0  best so far"),
    "end": ({"why": "the time is up", "kept": "update 5"}, "end: the time is up; keeping update 5"),
}


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_is_shown_with_its_numbers_and_its_time(name: str) -> None:
    fields, expected = EVENTS[name]
    line = describe_event({"event": name, "update": 1500, "seconds": 61.0, **fields})
    assert line is not None
    assert expected in line
    assert name == "begin" or line.startswith("  1,500     1:01  ")


def test_metrics_that_the_recipe_adds_are_shown() -> None:
    scores = {"loss": 1.0, "bleu": 12.34, "chrf": 40.0, "per": 6.54, "exact": 75.0}
    line = describe_event({"event": "validation", "update": 9, "seconds": 1.0, **scores})
    assert line is not None
    assert line.endswith("BLEU 12.3  chrF 40.0  PER 6.5  exact 75.0")


def test_an_unknown_event_is_not_shown() -> None:
    assert describe_event({"event": "anything else"}) is None


def event(kind: str, update: int, seconds: float, **fields: object) -> dict[str, object]:
    return {"event": kind, "update": update, "seconds": seconds, **fields}


def test_under_a_time_limit_the_time_left_is_never_more_than_the_limit() -> None:
    estimate = TimeEstimate()
    estimate.add(event("begin", 0, 0.0, last=100_000, time=480.0))
    assert estimate.left(3.0) == 477.0
    estimate.add(event("progress", 1, 20.0))
    estimate.add(event("progress", 2, 40.0))
    assert estimate.left(45.0) == 435.0


def test_the_time_left_follows_the_speed_of_the_last_third() -> None:
    estimate = TimeEstimate()
    estimate.add(event("begin", 0, 0.0, last=100, time=None))
    for update in range(1, 41):
        estimate.add(event("progress", update, update * 1.0))
    assert estimate.left(40.0) == 60.0
    for update in range(41, 51):
        estimate.add(event("progress", update, 40.0 + (update - 40) * 4.0))
    assert estimate.left(80.0) == pytest.approx(50 * 4.0, rel=0.1)
    assert estimate.left(85.0) == pytest.approx(50 * 4.0 - 5.0, rel=0.1)


def test_validations_to_come_are_counted_and_are_no_measure_of_the_speed() -> None:
    estimate = TimeEstimate()
    estimate.add(event("begin", 0, 0.0, last=100, time=None))
    seconds = 0.0
    for update in range(1, 51):
        seconds += 1.0
        estimate.add(event("progress", update, seconds))
        if update % 20 == 0:
            estimate.add(event("validating", update, seconds))
            assert update == 20 or estimate.left(seconds) == pytest.approx(100 - update + 6.0 * (5 - update // 20 + 1))
            seconds += 6.0
    assert seconds == 62.0
    assert estimate.left(62.0) == pytest.approx(50 + 3 * 6.0)  # after updates 60, 80 and 100
    assert estimate.left(65.0) == pytest.approx(50 + 3 * 6.0 - 3.0)


def test_a_resumed_run_forgets_the_speed_of_the_run_before() -> None:
    estimate = TimeEstimate()
    estimate.add(event("begin", 0, 0.0, last=100, time=None))
    estimate.add(event("resumed", 50, 500.0))
    estimate.add(event("progress", 60, 510.0))
    estimate.add(event("progress", 70, 520.0))
    assert estimate.left(520.0) == pytest.approx(30.0)


def test_a_terminal_shows_the_samples_of_the_verdict_instead_of_those_of_the_last_validation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    scores = {"loss": 1.0, "bleu": 20.0, "chrf": 40.0, "best": True}
    with TrainingDisplay() as display:
        display(
            {"event": "begin", "update": 0, "seconds": 0.0, "last": 9, "parameters": 7, "vocabulary": 5, "pairs": 3}
        )
        display({"event": "validation", "update": 9, "seconds": 1.0, "samples": [("ein", "one", "first")], **scores})
        display({"event": "scoring", "test_set": "dev", "done": 0, "total": 2})
        display({"event": "verdict", "message": "BLEU 20.0", "samples": [("zwei", "two", "second")]})
        display({"event": "finished", "folder": "run", "was_finished": False})
    shown = capsys.readouterr()
    last_view = shown.err.rpartition("gone")[2]
    assert "BLEU 20.0" in last_view
    assert "first" not in last_view
    assert "sentences" not in last_view
    assert "> second" in shown.out


def test_the_validation_of_a_parent_is_not_counted_among_those_to_come() -> None:
    estimate = TimeEstimate()
    estimate.add({"event": "begin", "update": 0, "seconds": 0.0, "last": 100, "time": None})
    estimate.add({"event": "validating", "update": 0, "seconds": 0.0})
    estimate.add({"event": "progress", "update": 10, "seconds": 20.0, "last": 100})
    assert estimate.left(20.0) == 180.0


def test_the_end_shows_bleu_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"test_set": "dev", "num_pairs": 1200, "before": 14.26, "after": 21.0, "p_value": 0.001},
        {"test_set": "kept", "num_pairs": 7, "before": 22.0, "after": 22.0, "p_value": None},
    ]
    with TrainingDisplay() as display:
        display({"event": "comparison", "rows": rows, "notes": ["something else"]})
        display({"event": "finished", "folder": "run", "was_finished": False})
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:4] == [
        "test set pairs BLEU before after difference p",
        "dev 1,200 14.3 21.0 +6.7 0.001",
        "kept 7 22.0 22.0 +0.0 -",
        "note: something else",
    ]
