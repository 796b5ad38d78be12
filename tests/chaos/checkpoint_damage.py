"""Damage the newest checkpoint in every way: it must be noticed and named, and the one before it used (R3).

    python tests/chaos/checkpoint_damage.py [--flips 100] [--cuts 20]

Single bits flipped and files cut at random over all files of a checkpoint; each file deleted, emptied, or swapped with
that of the checkpoint before. Prints one JSON line: how many kinds of harm were done, and how many of them were named
with the file while the run fell back; and, without the manifest's hashes, how many flips torch notices by itself.
"""

import argparse
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.distributed.checkpoint.api import CheckpointException
from toy_training import made

from dragoman.training.checkpoint import CheckpointManifest

Harm = Callable[[Path], None]


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def harms(newest: Path, other: Path, flips: int, cuts: int, draw: random.Random) -> Iterator[tuple[str, str, Harm]]:
    """Kind, file, and what is done to it."""
    files = sorted(path.name for path in newest.iterdir())
    sizes = {name: (newest / name).stat().st_size for name in files}
    for number in range(flips):
        name = files[number % len(files)]
        bit = draw.randrange(8 * sizes[name])
        yield "flips", name, lambda path, bit=bit: flip(path, bit)
    for number in range(cuts):
        name = files[number % len(files)]
        length = draw.randrange(sizes[name])
        yield "cuts", name, lambda path, length=length: os.truncate(path, length)
    for name in files:
        yield "deleted", name, lambda path: path.unlink()
        yield "emptied", name, lambda path: os.truncate(path, 0)
        yield "swapped", name, lambda path, name=name: Path(shutil.copy(other / name, path)).touch()


def noticed(place: Path, kept: Path, name: str, harm: Harm) -> bool:
    """Whether the harm is named and the other checkpoint is used."""
    shutil.rmtree(place / "checkpoints")
    shutil.copytree(kept, place / "checkpoints")
    checkpoints = made(place, 6, 3).checkpoints
    harm(place / "checkpoints" / "update-000000006" / name)
    saved, wrong = checkpoints.newest()
    return saved is not None and saved.update == 3 and len(wrong) == 1 and name in wrong[0]


def noticed_by_torch(place: Path, kept: Path, flips: int, draw: random.Random) -> int:
    """How many flipped bits in the tensors' file torch objects to, when nothing else looks."""
    count = 0
    for _ in range(flips):
        shutil.rmtree(place / "checkpoints")
        shutil.copytree(kept, place / "checkpoints")
        path = place / "checkpoints" / "update-000000006" / "__0_0.distcp"
        flip(path, draw.randrange(8 * path.stat().st_size))
        trained = made(place, 6, 3)
        try:
            manifest = CheckpointManifest(update=6, state={}, processes=1, threads=1)
            trained.checkpoints.load(manifest, trained.state_dict())
        except (Exception, CheckpointException):  # torch's own is no Exception
            count += 1
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=100)
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None, help="of the places; else drawn anew")
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    draw = random.Random(wanted.seed)
    done: dict[str, int] = {}
    found = 0
    with tempfile.TemporaryDirectory() as folder:
        place, kept = Path(folder) / "run", Path(folder) / "kept"
        made(place, 6, 3).run()
        shutil.copytree(place / "checkpoints", kept)
        newest, other = kept / "update-000000006", kept / "update-000000003"
        for kind, name, harm in list(harms(newest, other, wanted.flips, wanted.cuts, draw)):
            done[kind] = done.get(kind, 0) + 1
            found += noticed(place, kept, name, harm)
        by_torch = noticed_by_torch(place, kept, wanted.flips // 5, draw)
    values = {**done, "harms": sum(done.values()), "noticed": found, "flips_noticed_by_torch_alone": by_torch}
    print(json.dumps({"bench": "checkpoint_damage", "values": values}))
    raise SystemExit(found != sum(done.values()))


if __name__ == "__main__":
    main()
