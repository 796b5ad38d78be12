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
    strays: Sequence[str] = ()
    """Translations in the same folder that are of no shard named now."""

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
        """One line, or two."""
        finished = len(self.kept) + len(self.done)
        lines = [f"{_counted(finished, 'shard')} finished, {_counted(self.rows, 'row')}"]
        if self.kept:
            lines.append(f"{len(self.kept):,} of them {'was' if len(self.kept) == 1 else 'were'} finished before")
        if self.done:
            sentences = sum(outcome.sentences for outcome in self.done)
            rate = sentences / max(self.seconds, 1e-9)
            lines.append(f"{_counted(sentences, 'sentence')} in {self.seconds:,.1f} s: {rate:,.0f} a second")
        others = "\nbeside them are translations of shards that are not named now: "
        beside = others + _listed(self.strays) if self.strays else ""
        return "; ".join(lines) + beside

    def problems(self) -> str:
        """Which could not be done, and what to do about it; why was said when it was found."""
        names = [str(outcome.shard) for outcome in self.unfinished]
        what = f"{_counted(len(names), 'shard')} could not be translated, as said above: {_listed(names)}"
        return f"{what}\nall others are finished; {MEND}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
