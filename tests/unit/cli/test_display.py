"""What is said of each event of a training."""

import pytest

from dragoman.cli.display import said

EVENTS = {
    "begin": (
        {"parameters": 1234, "vocabulary": 50, "pairs": 7, "last": 900},
        "1,234 parameters, 50 subwords, 7 pairs",
    ),
    "update": ({"loss": 2.5, "rate": 0.001, "tokens_per_second": 8000.4}, "loss 2.500  rate 1.00e-03  8,000 tokens/s"),
    "planned": ({"last": 1200}, "the time is enough for 1,200 updates"),
    "left out": ({"reason": "the loss is NaN", "batches": ["batch 3", "batch 4"]}, "the loss is NaN: batch 3; batch 4"),
    "damaged": ({"snapshots": 2}, "2 snapshots cannot be read again, and are left out of the average"),
    "saved": ({"checkpoint": 1500}, "the state after update 1,500 is saved"),
    "not saved": ({"checkpoint": 1500, "reason": "no space left"}, "could not be saved: no space left"),
    "resumed": (
        {"then": (1, 1), "now": (2, 4)},
        "it ran in 1 process of 1 thread and now in 2 processes of 4 threads: same batches",
    ),
    "validation": ({"loss": 1.0, "bleu": 12.34, "chrf": 40.0, "best": True}, "BLEU 12.3  chrF 40.0  best so far"),
    "end": ({"why": "the time is up", "kept": "update 5"}, "end: the time is up; keeping update 5"),
}


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_is_told_with_its_numbers_when_and_where(name: str) -> None:
    fields, expected = EVENTS[name]
    line = said({"event": name, "update": 1500, "seconds": 61.0, **fields})
    assert line is not None
    assert expected in line
    assert name == "begin" or line.startswith("  1,500     1:01  ")


def test_what_is_no_news_is_not_told() -> None:
    assert said({"event": "anything else"}) is None
