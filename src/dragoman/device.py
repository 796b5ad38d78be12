"""Devices: choose where a model computes, and the calls that differ between CPUs and accelerators.

No other file names a kind of device or a communication backend; a test checks this. torch is imported in the functions,
so that running a model needs no torch.
"""

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import Module

AUTO: Final = "auto"
CPU: Final = "cpu"
_CUDA: Final = "cuda"
_MPS: Final = "mps"

DEVICE_CHOICES: Final = f"{AUTO}|{CPU}|{_CUDA}|{_MPS}"
"""The usual values of --device; torch may know further kinds of devices."""

DEVICE_HELP: Final = f"Device to compute on, such as {_CUDA}:1; auto: an accelerator if there is one."

HOST_BACKEND: Final = "gloo"
"""The backend of processes for tensors in host memory: numbers, objects and checkpoints."""

_LOST: Final = (HOST_BACKEND, "nccl", "distbackenderror")
"""Texts, in lower case, in the errors of a collective whose other processes are gone."""

_OUT_OF_MEMORY: Final = ("can't allocate memory", "not enough memory", "out of memory")
"""Texts in the errors of a failed allocation that have no type of their own."""


def check_device(name: str, option: str = "device") -> None:
    """Raise ValueError unless `name` has the form of a device: `auto`, `cpu`, `cuda` or `cuda:1`."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z]+\d?[a-z]*(:\d+)?", name):
        raise ValueError(f"{option} {name} is not a device: give one of {DEVICE_CHOICES.replace('|', ', ')}")


def load_torch() -> None:
    """Import torch; Ctrl-C and SIGTERM take effect when torch is there.

    While its libraries start, an exception from a signal handler ends the process with an abort or is forgotten.
    """
    if threading.current_thread() is not threading.main_thread():  # it gets no signals
        return
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        import torch  # noqa: F401
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for received_number in received:
        signal.raise_signal(received_number)


def choose_device(name: str = AUTO) -> "torch.device":
    """Return the device to compute on, and make it the current device of its kind.

    `auto` is the accelerator that torch finds, or the CPU. Without a number, as in `cuda:1`, each of several processes
    takes the device with its number on this machine (LOCAL_RANK).
    """
    load_torch()
    import torch

    kind, number = choose_kind(name), name.partition(":")[2]
    if kind == CPU:
        return torch.device(CPU)
    if number and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(f"device {name} is a single device for several processes: leave out :{number}")
    index, count = int(number or os.environ.get("LOCAL_RANK", "0")), torch.accelerator.device_count()
    if index >= count:
        fix = f"give {kind}:0 to {kind}:{count - 1}" if number else f"start at most {count} processes"
        raise ValueError(f"there is no device {kind}:{index}: this machine has {count}; {fix}")
    torch.accelerator.set_device_index(index)
    return torch.device(kind, index)


def choose_kind(name: str = AUTO) -> str:
    """Return the kind of the device that a name such as `auto` or `cuda:1` means here, such as `cpu`."""
    check_device(name)
    kind = name.partition(":")[0]
    if kind == CPU:
        return CPU
    load_torch()
    import torch

    found = _find_accelerator()
    if kind == AUTO:
        return found or CPU
    if kind != found:
        seen = f"only {found} devices" if found else "no accelerator"
        raise ValueError(f"device {name} is not available: torch {torch.__version__} finds {seen}; give another device")
    return kind


def count_devices(name: str = AUTO) -> int:
    """Return the number of accelerators that training may use; 0 on a CPU."""
    if choose_kind(name) == CPU:
        return 0
    import torch

    return 1 if ":" in name else torch.accelerator.device_count()


def _find_accelerator() -> str | None:
    """Return the kind of accelerator that torch can use now; None: only the CPU."""
    import torch

    found = torch.accelerator.current_accelerator(check_available=True)  # a CUDA build without a GPU has none
    return None if found is None else found.type


def cpu() -> "torch.device":
    """Return the CPU as a device of torch."""
    import torch

    return torch.device(CPU)


def is_cpu(device: "torch.device") -> bool:
    """Return True if a device of torch is the CPU."""
    return device.type == CPU


def device_of(model: "Module") -> "torch.device":
    """Return the device of a model's weights; the host, if it has none."""
    import torch

    return next(model.parameters(), torch.empty(0)).device


def describe_device(device: "torch.device") -> str:
    """Return the kind of a device and, if known, its product name."""
    import torch

    if is_cpu(device):
        return CPU
    name = getattr(torch.get_device_module(device), "get_device_name", None)
    return f"{device.type} ({name(device)})" if name else device.type


def describe_torch() -> str:
    """Return the version of torch, and the kind of devices that it was built for."""
    import torch

    versions = {"CUDA": torch.version.cuda, "ROCm": torch.version.hip, "XPU": torch.version.xpu}
    kinds = [f"{kind} {version}" for kind, version in versions.items() if version]
    return f"torch {torch.__version__} for {kinds[0] if kinds else 'CPUs'}"


def is_fast_in_bfloat16(device: "torch.device") -> bool:
    """Return True if an accelerator computes in bfloat16 without emulation."""
    import torch

    module = torch.get_device_module(device)
    if device.type == _CUDA:
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    supported = getattr(module, "is_bf16_supported", None)
    return bool(supported()) if supported else hasattr(module, "get_amp_supported_dtype")


def autocast(device: "torch.device", enabled: bool = True) -> "torch.autocast":
    """Return a context in which matrix products on a device are computed in bfloat16, or not if not `enabled`."""
    import torch

    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


def autocast_dtype(device: "torch.device") -> "torch.dtype | None":
    """Return the data type of matrix products on a device under autocast; None without autocast."""
    import torch

    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None


def widest_float(device: "torch.device") -> "torch.dtype":
    """Return the data type for sums: float64, or float32 on devices without float64."""
    import torch

    return torch.float32 if device.type == _MPS else torch.float64


def copy_to_device(tensor: "Tensor", device: "torch.device") -> "Tensor":
    """Return a host tensor on a device; the host does not wait for the copy."""
    if is_cpu(device):
        return tensor
    return (tensor if device.type == _MPS else tensor.pin_memory()).to(device, non_blocking=True)


def copy_to_host(tensor: "Tensor") -> "Tensor":
    """Return a copy of a tensor in host memory, without its graph."""
    return tensor.detach().to(CPU, copy=True)


def empty_cache(device: "torch.device") -> None:
    """Return the memory that torch keeps for reuse on an accelerator to the device."""
    import torch

    torch.get_device_module(device).empty_cache()


def free_memory(device: "torch.device") -> int | None:
    """Return the free bytes of an accelerator; None if unknown."""
    import torch

    info = getattr(torch.get_device_module(device), "mem_get_info", None)
    return int(info(device)[0]) if info else None


def peak_memory(device: "torch.device") -> int | None:
    """Return the largest number of bytes that tensors on an accelerator have taken; None if unknown, as on a CPU."""
    import torch

    peak = None if is_cpu(device) else getattr(torch.get_device_module(device), "max_memory_allocated", None)
    return int(peak(device)) if peak else None


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if the error is a failed memory allocation, on an accelerator or a CPU."""
    import torch

    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or any(text in str(error) for text in _OUT_OF_MEMORY)


def has_fused_adam(device: "torch.device") -> bool:
    """Return True if torch updates all weights on this device with one fused kernel."""
    from torch.utils._foreach_utils import _get_fused_kernels_supported_devices

    return device.type in _get_fused_kernels_supported_devices()


@contextmanager
def keep_random_state(device: "torch.device") -> Iterator[None]:
    """Restore the state of the random generators of the host and of a device after the block."""
    import torch

    devices = [] if is_cpu(device) else [device.index or 0]
    with torch.random.fork_rng(devices, device_type=_CUDA if is_cpu(device) else device.type):
        yield


def wait_for(device: "torch.device") -> None:
    """Wait until an accelerator has finished its work; needed to measure times."""
    import torch

    if not is_cpu(device):
        torch.accelerator.synchronize(device)


def process_backend(device: "torch.device") -> str:
    """Return torch's name of the backends that join processes: gloo for host memory, and that of the device."""
    from torch import distributed as dist

    if is_cpu(device):
        return HOST_BACKEND
    return f"{CPU}:{HOST_BACKEND},{device.type}:{dist.get_default_backend_for_device(device)}"


def is_lost_peer(error: BaseException) -> bool:
    """Return True if an error of a collective means that another process is gone."""
    text = f"{type(error).__name__} {error}".lower()
    return isinstance(error, RuntimeError) and any(part in text for part in _LOST)


class CTranslate2Device(NamedTuple):
    """The device arguments of CTranslate2's Translator."""

    device: str
    device_index: list[int]
    """The numbers of the devices, each of which computes different batches."""

    @property
    def is_cpu(self) -> bool:
        return self.device == CPU

    def supported(self) -> set[str]:
        """Return the compute types that CTranslate2 supports on this device."""
        import ctranslate2

        return set(ctranslate2.get_supported_compute_types(self.device, self.device_index[0]))


def why_not_ctranslate2(name: str) -> str | None:
    """Return the reason why CTranslate2 cannot run on a device, or None; it knows only CPUs and CUDA."""
    kind = name.partition(":")[0]
    return None if kind in (AUTO, CPU, _CUDA) else f"CTranslate2 does not run on {kind} devices"


def choose_ctranslate2_device(name: str = AUTO) -> CTranslate2Device:
    """Return the device for CTranslate2: `auto` is all CUDA devices, or the CPU."""
    import ctranslate2

    check_device(name)
    kind, _, number = name.partition(":")
    count: Any = ctranslate2.get_cuda_device_count() if kind != CPU else 0
    if kind == CPU or (kind == AUTO and not count):
        return CTranslate2Device(CPU, [0])
    if int(number or 0) >= count:
        fix = f"give {CPU}" if not count else f"give {_CUDA}:0 to {_CUDA}:{count - 1}"
        raise ValueError(f"device {name} is not available: CTranslate2 finds {count} CUDA devices; {fix}")
    return CTranslate2Device(_CUDA, [int(number)] if number else list(range(count)))
