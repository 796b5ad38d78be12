"""How fast this machine trains right now, found by training a tiny model for a second or two on nothing."""

import time
from dataclasses import replace
from typing import Final

import torch

from dragoman.data.vocab import UNK
from dragoman.experiment.estimate import tokens_per_second
from dragoman.experiment.machine import Machine
from dragoman.models.build import build
from dragoman.models.presets import preset
from dragoman.training.config import LossConfig
from dragoman.training.objective import Objective

_ROWS: Final = 128
_LENGTH: Final = 16
_VOCABULARY: Final = 4000
_SECONDS: Final = 1.5


def measured(machine: Machine) -> Machine:
    """The machine with its speed, as a share of what was measured where the estimates are from."""
    one = replace(machine, cores=1, speed=1.0)
    precision = "bfloat16" if machine.bfloat16 else "float32"
    expected = tokens_per_second(preset("tiny", _VOCABULARY), precision, one)
    return replace(machine, speed=_tokens_per_second(machine.bfloat16) / expected)


def _tokens_per_second(bfloat16: bool) -> float:
    """Of one thread, with the tiny model; leaves threads and random numbers as they were."""
    num_threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.set_num_threads(1)
        objective = Objective(build(preset("tiny", _VOCABULARY)), LossConfig())
        tokens = torch.randint(UNK + 1, _VOCABULARY, (_ROWS, _LENGTH))
        _step(objective, tokens, bfloat16)
        steps, begin = 0, time.monotonic()
        while time.monotonic() - begin < _SECONDS:
            _step(objective, tokens, bfloat16)
            steps += 1
    took = time.monotonic() - begin
    torch.set_num_threads(num_threads)
    return steps * 2 * tokens.numel() / took


def _step(objective: Objective, tokens: torch.Tensor, bfloat16: bool) -> None:
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        loss = objective(tokens, tokens)
    loss.backward()
