"""The memory, exchange and time of training on several devices, computed from sizes and published device figures.

Nothing here is measured. Peak arithmetic comes from `devices.yaml`; the fraction of it that a training reaches is an
assumption that the caller gives. `bench/worlds.py` compares memory and exchange with a simulated FSDP2.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal

import yaml
from pydantic import TypeAdapter

from dragoman.models import cost
from dragoman.models.config import ModelConfig
from dragoman.models.cost import FLOAT32, SENTENCE

DataParallel = Literal["ddp", "fsdp", "hsdp"]
Arithmetic = Literal["float32", "half"]

ADAM_PASSES: Final = 7
"""Reads and writes of a number per weight in an update: gradient; weight and two means, each read and written."""


@dataclass(frozen=True)
class DeviceFigures:
    """The published figures of an accelerator, as `devices.yaml` describes them."""

    memory: float
    bandwidth: float
    float32: float
    half: float
    link: float
    source: str


@dataclass(frozen=True)
class PlannedCluster:
    """Nodes with the same devices, and the assumptions about their speed."""

    device: DeviceFigures
    per_node: int
    nodes: int = 1
    network: float = 25.0
    """GB/s of a node to the others, in one direction."""
    utilisation: float = 0.3
    """The fraction of peak arithmetic that a training reaches."""
    arithmetic: Arithmetic = "half"

    @property
    def num_devices(self) -> int:
        """The number of devices in all nodes, W."""
        return self.per_node * self.nodes

    @property
    def speed(self) -> float:
        """FLOPs per second of a device, as assumed."""
        return self.utilisation * 1e12 * (self.device.half if self.arithmetic == "half" else self.device.float32)

    @property
    def exchange_speed(self) -> float:
        """Bytes per second of an exchange between all devices, in one direction."""
        return 1e9 * (self.device.link if self.nodes == 1 else min(self.device.link, self.network))

    def num_sharing(self, how: DataParallel) -> int:
        """Return the number of devices that share the weights: one, those of a node, or all."""
        return {"ddp": 1, "hsdp": self.per_node, "fsdp": self.num_devices}[how]


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of a device at the peak of a training step, in bytes."""

    states: int
    """The device's shard (with `ddp`: all) of weights, and of Adam's two means."""
    gathered: int
    """The weights that FSDP2 has gathered from other devices, and copies in the arithmetic's precision."""
    gradients: int
    activations: int

    @property
    def peak(self) -> int:
        """The largest sum at one time.

        When the backward pass begins, there are activations and no gradients; at its end, the reverse.
        """
        return self.states + self.gathered + max(self.activations, self.gradients)


@dataclass(frozen=True)
class UpdateTime:
    """The seconds of an update, step by step; nothing overlaps."""

    computing: float
    exchanging: float
    optimizer: float

    @property
    def total(self) -> float:
        """The seconds of an update."""
        return self.computing + self.exchanging + self.optimizer

    @property
    def limit(self) -> str:
        """The step that takes the longest."""
        return max(("computing", "exchanging", "optimizer"), key=lambda step: float(getattr(self, step)))


def sharded_parameters(config: ModelConfig) -> int:
    """Return the weights that FSDP2 gathers for the forward and again for the backward pass.

    These are the weights of `Seq2Seq.parts`; all others stay gathered for the whole pass.
    """
    names = {"encoder self-attention", "encoder feed-forward", "encoder norms", "decoder feed-forward"}  # Transformer
    names |= {"encoder convolutions", "decoder convolutions", "decoder attention"}
    return sum(part.parameters for part in cost.parts(config) if part.name in names)


def exchange_bytes(config: ModelConfig, num_devices: int, how: DataParallel, nodes: int = 1) -> float:
    """Return the bytes that a device sends per update, and as many that it receives; all in float32."""
    if how == "hsdp":
        per_node = num_devices // nodes
        return exchange_bytes(config, per_node, "fsdp") + network_bytes(config, per_node, nodes)
    weights = cost.parameters(config)
    passes = 2 * weights if how == "ddp" else weights + sharded_parameters(config) + weights
    return FLOAT32 * passes * (num_devices - 1) / num_devices


def network_bytes(config: ModelConfig, per_node: int, nodes: int) -> float:
    """Return the bytes that a device sends to other nodes per update with `hsdp`: its share of the gradients, twice."""
    return FLOAT32 * 2 * cost.parameters(config) / per_node * (nodes - 1) / nodes


def device_memory(
    config: ModelConfig,
    tokens: int,
    num_sharing: int,
    arithmetic: Arithmetic,
    length: int = SENTENCE,
) -> DeviceMemory:
    """Return the memory of a device that trains on `tokens` source and `tokens` target tokens at once.

    `num_sharing` devices share the weights.
    """
    bill, parts = cost.memory(config, tokens, length), cost.parts(config)
    logits = FLOAT32 * tokens * config.target_vocabulary
    kept = bill.activations - 2 * logits  # logits, softmax and the gradient of the logits are in float32
    activations = (kept // 2 if arithmetic == "half" else kept) + 3 * logits
    copies = bill.weights // 2 if arithmetic == "half" else 0
    if num_sharing == 1:
        return DeviceMemory(bill.weights + bill.adam, copies, bill.gradients, activations)
    root = bill.weights - FLOAT32 * sharded_parameters(config)
    layers = 1 if config.family == "recurrent" else config.num_encoder_layers
    encoder = sum(part.parameters for part in parts if part.name.startswith("encoder") and part.name != "encoder maps")
    layer = FLOAT32 * encoder // layers if sharded_parameters(config) else 0
    states = (bill.weights + bill.adam) // num_sharing
    return DeviceMemory(states, root + layer + copies, root + layer + bill.gradients // num_sharing, activations)


def update_time(config: ModelConfig, tokens: int, cluster: PlannedCluster, how: DataParallel) -> UpdateTime:
    """Return the time of an update in which each device has `tokens` source and `tokens` target tokens."""
    if how == "hsdp":  # the devices of a node share its network
        inside = exchange_bytes(config, cluster.per_node, "fsdp") / (1e9 * cluster.device.link)
        between = cluster.per_node * network_bytes(config, cluster.per_node, cluster.nodes) / (1e9 * cluster.network)
        exchanging = inside + between
    else:
        exchanging = exchange_bytes(config, cluster.num_devices, how) / cluster.exchange_speed
    held = cost.parameters(config) / cluster.num_sharing(how)
    return UpdateTime(
        computing=cost.training_flops(config, tokens) / cluster.speed,
        exchanging=exchanging,
        optimizer=ADAM_PASSES * FLOAT32 * held / (1e9 * cluster.device.bandwidth),
    )


def parse_devices(text: str) -> tuple[int, str, DeviceFigures]:
    """Return the number, name and figures of devices written as 8xA100 or A100."""
    found = re.fullmatch(r"(?:(\d+)x)?([A-Za-z]\w*)", text.replace(" ", ""))
    names = {name.lower(): name for name in DEVICES}
    if not found or int(found[1] or 1) < 1:
        raise ValueError(f"--devices {text}: give a number and a device, as in 8xA100")
    if found[2].lower() not in names:
        near = get_close_matches(found[2].lower(), names, n=2, cutoff=0.5)
        fix = f"did you mean {' or '.join(names[name] for name in near)}?" if near else f"choose {', '.join(DEVICES)}"
        raise ValueError(f"--devices {text}: unknown device {found[2]!r}: {fix}")
    name = names[found[2].lower()]
    return int(found[1] or 1), name, DEVICES[name]


_FILE: Final = Path(__file__).with_name("devices.yaml")

DEVICES: Final[Mapping[str, DeviceFigures]] = TypeAdapter(dict[str, DeviceFigures]).validate_python(
    yaml.safe_load(_FILE.read_text(encoding="utf-8"))
)
"""All devices by name."""
