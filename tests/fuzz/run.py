"""Fuzz every parser of what comes from outside, each in a process of its own.

    python tests/fuzz/run.py [--seconds 60] [--only NAME] [--jobs 2]

Atheris changes the seeds wherever that leads to code not yet reached. A crash is anything but ValueError, a broken
promise, or twenty seconds without an answer; its input is shown, to become a seed. Prints one JSON line.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

SECONDS_EACH: Final = 20
"""That one input may take."""
PLANTED: Final = "planted"
"""A target with a mistake in it, to see that one is found. Not among those that are run unless it is named."""


def child(name: str, rest: list[str]) -> None:
    """Fuzzes until the time is up, or something breaks: then the exit code says so."""
    import atheris

    with atheris.instrument_imports(include=["dragoman", "targets"]):
        import targets
    target = planted if name == PLANTED else targets.TARGETS[name]
    atheris.Setup([sys.argv[0], *rest], target)
    atheris.Fuzz()


def planted(data: bytes) -> None:
    if data.startswith(b"{") and b"\xff" in data:
        raise KeyError("planted")


def fuzzed(name: str, seconds: int, place: Path) -> dict[str, Any]:
    """One target: how many inputs it took, and what broke it."""
    from seeds import SEEDS

    corpus, found = place / name, place / f"{name}.crashes"
    corpus.mkdir()
    found.mkdir()
    for number, seed in enumerate(SEEDS.get(name, (b"{", b"\xff"))):
        (corpus / str(number)).write_bytes(seed)
    options = [f"-max_total_time={seconds}", f"-timeout={SECONDS_EACH}", "-rss_limit_mb=4096"]
    options += ["-max_len=110000", "-report_slow_units=1000"]  # a slow input is no crash: a machine may be busy
    command = [sys.executable, __file__, "--child", name, str(corpus), *options, f"-artifact_prefix={found}/"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    runs = re.findall(r"Done (\d+) runs", done.stderr)
    crashes = [path.read_bytes() for path in found.iterdir()]
    broken = bool(crashes) or done.returncode != 0
    if broken:
        print(f"{name}: {crashes[:1]!r:.500}\n{done.stdout[-3000:]}\n{done.stderr[-2000:]}", file=sys.stderr)
    return {"runs": int(runs[-1]) if runs else 0, "broken": broken}


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--only", action="append", help="this target; may be given again")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time")
    wanted = parser.parse_args()
    from targets import TARGETS

    names = wanted.only or list(TARGETS)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(wanted.jobs) as pool:
        done = list(pool.map(lambda name: fuzzed(name, wanted.seconds, Path(folder)), names))
    found = dict(zip(names, done, strict=True))
    values = {
        "targets": len(found),
        "crashes": sum(one["broken"] for one in found.values()),
        "crashed": [name for name, one in found.items() if one["broken"]],
        "runs": {name: one["runs"] for name, one in found.items()},
    }
    print(json.dumps({"bench": "fuzz", "values": values}))
    # A target that hardly ran was not fuzzed.
    raise SystemExit(bool(values["crashes"]) or min(values["runs"].values()) < 10)


if __name__ == "__main__":
    main()
