"""Train and prepare on two hosts: two network namespaces of this machine, made and removed by this script.

    python scripts/try_hosts.py FOLDER cut|slow|lost [--timeout 40s] [--updates 200] [--write-only]
    python scripts/try_hosts.py FOLDER prepare [--source FILE --target FILE] [other options of `dragoman prepare`]

Needs root and iproute2. `cut`: the link goes down for longer than --timeout; the run must name the stall, restart once
and finish. `slow`: every packet is held for 20 ms; the weights must be bitwise the same.
`lost`: all processes of the second host are killed and the link stays down; the first host must go on alone. `prepare`:
`dragoman prepare --ray` on both hosts must write the bytes of one host. With --write-only, recipe and text are written
and nothing is started. Prints one JSON line.
"""

import argparse
import fcntl
import filecmp
import json
import os
import secrets
import select
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from dragoman.data.dates import dates
from dragoman.training.config import parse_duration

ROOT: Final = Path(__file__).parents[1]
PATIENCE_S: Final = 300.0
PREPARE_S: Final = 7200.0  # for ten million pairs
PORT: Final = 29400
DELAY_S: Final = 0.02
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000  # of linux/if_tun.h
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
  validate_every: 100000
  checkpoints: {every: 10}
  log_every: 1
validation: {search: {beam_size: 1, stop: count}}
"""


ROUND_TRIP: Final = """\
import socket, sys, time
for _ in range(2):  # the first finds the address
    begin = time.monotonic()
    with socket.socket() as closed:
        assert closed.connect_ex((sys.argv[1], 9)) != 0
print(time.monotonic() - begin)
"""


class DelayedLink:
    """Two network devices, and a thread that passes packets from one to the other after DELAY_S.

    Not netem, which many kernels lack.
    """

    def __init__(self, names: list[str]) -> None:
        self.ends = [open_tap(name) for name in names]
        self.held: deque[tuple[float, int, bytes]] = deque()
        """The time to pass each packet, the end to pass it to, and the packet."""
        self.num_passed, self.is_stopping = 0, False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Remove both devices."""
        self.is_stopping = True
        self.thread.join()
        for end in self.ends:
            os.close(end)

    def _run(self) -> None:
        while not self.is_stopping:
            wait = self.held[0][0] - time.monotonic() if self.held else 0.1
            for end in select.select(self.ends, [], [], max(0.0, min(wait, 0.1)))[0]:
                self.held.append((time.monotonic() + DELAY_S, self.ends[end == self.ends[0]], os.read(end, 65536)))
            while self.held and self.held[0][0] <= time.monotonic():
                _, end, packet = self.held.popleft()
                try:
                    os.write(end, packet)
                except OSError:  # the device is not up yet: the packet is lost, and sent again
                    continue
                self.num_passed += 1


def open_tap(name: str) -> int:
    """Create a network device, and return the file of its packets; the device exists as long as the file is open."""
    file = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return file


class Hosts:
    """Two network namespaces with a link between them, and the processes started in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spaces = [f"dragoman{os.getpid()}{letter}" for letter in "ab"]
        self.links = [f"dm{os.getpid() % 100000}{letter}" for letter in "ab"]
        self.started: list[subprocess.Popen[bytes]] = []
        self.delayed: DelayedLink | None = None

    def __enter__(self) -> "Hosts":
        for space in self.spaces:
            ip("netns", "add", space)
        ip("link", "add", self.links[0], "netns", self.spaces[0], "type", "veth", "peer", "name", self.links[1])
        ip("link", "set", self.links[1], "netns", self.spaces[1])
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.started:
            kill_session(process)
        if self.delayed:
            self.delayed.stop()
        for space in self.spaces:
            subprocess.run(["ip", "netns", "delete", space], check=False)

    def connect(self) -> None:
        """Give the ends of the link their addresses."""
        for number, (space, link) in enumerate(zip(self.spaces, self.links, strict=True), 1):
            ip("-n", space, "address", "add", f"10.77.0.{number}/24", "dev", link)
            ip("-n", space, "link", "set", link, "up")
            ip("-n", space, "link", "set", "lo", "up")

    def set_link(self, state: str) -> None:
        """Set the link `up` or `down`."""
        ip("-n", self.spaces[1], "link", "set", self.links[1], state)

    def slow_down(self) -> None:
        """Replace the link by one that holds every packet for DELAY_S, in both directions."""
        ip("-n", self.spaces[0], "link", "delete", self.links[0])  # its other end goes with it
        self.delayed = DelayedLink(self.links)
        for space, link in zip(self.spaces, self.links, strict=True):
            ip("link", "set", link, "netns", space)
        self.connect()

    def round_trip(self) -> float:
        """Return the seconds of a packet to the other host and its answer: that nothing listens there."""
        command = ["ip", "netns", "exec", self.spaces[0], sys.executable, "-c", ROUND_TRIP, "10.77.0.2"]
        return float(subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout)

    def start(self, number: int, name: str, command: list[str], **environment: str) -> subprocess.Popen[bytes]:
        """Start a command on host 1 or 2, with the host's name, and its output in NAME-hostN.log."""
        space = ["ip", "netns", "exec", self.spaces[number - 1], "unshare", "--uts", "sh", "-c"]
        command = [*space, 'hostname "$0"; exec "$@"', f"host{number}", *command]
        with (self.folder / f"{name}-host{number}.log").open("ab") as log:
            pipes = {"stdout": log, "stderr": log}
            environment = {**os.environ, **environment}
            process = subprocess.Popen(command, cwd=self.folder, env=environment, start_new_session=True, **pipes)
        self.started.append(process)
        return process

    def train(self, out: str, nodes: str, options: list[str]) -> list[subprocess.Popen[bytes]]:
        """Start torchrun on both hosts, and one training process on each; `options` begin with --timeout."""
        processes = []
        patience = int(parse_duration(options[1]) + PATIENCE_S)
        for number, link in enumerate(self.links, 1):
            # A bare address needs is_host. An agent that is cut off waits for its store as long as a process waits.
            conf = f"is_host={'true' if number == 1 else 'false'},last_call_timeout=10"
            conf += f",join_timeout={patience},read_timeout={patience}"
            command = [
                *("torchrun", "--nnodes", nodes, "--nproc-per-node", "1", "--max-restarts", "3"),
                *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"10.77.0.1:{PORT}", "--rdzv-id", out),
                *("--rdzv-conf", conf, "--local-addr", f"10.77.0.{number}", "-m", "dragoman", "train", "r.yaml"),
                *("--out", out, *options),
            ]
            environment = {"GLOO_SOCKET_IFNAME": link, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
            processes.append(self.start(number, out, command, **environment))
        return processes


def main() -> None:
    """Write the files, make the hosts, try one failure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("failure", choices=("cut", "slow", "lost", "prepare"))
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--timeout", default="40s")
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--write-only", action="store_true")
    options, extra = parser.parse_known_args()
    if extra and options.failure != "prepare":
        parser.error(f"only prepare takes other options: {' '.join(extra)}")
    folder = options.folder.absolute()
    write(folder)
    values: dict[str, Any] = {"files": len(list(folder.iterdir()))}
    if not options.write_only:
        if shutil.which("ip") is None or os.geteuid() != 0:
            parser.error("network namespaces need root and iproute2")
        os.environ |= {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        more = ["--timeout", options.timeout, "--set", f"training.stop.updates={options.updates}"]
        with Hosts(folder) as hosts:
            if options.failure == "prepare":
                text = (options.source or folder / "a.en", options.target or folder / "a.iso")
                more = ["--source", str(text[0].absolute()), "--target", str(text[1].absolute()), *extra]
            values = {"cut": try_cut, "slow": try_slow, "lost": try_lost, "prepare": try_prepare}[options.failure](
                hosts, more
            )
    print(json.dumps({"bench": f"try_hosts_{options.failure}", "values": values}))


def try_cut(hosts: Hosts, options: list[str]) -> dict[str, Any]:
    """Cut the link for longer than the timeout; return when the stall was named, and the restarts."""
    timeout = parse_duration(options[1])
    training = hosts.train("cut", "2", options)
    until("update", lambda: len(events(hosts.folder, "cut", "update")) >= 20)
    hosts.set_link("down")
    begin = time.monotonic()
    until("report of the stall", lambda: bool(events(hosts.folder, "cut", "stalled")))
    named = time.monotonic() - begin
    message = events(hosts.folder, "cut", "stalled")[-1]["message"]
    assert "host1" in message, message
    assert "host2" in message, message
    print(message, flush=True)
    time.sleep(max(0.0, timeout + 15 - named))
    hosts.set_link("up")
    down = time.monotonic() - begin
    until("resumed run", lambda: bool(events(hosts.folder, "cut", "resumed")))
    resumed = time.monotonic() - begin
    codes = wait(training)
    assert codes == [0, 0], codes
    return {
        "seconds_until_named": round(named, 1),
        "seconds_cut": round(down, 1),
        "seconds_until_resumed": round(resumed, 1),
        "restarts": len(events(hosts.folder, "cut", "resumed")),
    }


def try_slow(hosts: Hosts, options: list[str]) -> dict[str, Any]:
    """Train over a fast and over a slow link, and compare the weights."""
    seconds, round_trips = [], []
    for out in ("fast", "slow"):
        if out == "slow":
            hosts.slow_down()
        round_trips.append(hosts.round_trip())
        training = hosts.train(out, "2", options)
        codes = wait(training)
        assert codes == [0, 0], codes
        seconds.append(events(hosts.folder, out, "update")[-1]["seconds"])
    models = [(hosts.folder / out / "bundle" / "model.safetensors").read_bytes() for out in ("fast", "slow")]
    assert models[0] == models[1], "the weights differ"
    assert round_trips[0] < DELAY_S < 2 * DELAY_S <= round_trips[1], round_trips
    assert hosts.delayed is not None
    return {
        "same_weights": True,
        "round_trip_ms": [round(1000 * trip, 1) for trip in round_trips],
        "delayed_packets": hosts.delayed.num_passed,
        "seconds_fast": round(seconds[0], 1),
        "seconds_slow": round(seconds[1], 1),
    }


def try_lost(hosts: Hosts, options: list[str]) -> dict[str, Any]:
    """Lose the second host; return the seconds until the first goes on alone."""
    training = hosts.train("lost", "1:2", options)
    until("update", lambda: len(events(hosts.folder, "lost", "update")) >= 20)
    begin = time.monotonic()
    hosts.set_link("down")  # first: the end of the processes is no message to the first host
    kill_session(training[1])
    until("resumed run", lambda: bool(events(hosts.folder, "lost", "resumed")))
    resumed = time.monotonic() - begin
    codes = wait(training[:1])
    assert codes == [0], codes
    (event,) = events(hosts.folder, "lost", "resumed")
    assert event["now"][0] == 1, event
    assert event["then"][0] == 2, event
    return {"seconds_until_resumed_alone": round(resumed, 1), "restarts": 1}


def try_prepare(hosts: Hosts, options: list[str]) -> dict[str, Any]:
    """Prepare on one host, then on both with Ray; return the seconds, and the processor seconds of each host."""
    prepare = ["dragoman", "prepare", *options, "--workers", "2", "--out"]
    begin = time.monotonic()
    (code,) = wait([hosts.start(1, "one", [*prepare, "one"])], PREPARE_S)
    seconds = [time.monotonic() - begin]
    assert code == 0, code
    address = f"10.77.0.1:{PORT}"
    # Ray asks for a token where a node is not on this host's loopback.
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    ray = ["ray", "start", "--num-cpus", "1", "--block", "--disable-usage-stats", "--node-ip-address"]
    head = [*ray, "10.77.0.1", "--head", "--port", str(PORT), "--include-dashboard", "false"]
    nodes = [hosts.start(1, "ray", head)]
    until("head of the cluster", lambda: "started" in (hosts.folder / "ray-host1.log").read_text("utf-8"))
    nodes.append(hosts.start(2, "ray", [*ray, "10.77.0.2", "--address", address]))
    until("second host", lambda: "started" in (hosts.folder / "ray-host2.log").read_text("utf-8"))
    begin = time.monotonic()
    started = hosts.start(1, "two", [*prepare, "two", "--ray"], RAY_ADDRESS=address)
    busy: dict[int, dict[int, float]] = {1: {}, 2: {}}
    while started.poll() is None:
        for number, node in enumerate(nodes, 1):
            busy[number] |= {pid: processor_seconds(pid) for pid in descendants(node.pid)}
        if time.monotonic() - begin > PREPARE_S:
            raise SystemExit(f"dragoman prepare --ray did not end within {PREPARE_S:.0f} s")
        time.sleep(0.5)
    seconds.append(time.monotonic() - begin)
    assert started.returncode == 0, started.returncode
    one, two = ({path.name: path for path in (hosts.folder / out).iterdir()} for out in ("one", "two"))
    assert one.keys() == two.keys(), (one.keys(), two.keys())
    assert all(filecmp.cmp(one[name], two[name], shallow=False) for name in one), "the files differ"
    return {
        "same_files": len(one),
        "seconds_one_host": round(seconds[0], 1),
        "seconds_two_hosts": round(seconds[1], 1),
        **{f"processor_seconds_host{number}": round(sum(times.values()), 1) for number, times in busy.items()},
    }


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process, or 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write(folder: Path) -> None:
    """Write the recipe and the text."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "r.yaml").write_text(RECIPE, encoding="utf-8")
    for side, texts in zip(("en", "iso"), zip(*dates(400, seed=1), strict=True), strict=True):
        (folder / f"a.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def ip(*arguments: str) -> None:
    """Run `ip` with these arguments."""
    subprocess.run(["ip", *arguments], check=True, timeout=20)


def events(folder: Path, out: str, kind: str) -> list[dict[str, Any]]:
    """Return the events of one kind in the log of a run."""
    log = folder / out / "log.jsonl"
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return [event for event in found if event["event"] == kind]


def until(what: str, condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > PATIENCE_S:
            raise SystemExit(f"no {what} within {PATIENCE_S:.0f} s")
        time.sleep(0.1)


def wait(processes: list[subprocess.Popen[bytes]], seconds: float = PATIENCE_S) -> list[int]:
    """Return the exit codes of processes that end in time."""
    return [process.wait(seconds) for process in processes]


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a launcher and its training processes, which have sessions of their own."""
    for pid in [*descendants(process.pid), process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(20)


def descendants(parent: int) -> Iterator[int]:
    """Yield the children of a process, and theirs."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    for word in listed.stdout.split():
        yield from descendants(int(word))
        yield int(word)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the hosts end with this script
    main()
