"""Find the files to translate: all files that match a pattern, or one task's share of these files."""

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.io.remote_path import AnyPath, RemotePath, parse_address


@dataclass(frozen=True)
class Portion:
    """One task's share of the shards: every `count`-th shard, starting with shard `index` (from 0)."""

    index: int
    count: int

    @staticmethod
    def parse(text: str | None) -> "Portion":
        """Parse --shard-index "i/n", task i of n; None means all shards."""
        if text is None:
            return Portion(0, 1)
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        if not match:
            raise ValueError(f"--shard-index {text!r} is not of the form i/n: give 0/4 for the first of four tasks")
        portion = Portion(int(match[1]), int(match[2]))
        if portion.index >= portion.count:
            count = max(1, portion.count)
            tasks = f"0/{count} to {count - 1}/{count}; with SLURM: --array=0-{count - 1}"
            raise ValueError(f"--shard-index {text} is out of range, the index starts at 0: give {tasks}")
        return portion

    def of(self, shards: Sequence[AnyPath]) -> list[AnyPath]:
        """Return this task's shards; each shard belongs to exactly one task."""
        return list(shards[self.index :: self.count])


def find_shards(pattern: str, out: AnyPath) -> Sequence[AnyPath]:
    """Return the files that match the pattern; raise ValueError if no file matches or two have the same name."""
    shards = _match(pattern)
    if not shards:
        quoting = "" if glob.has_magic(pattern) else "; put a pattern in quotes, as in --shards 'in/*.parquet'"
        raise ValueError(f"--shards {pattern} matches no file: check the path{quoting}")
    first = {shard.name: shard for shard in reversed(shards)}
    for shard in shards:
        if shard != first[shard.name]:
            both = f"{first[shard.name]} and {shard} have the same name, so one would overwrite the other"
            raise ValueError(f"{both}: translate each input folder with a separate --out")
    if any(shard.resolve().parent == out.resolve() for shard in shards):
        raise ValueError(f"--out {out} is the folder of the shards: give another folder")
    return shards


def _match(pattern: str) -> Sequence[AnyPath]:
    """Return the files that match a pattern, in the order of their names."""
    address = parse_address(pattern)
    if isinstance(address, RemotePath):
        return sorted(address.glob())
    names = glob.glob(str(address), recursive=True)  # noqa: PTH207  # the pattern may be absolute, or hold ..
    return sorted(path for path in map(Path, names) if path.is_file())
