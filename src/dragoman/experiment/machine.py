"""The machine to train on, and estimates of training time, memory and disk space.

The constants were measured on one machine; `measure_speed` scales them to the current machine. The estimates are
accurate to a factor of about two; training measures its actual speed. torch is imported only for the measurement.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from dragoman.bundle import open_bundle
from dragoman.device import (
    CPU,
    autocast,
    choose_device,
    count_devices,
    free_memory,
    is_cpu,
    keep_random_state,
    wait_for,
)
from dragoman.device import is_fast_in_bfloat16 as is_device_fast_in_bfloat16
from dragoman.io.cgroup import memory_left, read_or_empty
from dragoman.io.processes import num_cores
from dragoman.models import cost
from dragoman.models.config import ModelConfig, with_vocabulary
from dragoman.models.presets import preset
from dragoman.recipes.recipe import Recipe

_FAST_BFLOAT16: Final = {"amx_bf16", "avx512_bf16"}
"""CPU flags of Linux; without one of these flags, bfloat16 is slower than float32."""

_SECONDS_PER_TOKEN: Final = 85e-6
"""The time per token that one core spends outside matrix products, which dominates in small models."""

_PRODUCTS: Final = {"bfloat16": 180e9, "float32": 90e9}
"""The FLOP/s of one core in the matrix products of training, by precision."""

_PROCESS: Final = 500_000_000
"""The memory in bytes of a process that has imported torch but has no model."""

_COPIES: Final = 6
"""Copies of the weights in memory: weights, gradients, Adam's two moments, best weights and moving average."""

_PREPARED: Final = 5
"""Bytes on disk per byte of text during preparation: raw, cleaned and encoded chunks, and shards."""

_FILL: Final = 0.93
"""The share of the token budget of a batch that is not padding or unused."""

_ROWS: Final = 40
_LENGTH: Final = 16
_VOCABULARY: Final = 4000
_SECONDS: Final = 1.5
"""The batch shape, vocabulary size and duration of a speed measurement."""

_DEVICE_BATCH: Final = 8
"""How many times larger the batch of a measurement is on an accelerator, which small batches leave idle."""


@dataclass(frozen=True)
class Machine:
    """The resources of a machine that training may use."""

    cores: int
    memory: int | None
    """Free memory in bytes; None if unknown."""
    bfloat16: bool
    """True if bfloat16 is faster than float32."""
    speed: float = 1.0
    """Training speed of a core or device, relative to the core on which the constants were measured."""
    device: str = CPU
    """The kind of device that trains."""
    num_devices: int = 0
    """The number of accelerators that train; 0: the cores do."""
    device_memory: int | None = None
    """Free memory of an accelerator in bytes; None if unknown."""

    @property
    def max_processes(self) -> int:
        """The number of training processes that do not slow each other down: one per accelerator or core."""
        return self.num_devices or self.cores

    @property
    def processors(self) -> str:
        """The accelerators or cores, in words."""
        if self.num_devices:
            return f"{self.num_devices} {self.device} device{'s' * (self.num_devices > 1)}"
        return f"{self.cores} core{'s' * (self.cores > 1)}"


def this_machine(device: str = CPU) -> Machine:
    """Return the resources of the current machine for training on a device."""
    limits = (parse_meminfo(read_or_empty(Path("/proc/meminfo"))), memory_left())
    known = [limit for limit in limits if limit is not None]
    host = Machine(num_cores(), min(known, default=None), is_fast_in_bfloat16(read_or_empty(Path("/proc/cpuinfo"))))
    if device == CPU or not (count := count_devices(device)):
        return host
    first = choose_device(device)
    bfloat16, memory = is_device_fast_in_bfloat16(first), free_memory(first)
    return replace(host, bfloat16=bfloat16, device=first.type, num_devices=count, device_memory=memory)


def is_fast_in_bfloat16(cpuinfo: str) -> bool:
    """Return True if the CPU described by a /proc/cpuinfo text is faster in bfloat16 than in float32."""
    return bool(_FAST_BFLOAT16 & set(cpuinfo.split()))


def parse_meminfo(meminfo: str) -> int | None:
    """Return the available memory in bytes according to a /proc/meminfo text; None if not listed."""
    lines = [line for line in meminfo.splitlines() if line.startswith("MemAvailable:")]
    return int(lines[0].split()[1]) * 1024 if lines else None


def tokens_per_second(model: ModelConfig, precision: str, machine: Machine) -> float:
    """Return the estimated training speed of all cores or devices in source and target tokens per second."""
    length = cost.SENTENCE
    flops = cost.training_flops(model, length, length) / (2 * length)
    return machine.speed * machine.max_processes / (_SECONDS_PER_TOKEN + flops / _PRODUCTS[precision])


def tokens_per_update(recipe: Recipe) -> float:
    """Return the expected number of tokens per update, without padding."""
    training = recipe.training
    return _FILL * training.batch.tokens * training.batches_per_update / training.batch.headroom


def recipe_model(recipe: Recipe, vocabulary: int) -> ModelConfig:
    """Return the model config of a recipe; `vocabulary` is the size to use if the recipe does not set it."""
    if recipe.init:
        parent = open_bundle(recipe.init.bundle, verify=False).info.model
        return with_vocabulary(recipe.model, parent.source_vocabulary, parent.target_vocabulary)
    size = recipe.data.vocabulary.size if recipe.data.vocabulary else vocabulary
    return with_vocabulary(recipe.model, size, size)


def training_memory(recipe: Recipe, model: ModelConfig, processes: int) -> int:
    """Return the minimum memory in bytes for training with this number of processes."""
    activations = cost.memory(model, recipe.training.batch.tokens // 2).activations
    if recipe.training.precision == "bfloat16":
        activations //= 2
    return processes * (_PROCESS + _COPIES * cost.FLOAT32 * cost.parameters(model) + activations)


def disk_space(recipe: Recipe, model: ModelConfig, num_bytes: int) -> int:
    """Return the bytes that a run on `num_bytes` of text writes: prepared text, snapshots and bundle."""
    snapshots = recipe.training.snapshots
    weights = cost.FLOAT32 * cost.parameters(model) * (2 + (snapshots.average if snapshots.every else 0))
    return _PREPARED * num_bytes + weights


def measure_speed(machine: Machine) -> Machine:
    """Return the machine with its measured speed, from training a small model on random tokens for 1.5 seconds.

    The other cores are kept busy, because two cores that are threads of one real core slow each other down. Of
    several accelerators, one is measured alone.
    """
    single = replace(machine, cores=1, speed=1.0, num_devices=0)
    precision = "bfloat16" if machine.bfloat16 else "float32"
    expected = tokens_per_second(preset("small", _VOCABULARY), precision, single)
    with _keep_busy(0 if machine.num_devices else machine.cores - 1):
        speed = _measure_tokens_per_second(machine.bfloat16, machine.device)
    return replace(machine, speed=speed / expected)


@contextmanager
def _keep_busy(num_cores: int) -> Iterator[None]:
    """Multiply matrices in so many threads; a product does not hold Python's lock."""
    import torch

    matrix = torch.ones(1024, 1024)
    is_over = threading.Event()

    def multiply() -> None:
        torch.set_num_threads(1)
        while not is_over.is_set():
            matrix @ matrix

    threads = [threading.Thread(target=multiply, daemon=True) for _ in range(num_cores)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def _measure_tokens_per_second(bfloat16: bool, kind: str) -> float:
    """Return the tokens per second of one thread or device with the small model; restore threads and random state."""
    import torch

    from dragoman.models.build import build
    from dragoman.text.vocab import UNK
    from dragoman.training.config import LossConfig
    from dragoman.training.loss import Objective

    num_threads = torch.get_num_threads()
    device = choose_device(kind)
    rows = _ROWS if is_cpu(device) else _ROWS * _DEVICE_BATCH
    with keep_random_state(device):
        torch.set_num_threads(1)
        objective = Objective(build(preset("small", _VOCABULARY)), LossConfig()).to(device)
        tokens = torch.randint(UNK + 1, _VOCABULARY, (rows, _LENGTH)).to(device)
        _step(objective, tokens, bfloat16)
        wait_for(device)
        steps, begin = 0, time.monotonic()
        while time.monotonic() - begin < _SECONDS:
            _step(objective, tokens, bfloat16)
            steps += 1
        wait_for(device)
    seconds = time.monotonic() - begin
    torch.set_num_threads(num_threads)
    return steps * 2 * tokens.numel() / seconds


def _step(objective: Any, tokens: Any, bfloat16: bool) -> None:
    with autocast(tokens.device, bfloat16):
        objective(tokens, tokens).backward()
