"""Memory that training frees is kept for the next step: giving it back and asking again costs up to a quarter of it."""

import ctypes
import sys
from typing import Any

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # the names of glibc's mallopt


def keep_freed_memory() -> bool:
    """Tell the C library's allocator so; where there is none that listens, say False and do nothing.

    What the logits of a large vocabulary take is mapped anew at each step otherwise, page by page.
    """
    mallopt = _function("mallopt")
    if mallopt is None:
        return False
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 << 20))
    heard = [mallopt(name, value) == 1 for name, value in settings]
    return all(heard)


def give_back_memory() -> bool:
    """Now and then, let the system have what lies free all the same: batches of many shapes leave holes between what is
    in use, which grow over hours. True if there was any.
    """
    trim = _function("malloc_trim")
    return trim is not None and trim(0) == 1


def _function(name: str) -> Any:
    """A function of glibc; None where there is another C library."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
