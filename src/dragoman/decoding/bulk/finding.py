"""Which files are translated: those a pattern names, in the order of their names, or every n-th of them."""

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Portion:
    """Every n-th shard from the i-th on, counted from 0."""

    index: int
    count: int

    @staticmethod
    def parse(text: str | None) -> "Portion":
        """From "i/n"; without it, all of them."""
        if text is None:
            return Portion(0, 1)
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        if not found:
            raise ValueError(f"--shard-index {text!r}: give i/n, such as 0/4 for the first of four tasks")
        portion = Portion(int(found[1]), int(found[2]))
        if portion.index >= portion.count:
            last = f"0/{portion.count} to {portion.count - 1}/{portion.count}" if portion.count else "0/1"
            raise ValueError(
                f"--shard-index {text}: tasks are counted from 0, so give {last}; with SLURM: --array=0-"
                f"{max(portion.count - 1, 0)}"
            )
        return portion

    def of(self, shards: Sequence[Path]) -> list[Path]:
        """Its part of all shards: together the portions hold each once."""
        return list(shards[self.index :: self.count])

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def find_shards(pattern: str, out: Path) -> list[Path]:
    """All files that the pattern names, none of them in the way of another."""
    found = glob.glob(pattern, recursive=True)  # noqa: PTH207  # the pattern may be absolute, or hold ..
    shards = sorted(path for path in map(Path, found) if path.is_file())
    if not shards:
        quoting = "" if glob.has_magic(pattern) else "; put a pattern in quotes, as in --shards 'in/*.parquet'"
        raise ValueError(f"--shards {pattern}: there is no such file{quoting}")
    by_name: dict[str, Path] = {}
    for shard in shards:
        if shard.name in by_name:
            raise ValueError(
                f"{by_name[shard.name]} and {shard} have the same name, and so would their translations: "
                "translate their folders one by one, each with an --out of its own"
            )
        by_name[shard.name] = shard
    if any(shard.resolve().parent == out.resolve() for shard in shards):
        raise ValueError(f"--out {out} is where the shards are: give another folder")
    return shards
