import time

import pytest
import torch

from dragoman.experiment import machine as module
from dragoman.experiment.machine import Machine, measure_speed, tokens_per_second
from dragoman.models.presets import preset

pytestmark = pytest.mark.slow

MACHINE = Machine(cores=3, memory=None, bfloat16=False)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that goes on by a quarter of a second whenever a step is made, and not otherwise."""
    now = [0.0]

    def step(*_: object) -> None:
        now[0] += 0.25

    monkeypatch.setattr(module, "_step", step)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_the_speed_is_that_of_one_core_beside_the_expected_one(clock: list[float]) -> None:
    machine = measure_speed(MACHINE)
    tokens = 2 * 40 * 16 / 0.25  # source and target of a step
    expected = tokens_per_second(preset("small", 4000), "float32", Machine(1, None, bfloat16=False))
    assert machine.speed == pytest.approx(tokens / expected)
    assert (machine.cores, machine.memory, machine.bfloat16) == (3, None, False)
    assert clock[0] == 7 * 0.25  # one to get warm, and six until 1.5 seconds have gone


def test_a_speed_that_was_there_before_does_not_count(clock: list[float]) -> None:
    assert measure_speed(Machine(3, None, bfloat16=False, speed=5.0)) == measure_speed(MACHINE)


@pytest.mark.parametrize("bfloat16", [False, True])
def test_trying_it_out_leaves_no_trace(monkeypatch: pytest.MonkeyPatch, bfloat16: bool) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.01)
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    assert measure_speed(Machine(2, None, bfloat16)).speed > 0.0
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
