"""Two processes make the updates that one makes: the same batches, the same dropout, the same sums."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

SCRIPT = Path(__file__).with_name("together.py")
SECONDS = 150


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process alone found, and what the first and the second of two did."""
    alone, both = tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("both")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [{"RANK": str(r), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} for r in (0, 1)]
    started = [start(alone, {}), *(start(both, rank) for rank in ranks)]
    try:
        for process in started:
            _, errors = process.communicate(timeout=SECONDS)
            assert process.returncode == 0, errors
    finally:
        for process in started:
            process.kill()
    names = {"alone": alone / "0-of-1.pt", "first": both / "0-of-2.pt", "second": both / "1-of-2.pt"}
    return {name: torch.load(path) for name, path in names.items()}


def start(folder: Path, rank: Mapping[str, str]) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    return subprocess.Popen(
        [sys.executable, "-W", "error::UserWarning", str(SCRIPT), str(folder)],
        env={**environment, "OMP_NUM_THREADS": "1", **rank},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def largest_difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((weight - other[name]).abs().max()) for name, weight in one.items())


def test_sums_are_exact_and_the_same_everywhere(found: dict[str, Any]) -> None:
    assert found["alone"]["group"]["sums"] == [1.0, 2.0**-60, 5.0]
    assert found["first"]["group"]["sums"] == found["second"]["group"]["sums"] == [3.0, 3 * 2.0**-60, 10.0]


def test_what_the_first_says_everyone_has(found: dict[str, Any]) -> None:
    for who in found.values():
        assert who["group"]["said"] == {"rank": 0, "text": "für alle"}


def test_what_is_gathered_is_in_order_of_rank(found: dict[str, Any]) -> None:
    assert found["alone"]["group"]["gathered"] == [(0, "")]
    assert found["first"]["group"]["gathered"] == found["second"]["group"]["gathered"] == [(0, ""), (1, "x")]


@pytest.mark.parametrize("run", ["transformer", "r_drop", "bahdanau", "convs2s"])
def test_the_first_update_is_that_of_one_process(run: str, found: dict[str, Any]) -> None:
    one, two = found["alone"][run], found["first"][run]
    assert two["gradients"][0] == pytest.approx(one["gradients"][0], rel=1e-6)
    assert two["losses"][0] == pytest.approx(one["losses"][0], rel=1e-7)
    assert largest_difference(one["first"], two["first"]) < 1e-6


@pytest.mark.parametrize(
    ("run", "plain"),
    [("shared out, one", "transformer"), ("bahdanau shared out", "bahdanau"), ("convs2s shared out", "convs2s")],
)
def test_the_first_update_with_shared_out_weights_is_that_of_one_process(
    run: str, plain: str, found: dict[str, Any]
) -> None:
    one, two = found["alone"][plain], found["first"][run]
    assert two["gradients"][0] == pytest.approx(one["gradients"][0], rel=1e-6)
    assert two["losses"][0] == pytest.approx(one["losses"][0], rel=1e-7)
    assert largest_difference(one["first"], two["last"]) < 1e-6


@pytest.mark.parametrize("run", ["transformer", "shared out"])
def test_fifty_updates_have_the_losses_of_one_process(run: str, found: dict[str, Any]) -> None:
    one, two = found["alone"]["transformer"]["losses"], found["first"][run]["losses"]
    assert len(one) == 50
    assert two == pytest.approx(one, rel=1e-5)
    assert one[-1] < 0.95 * one[0]


def test_all_processes_end_with_bitwise_the_same_weights(found: dict[str, Any]) -> None:
    for run in ("transformer", "r_drop", "bahdanau", "convs2s", "shared out"):
        assert largest_difference(found["first"][run]["last"], found["second"][run]["last"]) == 0.0
        assert found["first"][run]["which"] == found["second"][run]["which"]


def test_only_the_first_speaks(found: dict[str, Any]) -> None:
    # How often progress is reported depends on the time that updates take.
    first, alone = (
        [kind for kind in found[who]["transformer"]["told"] if kind != "progress"] for who in ("first", "alone")
    )
    assert first == alone
    assert found["first"]["transformer"]["told"].count("validation") == 2  # one of them of the snapshots' average
    assert found["second"]["transformer"]["told"] == []


def test_a_mean_of_means_would_be_noticed(found: dict[str, Any]) -> None:
    one, right, wrong = found["alone"]["transformer"], found["first"]["transformer"], found["first"]["mean of means"]
    assert largest_difference(found["alone"]["mean of means"]["first"], one["first"]) < 1e-6
    assert largest_difference(wrong["first"], one["first"]) > 100 * largest_difference(right["first"], one["first"])
    assert wrong["losses"][2] != pytest.approx(one["losses"][2], rel=1e-5)


def test_two_processes_validate_as_one_does(found: dict[str, Any]) -> None:
    one = found["alone"]["validated"]
    for who in ("first", "second"):
        two = found[who]["validated"]
        assert two["scores"]["loss"] == pytest.approx(one["scores"]["loss"], rel=1e-6)
        for name in ("bleu", "chrf", "samples"):
            assert two["scores"][name] == one["scores"][name], name
        assert two["one_text"] == one["one_text"]  # the second process had nothing to translate
        assert two["is_training"]
