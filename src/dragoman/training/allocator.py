"""Keep freed memory for the next training step: mapping memory again takes up to a quarter of a step."""

import ctypes
import sys
from typing import TYPE_CHECKING, Any

from dragoman.device import empty_cache, is_cpu

if TYPE_CHECKING:
    import torch

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # parameters of glibc's mallopt


def keep_freed_memory() -> bool:
    """Make glibc keep freed memory for reuse; return True if glibc accepted the settings.

    By default, glibc unmaps large arrays such as the logits and maps them again at each step.
    """
    mallopt = _glibc("mallopt")
    if mallopt is None:
        return False
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 << 20))
    results = [mallopt(name, value) == 1 for name, value in settings]
    return all(results)


def release_free_memory() -> bool:
    """Return free memory to the operating system; return True if memory was released.

    Batches of many shapes fragment the heap, which otherwise grows over hours.
    """
    trim = _glibc("malloc_trim")
    return trim is not None and trim(0) == 1


def release_device_memory(device: "torch.device") -> None:
    """Return the free memory that torch keeps on an accelerator, or that glibc keeps on the host."""
    if is_cpu(device):
        release_free_memory()
    else:
        empty_cache(device)


def _glibc(name: str) -> Any:
    """Return a glibc function by name, or None if the C library does not have it."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
