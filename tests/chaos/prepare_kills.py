"""Kill `dragoman prepare` at random moments and run it again each time: the folder must end with the same bytes.

    python tests/chaos/prepare_kills.py [--kills 20] [--pairs 30000]

Prints one JSON line: kills, how many of them hit a running process, and whether the bytes are equal.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = [f"{a}{b}{c}" for a in ("ba", "ke", "li", "mo", "nu") for b in ("r", "st", "nd", "l") for c in ("a", "en", "o")]


def write_corpus(folder: Path, pairs: int, seed: int = 7) -> list[str]:
    """Sentences of a made-up language, some of them twice."""
    draw = random.Random(seed)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(3, 14))) for _ in range(pairs)]
    lines[1::50] = lines[::50][: len(lines[1::50])]
    for side, text in (("source", lines), ("target", [line.upper() for line in lines])):
        (folder / f"text.{side}").write_text("\n".join(text) + "\n", encoding="utf-8")
    return ["--source", str(folder / "text.source"), "--target", str(folder / "text.target"), "--vocabulary", "600"]


def start(arguments: list[str], out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dragoman", "prepare", *arguments, "--out", str(out), "--workers", "2"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)


def finish(process: subprocess.Popen[bytes]) -> None:
    _, errors = process.communicate(timeout=300)
    if process.returncode:
        raise SystemExit(f"prepare failed:\n{errors.decode()}")


def digest(folder: Path) -> dict[str, str]:
    """Every file that prepare leaves, hidden and unfinished ones too."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=None, help="of the moments; else drawn anew")
    wanted = parser.parse_args()
    moments = random.Random(wanted.seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        arguments = write_corpus(folder, wanted.pairs)
        begin = time.monotonic()
        finish(start(arguments, folder / "straight"))
        duration = time.monotonic() - begin
        hit = 0
        for _ in range(wanted.kills):
            process = start(arguments, folder / "killed")
            # A run that goes on where another was killed is shorter; early moments are likelier to hit it.
            time.sleep(moments.uniform(0.1, 0.9) * duration)
            if process.poll() is None:
                hit += 1
                # The whole group at once, or the parent alone: its workers must notice.
                (os.killpg if moments.random() < 0.5 else os.kill)(process.pid, signal.SIGKILL)
            process.communicate()
            if (folder / "killed" / "manifest.json").exists():
                for path in (folder / "killed").iterdir():
                    if path.is_file() and moments.random() < 0.5:
                        path.unlink()  # finished too soon: take something away, so that there is work again
        finish(start(arguments, folder / "killed"))
        equal = digest(folder / "straight") == digest(folder / "killed")
    print(json.dumps({"bench": "prepare_kills", "values": {"kills": wanted.kills, "hit": hit, "equal": int(equal)}}))
    raise SystemExit(not equal)


if __name__ == "__main__":
    main()
