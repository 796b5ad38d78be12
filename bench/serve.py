"""The service against the bare engine, against itself without merging, and its latencies at half load.

- `vs_bare_ctranslate2`: sentences a second over HTTP, 64 connections with a sentence each, a model of the paper's base
  size whose outputs all have 30 tokens (bench/base_bundle.py), against CTranslate2 called bare with the same sentences
  in large batches, on the same cores. The client runs on these cores too; `client_cores` is what it took of them.
- `vs_unmerged`: against the same service with every sentence in a batch of its own.
- `p50_ms`, `p95_ms`, `p99_ms`: at half of that load, at a fixed rate.
- `demo_per_second`, `demo_http_cores`: the same with the demo bundle, and what the HTTP process took.

    python bench/serve.py [--seconds 30] [--rounds 3] [--only base half unmerged demo]

The service and the bare engine take turns. Last, one JSON line.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from base_bundle import base_bundle
from translate import sentences

BENCH = Path(__file__).resolve().parent
PARTS = ("base", "half", "unmerged", "demo")
PATIENT = ("--limit", "wait=600", "--limit", "seconds=600")
"""Of 64 who ask at once, a slow model would refuse most: rightly, but then it is not saturated, it is besieged."""


@contextmanager
def service(*words: str) -> Iterator[tuple[str, int]]:
    """A service on a free port: its URL and the id of its process."""
    command = [sys.executable, "-m", "dragoman", "serve", *words, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise SystemExit(f"{' '.join(command)} did not start")
        yield url, process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def load(url: str, file: Path, seconds: float, *words: str) -> dict[str, float]:
    command = [sys.executable, str(BENCH / "load.py"), url, str(file), "--seconds", str(seconds), *words]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(" ".join(f"{name} {value}" for name, value in found.items()), flush=True)
    return found


def bare(model: Path, file: Path) -> float:
    """Sentences a second, all given at once."""
    command = [sys.executable, str(BENCH / "translate_side.py"), "bare", str(model), str(file), str(_cores())]
    found = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"bare {found:.1f} sentences/s", flush=True)
    return found


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def cpu_seconds(pid: int) -> float:
    """Of one process, its children left out."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def base(model: Path, file: Path, given: argparse.Namespace) -> dict[str, float]:
    rates: list[tuple[float, float]] = []
    for _ in range(given.rounds):
        with service(f"en-de={model}", *PATIENT) as (url, _pid):
            served = load(url, file, given.seconds)
        rates.append((served["per_second"], bare(model, file)))
    return {
        "vs_bare_ctranslate2": median(ours / theirs for ours, theirs in rates),
        "per_second": median(ours for ours, _ in rates),
        "client_cores": served["client_cores"],
    }


def half(model: Path, file: Path, given: argparse.Namespace, rate: float) -> dict[str, float]:
    with service(f"en-de={model}") as (url, _):
        served = load(url, file, given.seconds, "--rate", str(rate / 2))
    return {name: served[name] for name in ("p50_ms", "p95_ms", "p99_ms")}


def unmerged(model: Path, file: Path, given: argparse.Namespace, rate: float) -> dict[str, float]:
    with service(f"en-de={model}", "--limit", "batch_tokens=1", *PATIENT) as (url, _):
        served = load(url, file, given.seconds)
    return {"vs_unmerged": rate / served["per_second"]}


def demo(file: Path, given: argparse.Namespace) -> dict[str, float]:
    with service("--demo") as (url, pid):
        before = cpu_seconds(pid)
        served = load(url, file, given.seconds)
        taken = (cpu_seconds(pid) - before) / (given.seconds + 5)
    return {
        "demo_per_second": served["per_second"],
        "demo_http_cores": taken,
        "demo_client_cores": served["client_cores"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=1000, help="that the bare engine translates")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    given = parser.parse_args()
    values: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        model, file = Path(name) / "base", Path(name) / "sentences"
        file.write_text("".join(f"{line}\n" for line in sentences(given.sentences)), encoding="utf-8")
        if set(given.only) - {"demo"}:
            base_bundle(model, length=30, languages=("en", "de"))
            values |= base(model, file, given)
        if "half" in given.only:
            values |= half(model, file, given, values["per_second"])
        if "unmerged" in given.only:
            values |= unmerged(model, file, given, values["per_second"])
        if "demo" in given.only:
            values |= demo(file, given)
    print(json.dumps({"bench": "serve", "values": {name: round(value, 3) for name, value in values.items()}}))


if __name__ == "__main__":
    main()
