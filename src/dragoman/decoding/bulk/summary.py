"""What a run over shards has come to, in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.decoding.bulk.manifest import MEND, ShardManifest
from dragoman.decoding.bulk.work import Outcome

_SHOWN = 5


@dataclass(frozen=True)
class Summary:
    """What was there before, what was done, and what could not be."""

    kept: Sequence[ShardManifest]
    outcomes: Sequence[Outcome]
    seconds: float

    @property
    def done(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.wrong is None]

    @property
    def unfinished(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.wrong is not None]

    @property
    def lost(self) -> list[Outcome]:
        """Those that workers died of."""
        return [outcome for outcome in self.outcomes if outcome.lost]

    @property
    def rows(self) -> int:
        """Of all finished shards."""
        return sum(manifest.rows for manifest in self.kept) + sum(outcome.rows for outcome in self.done)

    def text(self) -> str:
        """One or two lines."""
        finished = len(self.kept) + len(self.done)
        lines = [f"{_counted(finished, 'shard')} finished, {_counted(self.rows, 'row')}"]
        if self.kept:
            lines.append(f"{len(self.kept):,} of them {'was' if len(self.kept) == 1 else 'were'} finished before")
        if self.done:
            sentences = sum(outcome.sentences for outcome in self.done)
            rate = sentences / max(self.seconds, 1e-9)
            lines.append(f"{_counted(sentences, 'sentence')} in {self.seconds:,.1f} s: {rate:,.0f} a second")
        return "; ".join(lines)

    def problems(self) -> str:
        """What could not be done, and what to do about it."""
        told = [str(outcome.wrong) for outcome in self.unfinished]
        more = f"\nand {len(told) - _SHOWN:,} more" if len(told) > _SHOWN else ""
        several = f"{_counted(len(told), 'shard')} could not be translated:\n" if len(told) > 1 else ""
        return f"{several}{chr(10).join(told[:_SHOWN])}{more}\nall others are finished; {MEND}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
