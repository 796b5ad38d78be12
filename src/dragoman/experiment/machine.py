"""What this machine has to train with: cores, memory, and whether its matrix products are fast in bfloat16."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dragoman.data.cores import num_cores

_FAST_BFLOAT16: Final = {"amx_bf16", "avx512_bf16"}
"""Names that Linux gives to what a CPU can do. Without one of these, bfloat16 is slower than float32."""

_CGROUP: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Machine:
    """The part of a machine that a training may use."""

    cores: int
    memory: int | None
    """Bytes that are free now; None if the system does not say."""
    bfloat16: bool
    """Whether it is the faster precision."""
    speed: float = 1.0
    """In training, as a share of the machine that the estimates are from."""


def this_machine() -> Machine:
    """The machine this runs on."""
    limits = (in_meminfo(_read(Path("/proc/meminfo"))), in_cgroup(_CGROUP))
    known = [limit for limit in limits if limit is not None]
    return Machine(num_cores(), min(known, default=None), is_fast_in_bfloat16(_read(Path("/proc/cpuinfo"))))


def is_fast_in_bfloat16(cpuinfo: str) -> bool:
    """Whether a CPU described like this multiplies bfloat16 faster than float32."""
    return bool(_FAST_BFLOAT16 & set(cpuinfo.split()))


def in_meminfo(meminfo: str) -> int | None:
    """Bytes that the system could give away without swapping."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def in_cgroup(folder: Path) -> int | None:
    """Bytes that a container has left of what it was given; None where it has no limit."""
    limit, used = _read(folder / "memory.max").strip(), _read(folder / "memory.current").strip()
    return max(0, int(limit) - int(used)) if limit.isdecimal() and used.isdecimal() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # another system than Linux
        return ""
