"""How far a run over shards is: rows that are done, and of how many by what the finished shards held."""

from collections.abc import Sequence
from pathlib import Path

from dragoman.data.progress import Progress


class Pace:
    """Tells of rows. How many there will be follows from the bytes of the shards that are finished."""

    def __init__(self, shards: Sequence[Path], tell: Progress) -> None:
        self.tell = tell
        self.sizes = {shard.absolute(): shard.stat().st_size for shard in shards}
        self.under_way: dict[Path, int] = {}
        self.rows = self.num_bytes = 0
        if shards:
            tell("translate", 0, None)

    def reached(self, shard: Path, rows: int) -> None:
        """So many rows of a shard have been translated."""
        self.under_way[shard.absolute()] = rows
        self._say()

    def finished(self, shard: Path, rows: int) -> None:
        """All of them have."""
        self.under_way.pop(shard.absolute(), None)
        self.rows += rows
        self.num_bytes += self.sizes[shard.absolute()]
        self._say()

    def _say(self) -> None:
        done = self.rows + sum(self.under_way.values())
        expected = (
            round(self.rows / self.num_bytes * sum(self.sizes.values())) if self.num_bytes and self.rows else None
        )
        self.tell("translate", done, None if expected is None else max(done, expected))
