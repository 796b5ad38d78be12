"""Try deploy/slurm on a real SLURM: two nodes on this machine, started and ended by this script.

    python scripts/try_slurm.py FOLDER [--write-only] [--updates 400]

Needs root and Debian's packages slurm-wlm and munge. A training on both nodes gets SIGTERM as at the end of its time;
it must save, be queued again, resume and finish, and no training process may outlive torchrun. Then an array of two
tasks translates eight shards with the model; one task is queued again, and may translate only what is missing. With
--write-only, the configuration and the data are written and nothing is started. Prints one JSON line.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from dragoman.data.dates import dates

ROOT: Final = Path(__file__).parents[1]
PATIENCE_S: Final = 400.0
NUM_SHARDS, NUM_LINES = 8, 2000  # the first shard has so many lines, each other one more
PROGRAMS: Final = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "sinfo", "squeue")
CONF: Final = """\
ClusterName=try
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldPort={ports[0]}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
RECIPE: Final = """\
name: short
data:
  train: [{source: a.en, target: a.iso}]
  split: 20
  vocabulary: {size: 380}
model: {d_model: 32, d_ff: 48, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1}
training:
  batch: {tokens: 512}
  batches_per_update: 2
  schedule: {factors: [warmup, linear], rate: 0.002, warmup: 5}
  stop: {updates: 400}
  validate_every: 100000
  checkpoints: {every: 50}
  log_every: 1
validation: {search: {beam_size: 1, stop: count}}
"""


def main() -> None:
    """Write the files, start the cluster, try both scripts, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write-only", action="store_true")
    parser.add_argument("--updates", type=int, default=400)
    options = parser.parse_args()
    folder = options.folder.absolute()
    write(folder)
    values: dict[str, Any] = {"files": sum(path.is_file() for path in folder.rglob("*"))}
    if not options.write_only:
        if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
            parser.error(f"{', '.join(missing)} not found: install slurm-wlm and munge")
        os.environ |= {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PYTHONPATH": str(ROOT / "src"),
            "OMP_NUM_THREADS": "1",
        }
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        with ExitStack() as started:
            start_slurm(folder, started)
            values = try_training(folder, options.updates) | try_bulk(folder)
    print(json.dumps({"bench": "try_slurm", "values": values}))


def write(folder: Path) -> None:
    """Write the configuration of the cluster, the recipe, the text and the shards."""
    for name in ("state", "in"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    conf = CONF.format(host=socket.gethostname(), folder=folder, ports=free_ports(3))
    (folder / "slurm.conf").write_text(conf, encoding="utf-8")
    (folder / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    key = folder / "munge.key"
    if not key.exists():
        key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    pairs = dates(400, seed=1)
    for number, side in enumerate(("en", "iso")):
        (folder / f"a.{side}").write_text("".join(f"{pair[number]}\n" for pair in pairs), encoding="utf-8")
    texts = [source for source, _ in dates(NUM_LINES + NUM_SHARDS, seed=2)]
    for shard in range(NUM_SHARDS):
        (folder / "in" / f"{shard}.txt").write_text(
            "".join(f"{text}\n" for text in texts[-NUM_LINES - shard :]), encoding="utf-8"
        )


def free_ports(count: int) -> list[int]:
    """Return so many free ports of this machine."""
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def start_slurm(folder: Path, started: ExitStack) -> None:
    """Start munged, slurmctld and two slurmd; they end when the stack is closed."""
    munge = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid", "log-file": "munged.log"}
    paths = [f"--{option}={folder / name}" for option, name in munge.items()]
    start(folder, started, ["munged", "--foreground", "--force", *paths, f"--seed-file={folder / 'munge.seed'}"])
    until("munged", lambda: (folder / "munge.socket").exists(), 30)
    start(folder, started, ["slurmctld", "-D", "-c"])
    for node in ("n1", "n2"):
        start(folder, started, ["slurmd", "-D", "-N", node])
    until("two idle nodes", lambda: call("sinfo", "-h", "-N", "-o", "%t").split() == ["idle", "idle"], 60)


def start(folder: Path, started: ExitStack, command: list[str]) -> None:
    """Start a daemon in the foreground; it ends when the stack is closed."""
    with (folder / f"{command[0]}.out").open("a") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def stop() -> None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()

    started.callback(stop)


def call(*command: str) -> str:
    """Run a command, and return its standard output."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout.strip()


def until(what: str, condition: Callable[[], bool], seconds: float = PATIENCE_S) -> float:
    """Wait for a condition, and return the seconds it took."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > seconds:
            raise SystemExit(f"no {what} within {seconds:.0f} s")
        time.sleep(0.2)
    return round(time.monotonic() - begin, 1)


def submit(folder: Path, *arguments: str) -> str:
    """Submit a job, and return its number."""
    output = f"--output={folder}/job-%A-%a.log" if "--array=0-1" in arguments else f"--output={folder}/job-%j.log"
    done = call("sbatch", "--parsable", f"--chdir={folder}", output, *arguments)
    if not done:
        raise SystemExit("sbatch has not accepted the job")
    return done


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Return the events of one kind in the log of the run."""
    log = folder / "run" / "log.jsonl"
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return [event for event in found if event["event"] == kind]


def processes(folder: Path) -> list[int]:
    """Return the training processes and their launchers: those whose command names the run folder."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal() and int(place.name) != os.getpid():
            try:
                words = (place / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(folder / "run").encode() in words and b"train" in words:
                found.append(int(place.name))
    return found


def state(job: str) -> str:
    """Return the state of a job, or an empty string if it is over."""
    return call("squeue", "-h", "-j", job, "-o", "%T")


def try_training(folder: Path, updates: int) -> dict[str, Any]:
    """Train in a job that gets SIGTERM, is queued again, and ends."""
    job = submit(
        *(folder, "--nodes=2", "--cpus-per-task=1", "--time=10", str(ROOT / "deploy" / "slurm" / "train.sbatch")),
        *(str(folder / "recipe.yaml"), str(folder / "run"), "--set", f"training.stop.updates={updates}"),
    )
    began = until("update", lambda: len(events(folder, "update")) >= 30)
    assert len(processes(folder)) >= 4, "two launchers and two training processes"
    call("scancel", "--batch", "--signal=TERM", job)  # as --signal=B:TERM sends it
    ended = until("end of all training processes", lambda: not processes(folder))
    newest = max(path.name for path in (folder / "run" / "checkpoints").glob("update-*"))
    last = events(folder, "update")[-1]["update"]
    requeued = until("queued job", lambda: state(job) in ("PENDING", "RUNNING"))
    call("scontrol", "update", f"JobId={job}", "StartTime=now")  # SLURM lets a requeued job wait for two minutes
    until("resumed run", lambda: bool(events(folder, "resumed")))
    resumed = events(folder, "resumed")[-1]["update"]
    until("end of the job", lambda: state(job) in ("", "COMPLETED"))
    until("end of all processes", lambda: not processes(folder), 30)
    log = (folder / f"job-{job}.log").read_text("utf-8")
    assert resumed == last == int(newest.removeprefix("update-")), (resumed, last, newest)
    assert (folder / "run" / "bundle" / "model.safetensors").exists(), log
    return {
        "seconds_to_begin": began,
        "seconds_from_term_to_end_of_processes": ended,
        "seconds_to_requeue": requeued,
        "saved_at_update": last,
        "resumed_at_update": resumed,
        "updates": events(folder, "update")[-1]["update"],
    }


def try_bulk(folder: Path) -> dict[str, Any]:
    """Translate the shards in an array of two tasks, of which the first is queued again on the way."""
    script, out = str(ROOT / "deploy" / "slurm" / "bulk.sbatch"), folder / "out"
    arguments = [str(folder / "run"), f"{folder}/in/*.txt", str(out)]
    job = submit(folder, "--array=0-1", "--cpus-per-task=1", script, *arguments)
    first = f"{job}_0"  # of the shards 0, 2, 4, ...
    until("translated shard", lambda: (out / "0.txt.manifest.json").exists())
    call("scontrol", "requeue", first)
    until("queued task", lambda: state(first) == "PENDING")
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.manifest.json")}
    left = NUM_SHARDS - len(before)
    assert any(not (out / f"{shard}.txt.manifest.json").exists() for shard in range(0, NUM_SHARDS, 2)), "too late"
    call("scontrol", "update", f"JobId={first}", "StartTime=now")
    until("end of the array", lambda: not state(job))
    sizes = [len((out / f"{shard}.txt").read_text("utf-8").splitlines()) for shard in range(NUM_SHARDS)]
    assert sizes == [NUM_LINES + shard for shard in range(NUM_SHARDS)], sizes
    assert {path: path.stat().st_mtime_ns for path in before} == before, "a finished shard was translated again"
    command = ["dragoman", "translate", arguments[0], "--shards", arguments[1], "--out", arguments[2]]
    subprocess.run(command, check=True, timeout=PATIENCE_S)  # checks the whole folder
    assert {path: path.stat().st_mtime_ns for path in before} == before, "a finished shard was translated again"
    return {"translated_shards": len(sizes), "shards_left_when_queued_again": left}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster ends with this script
    main()
