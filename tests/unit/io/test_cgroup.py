"""Limits of CPU time and memory of a container, in both versions of cgroups."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.io import processes
from dragoman.io.cgroup import CGROUP, cpu_quota, memory_left


@pytest.mark.parametrize(
    ("limit", "used", "left"), [("5000\n", "1200\n", 3800), ("5000\n", "6000\n", 0), ("max\n", "1200\n", None)]
)
def test_a_container_has_less_than_its_machine(tmp_path: Path, limit: str, used: str, left: int | None) -> None:
    (tmp_path / "memory.max").write_text(limit)
    (tmp_path / "memory.current").write_text(used)
    assert memory_left(tmp_path) == left


def test_where_there_are_no_containers_there_is_no_limit(tmp_path: Path) -> None:
    assert memory_left(tmp_path) is None


def groups(folder: Path, own: str, files: dict[str, str]) -> tuple[Path, Path]:
    """Write the files of groups, and /proc/self/cgroup; return both paths."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / "own").write_text(own)
    return folder, folder / "own"


VERSION_1 = "4:memory:/a\n2:cpu,cpuacct:/docker/b\n0::/\n"


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {}, None),
        ("0::/user/unit\n", {"user/unit/cpu.max": "max 100000\n", "user/cpu.max": "300000 100000\n"}, 3.0),
        ("0::/user/unit\n", {"user/unit/cpu.max": "50000 100000\n", "user/cpu.max": "300000 100000\n"}, 0.5),
        (
            VERSION_1,
            {
                "cpu,cpuacct/docker/b/cpu.cfs_quota_us": "200000\n",
                "cpu,cpuacct/docker/b/cpu.cfs_period_us": "100000\n",
                "cpu,cpuacct/docker/cpu.cfs_quota_us": "-1\n",
                "cpu,cpuacct/docker/cpu.cfs_period_us": "100000\n",
            },
            2.0,
        ),
        ("", {"cpu.max": "150000 100000\n"}, None),
    ],
)
def test_the_smallest_quota_of_the_group_and_those_around_it_holds(
    tmp_path: Path, own: str, files: dict[str, str], quota: float | None
) -> None:
    assert cpu_quota(*groups(tmp_path, own, files)) == quota


@pytest.mark.parametrize(("quota", "cores"), [(None, 8), (0.3, 1), (1.5, 2), (3.0, 3), (64.0, 8)])
def test_a_container_counts_the_cores_of_its_quota(
    quota: float | None, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(processes, "cpu_quota", lambda: quota)
    assert processes.num_cores() == cores


def test_a_process_in_a_group_with_a_quota_counts_its_cores() -> None:
    """A real group, where this user may make one."""
    is_second = (CGROUP / "cgroup.controllers").exists()
    group = (CGROUP if is_second else CGROUP / "cpu") / f"dragoman-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no group can be made: {error}")
    try:
        limit = ("cpu.max", "100000 100000") if is_second else ("cpu.cfs_quota_us", "100000")
        try:
            (group / limit[0]).write_text(limit[1])
        except OSError as error:
            pytest.skip(f"no quota can be set: {error}")
        code = f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')\n"
        code += "from dragoman.io.processes import num_cores\nprint(num_cores())"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "1\n"
    finally:
        group.rmdir()
