"""How many cores there are to compute with."""

import os


def num_cores() -> int:
    """Those that this process may use, which on a shared machine are fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
