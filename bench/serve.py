"""Compare the service with the bare engine and with itself without batching; measure latencies at half load.

- `vs_bare_ctranslate2`: sentences a second over HTTP, 64 connections with a sentence each, a model of the paper's base
  size whose outputs all have 30 tokens (bench/base_bundle.py), against CTranslate2 called bare with the same sentences
  in large batches, on the same cores. The client runs on these cores too; `client_cores` is its share of a core.
- `vs_unmerged`: against the same service with one sentence per batch.
- `p50_ms`, `p95_ms`, `p99_ms`: at half of that load, at a fixed rate.
- `demo_per_second`, `demo_http_cores`: the same with the demo bundle, and the cores of the HTTP process.

    python bench/serve.py [--seconds 30] [--rounds 3] [--only base half unmerged demo] [--layers 6] [--d-model 512]

The service and the bare engine take turns.
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
from report import option_parser, print_values
from texts import english_sentences, write_lines

BENCH = Path(__file__).resolve().parent
PARTS = ("base", "half", "unmerged", "demo")
NO_REJECTION = ("--limit", "wait=600", "--limit", "seconds=600")
"""With 64 connections a slow model would reject most requests, and the measurement would not be of its capacity."""


@contextmanager
def service(*words: str) -> Iterator[tuple[str, int]]:
    """Start a service on a free port; yield its URL and the id of its process."""
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


def load(url: str, file: Path, options: argparse.Namespace, *words: str) -> dict[str, float]:
    command = [sys.executable, str(BENCH / "load.py"), url, str(file), *words]
    command += [
        "--seconds",
        str(options.seconds),
        "--warm",
        str(options.warm),
        "--connections",
        str(options.connections),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    values: dict[str, float] = json.loads(done.stdout)["values"]
    print(" ".join(f"{name} {value}" for name, value in values.items()), flush=True)
    return values


def bare(model: Path, file: Path) -> float:
    """Return the sentences per second of CTranslate2 with all sentences at once."""
    command = [sys.executable, str(BENCH / "translate_side.py"), "bare", str(model), str(file), str(_cores())]
    rate = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
    print(f"bare {rate:.1f} sentences/s", flush=True)
    return rate


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def cpu_seconds(pid: int) -> float:
    """Return the processor time of one process without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def base(model: Path, file: Path, options: argparse.Namespace) -> dict[str, float]:
    rates: list[tuple[float, float]] = []
    for _ in range(options.rounds):
        with service(f"en-de={model}", *NO_REJECTION) as (url, _pid):
            served = load(url, file, options)
        rates.append((served["per_second"], bare(model, file)))
    return {
        "vs_bare_ctranslate2": median(ours / theirs for ours, theirs in rates),
        "per_second": median(ours for ours, _ in rates),
        "client_cores": served["client_cores"],
    }


def half(model: Path, file: Path, options: argparse.Namespace, rate: float) -> dict[str, float]:
    with service(f"en-de={model}") as (url, _):
        served = load(url, file, options, "--rate", str(rate / 2))
    return {name: served[name] for name in ("p50_ms", "p95_ms", "p99_ms")}


def unmerged(model: Path, file: Path, options: argparse.Namespace, rate: float) -> dict[str, float]:
    with service(f"en-de={model}", "--limit", "batch_tokens=1", *NO_REJECTION) as (url, _):
        served = load(url, file, options)
    return {"vs_unmerged": rate / served["per_second"]}


def demo(file: Path, options: argparse.Namespace) -> dict[str, float]:
    with service("demo") as (url, pid):
        before = cpu_seconds(pid)
        served = load(url, file, options)
        taken = (cpu_seconds(pid) - before) / (options.seconds + options.warm)
    return {
        "demo_per_second": served["per_second"],
        "demo_http_cores": taken,
        "demo_client_cores": served["client_cores"],
    }


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=1000, help="sentences for the bare engine")
    parser.add_argument("--warm", type=float, default=5.0, help="seconds before counting")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    values: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        model, file = Path(name) / "base", Path(name) / "sentences"
        write_lines(file, english_sentences(options.sentences))
        if set(options.only) - {"demo"}:
            base_bundle(model, options.layers, options.d_model, length=30, languages=("en", "de"))
            values |= base(model, file, options)
        if "half" in options.only:
            values |= half(model, file, options, values["per_second"])
        if "unmerged" in options.only:
            values |= unmerged(model, file, options, values["per_second"])
        if "demo" in options.only:
            values |= demo(file, options)
    print_values("serve", values)


if __name__ == "__main__":
    main()
