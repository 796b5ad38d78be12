"""Under Ray Data the same workers give the same bytes, though one of them is killed."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.bulk.process_pool import run_in_ray
from dragoman.bulk.shard_manifest import BulkSettings
from dragoman.bulk.shard_worker import BulkJob, ShardWorker

NUM_SHARDS = 7


def status(pid: int) -> tuple[str, int]:
    """A process's title, and its parent."""
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return title, int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return "", 0


def descends(pid: int) -> bool:
    """Whether it was started by this process, or by one that was."""
    while pid > 1:
        pid = status(pid)[1]
        if pid == os.getpid():
            return True
    return False


def actors() -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if "MapWorker" in status(pid)[0] and descends(pid)]


# Ray 2.60 warns of settings of its own.
@pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\.")
@pytest.mark.slow
def test_a_killed_actor_changes_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, german_settings: Callable[[Path], BulkSettings]
) -> None:
    pytest.importorskip("ray", reason="needs the extra dragoman[ray]")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    settings = german_settings(model)
    jobs = {}
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        jobs[name] = BulkJob(model, tmp_path / name, settings, threads=1)
    shards = [tmp_path / f"{number}.txt" for number in range(NUM_SHARDS)]
    for number, shard in enumerate(shards):
        shard.write_text("".join(f"ten old houses {number} {line}.\n" for line in range(300)))
    here = list(map(ShardWorker(jobs["here"]), shards))
    there, killed = [], 0
    for outcome in run_in_ray(jobs["there"], shards, 2):
        there.append(outcome)
        if not killed:
            os.kill(actors()[0], signal.SIGKILL)
            killed += 1
    assert killed == 1
    assert there == here
    assert [outcome.rows for outcome in here] == [300] * NUM_SHARDS
    files = {name: {path.name: path.read_bytes() for path in jobs[name].out.iterdir()} for name in jobs}
    left = {
        name for name in files["there"] if name.endswith(".incomplete")
    }  # the run that owns the folder removes them
    assert len(left) <= 1
    assert {name: content for name, content in files["there"].items() if name not in left} == files["here"]
