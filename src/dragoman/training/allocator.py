"""Memory that training frees is kept for the next step: giving it back and asking again costs up to a quarter of it."""

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # the names of glibc's mallopt


def keep_freed_memory() -> bool:
    """Tell the C library's allocator so; where there is none that listens, say False and do nothing.

    What the logits of a large vocabulary take is mapped anew at each step otherwise, page by page.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 << 20))
    heard = [mallopt(name, value) == 1 for name, value in settings]
    return all(heard)
