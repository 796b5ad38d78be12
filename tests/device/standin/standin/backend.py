"""The device module, the recurrent cells and the process backend of the stand-in accelerator."""

import contextlib
import os
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from standin import standin_c as native

NAME = "standin"


class DeviceModule:
    """The functions that torch expects in a module such as torch.cuda."""

    Stream, Event = torch.Stream, torch.Event

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def device_count() -> int:
        return native.device_count()

    @staticmethod
    def current_device() -> int:
        return native.current_device()

    @staticmethod
    def set_device(device: Any) -> None:
        native.set_device(device if isinstance(device, int) else torch.device(device).index)

    @staticmethod
    @contextlib.contextmanager
    def device(device: Any) -> Any:
        before = native.current_device()
        DeviceModule.set_device(device)
        yield
        native.set_device(before)

    @staticmethod
    def get_device_name(device: Any = None) -> str:
        return "a stand-in for tests"

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        for index in range(native.device_count()):
            native.generator(index).manual_seed(seed)

    manual_seed = manual_seed_all

    @staticmethod
    def get_rng_state(device: Any = 0) -> Tensor:
        return native.generator(_index(device)).get_state()

    @staticmethod
    def set_rng_state(state: Tensor, device: Any = 0) -> None:
        native.generator(_index(device)).set_state(state)

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    @staticmethod
    def is_bf16_supported() -> bool:
        return os.environ.get("STANDIN_BFLOAT16") == "1"

    @staticmethod
    def synchronize(device: Any = None) -> None:
        pass

    @staticmethod
    def current_stream(device: Any = None) -> torch.Stream:
        return torch.Stream(device=NAME)

    @staticmethod
    def stream(stream: Any) -> Any:
        return contextlib.nullcontext()

    @staticmethod
    def empty_cache() -> None:
        torch.accelerator.empty_cache()

    @staticmethod
    def mem_get_info(device: Any = None) -> tuple[int, int]:
        counts = native.counts()
        total = counts["budget"] or 16_000_000_000
        return total - counts["in_use"], total

    @staticmethod
    def max_memory_allocated(device: Any = None) -> int:
        return native.counts()["peak"]


def _index(device: Any) -> int:
    return device if isinstance(device, int) else torch.device(device).index or 0


def register() -> None:
    """Make `standin` a device of torch, with a backend for processes."""
    torch.utils.rename_privateuse1_backend(NAME)
    native.init(int(os.environ.get("STANDIN_DEVICES", 8)), int(os.environ.get("STANDIN_BUDGET", 0)))
    torch._register_device_module(NAME, DeviceModule)
    torch.utils.generate_methods_for_privateuse1_backend()
    for name, cell in _CELLS.items():
        _LIBRARY.impl(name, cell)
    dist.Backend.register_backend("standinccl", _create_backend, devices=[NAME])


def _create_backend(store: dist.Store, rank: int, size: int, timeout: Any) -> Any:
    gloo = dist.ProcessGroupGloo(dist.PrefixStore(NAME, store), rank, size, timeout)
    return native.collectives(gloo, rank, size)


# Recurrent cells: torch has fused kernels for accelerators, and none of them for CPUs.


def _gru(inputs: Tensor, states: Tensor, hx: Tensor, bias: Any = None, state_bias: Any = None) -> tuple[Tensor, Tensor]:
    inputs, states = (x if b is None else x + b for x, b in ((inputs, bias), (states, state_bias)))
    (ir, iz, i_new), (hr, hz, h_new) = inputs.chunk(3, 1), states.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    new = (i_new + r * h_new).tanh()
    return new + z * (hx - new), torch.cat([r, z, new, hx, h_new], dim=1)


def _gru_backward(gradient: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Any, ...]:
    r, z, new, hx, h_new = workspace.chunk(5, 1)
    by_z = gradient * (hx - new) * (1 - z) * z
    by_new = gradient * (1 - z) * (1 - new * new)
    by_r = by_new * h_new * (1 - r) * r
    inputs, states = torch.cat([by_r, by_z, by_new], 1), torch.cat([by_r, by_z, by_new * r], 1)
    biases = (inputs.sum(0), states.sum(0)) if has_bias else (None, None)
    return inputs, states, gradient * z, *biases


def _lstm(inputs: Tensor, states: Tensor, cx: Tensor, bias: Any = None, state_bias: Any = None) -> tuple[Tensor, ...]:
    gates = inputs + states
    if bias is not None:
        gates = gates + bias + state_bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def _lstm_backward(
    by_hy: Tensor | None, by_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Any, ...]:
    i, f, g, o = workspace.chunk(4, 1)
    tanh = cy.tanh()
    by_hy = torch.zeros_like(cy) if by_hy is None else by_hy
    through = by_hy * o * (1 - tanh * tanh) + (0 if by_cy is None else by_cy)
    by_gates = [through * g * i * (1 - i), through * cx * f * (1 - f), through * i * (1 - g * g)]
    gates = torch.cat([*by_gates, by_hy * tanh * o * (1 - o)], 1)
    return gates, through * f, gates.sum(0) if has_bias else None


_CELLS = {
    "_thnn_fused_gru_cell": _gru,
    "_thnn_fused_gru_cell_backward": _gru_backward,
    "_thnn_fused_lstm_cell": _lstm,
    "_thnn_fused_lstm_cell_backward_impl": _lstm_backward,
}
_LIBRARY = torch.library.Library("aten", "IMPL", "PrivateUse1")
