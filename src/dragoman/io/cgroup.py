"""The share of the machine that a container or a systemd unit may use: its cgroup's limits of CPU time and memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

CGROUP: Final = Path("/sys/fs/cgroup")
_OWN_GROUPS: Final = Path("/proc/self/cgroup")


def cpu_quota(cgroup: Path = CGROUP, own_groups: Path = _OWN_GROUPS) -> float | None:
    """Return how many cores' time this process may use; None without a limit.

    Limits of the groups that contain its group hold for it too.
    """
    quotas = [quota for folder in _cpu_groups(cgroup, own_groups) if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


def memory_left(cgroup: Path = CGROUP) -> int | None:
    """Return the bytes of memory left within a container's limit; None without a limit."""
    limit, used = read_or_empty(cgroup / "memory.max").strip(), read_or_empty(cgroup / "memory.current").strip()
    return max(0, int(limit) - int(used)) if limit.isdecimal() and used.isdecimal() else None


def read_or_empty(path: Path) -> str:
    """Return the text of a file of the system; an empty string where it does not exist."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # another system than Linux, or another version of cgroups
        return ""


def _cpu_groups(cgroup: Path, own_groups: Path) -> Iterator[Path]:
    """Yield the folders of the groups that limit the CPU time of this process, in version 2 and 1 of cgroups."""
    for line in read_or_empty(own_groups).splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" or "cpu" in controllers.split(","):
            top = cgroup / controllers
            folder = top / path.strip("/")
            yield from (group for group in (folder, *folder.parents) if group.is_relative_to(top))


def _quota(group: Path) -> float | None:
    limits = read_or_empty(group / "cpu.max").split()  # version 2: "150000 100000", or "max 100000"
    limits = limits or [read_or_empty(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    return int(limits[0]) / int(limits[1]) if all(limit.isdecimal() for limit in limits) else None
