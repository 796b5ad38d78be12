"""The work itself: one shard, from its file to a finished translation with its manifest."""

import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from dragoman.data.durable import FileInfo, Sink, digest, write_durably
from dragoman.decoding.bulk.folder import num_deaths
from dragoman.decoding.bulk.formats import format_of
from dragoman.decoding.bulk.loading import Details, load
from dragoman.decoding.bulk.manifest import ShardManifest, standing
from dragoman.decoding.bulk.rows import Columns, Counts
from dragoman.decoding.bulk.settings import Job

ATTEMPTS: Final = 3
"""How often a shard is begun. One that kills three workers would kill a fourth."""


class Outcome(NamedTuple):
    """What became of a shard."""

    shard: Path
    rows: int = 0
    sentences: int = 0
    wrong: str | None = None
    """Why it could not be translated."""
    lost: bool = False
    """Whether workers died of it, or it showed a mistake in a program: nothing that giving other rows would mend."""


class ShardWorker:
    """Translates one shard after another with an engine of its own, which it loads at the first."""

    def __init__(self, job: Job, progress: Callable[[int], None] | None = None) -> None:
        self.job = job
        self.progress = progress
        self.details: Details | None = None
        self.sentences = 0

    def __call__(self, shard: Path) -> Outcome:
        """What is wrong with a shard is its outcome, and keeps no other shard from being translated."""
        if num_deaths(self.job.out, shard) >= ATTEMPTS:  # where Ray counts none, and would go on for ever
            return Outcome(shard, wrong=f"{shard}: {ATTEMPTS} workers died at it", lost=True)
        try:
            manifest = standing(shard, self.job.out).manifest  # who died may have died after its last word was written
            manifest = manifest or self._translated(shard)
        except ValueError as error:
            return Outcome(shard, wrong=str(error))
        except OSError as error:
            return Outcome(shard, wrong=f"{shard}: {error}")
        except Exception as error:  # an engine's, or a mistake of ours: nothing that another attempt would mend
            traceback.print_exc()
            return Outcome(shard, wrong=f"{shard}: {type(error).__name__}: {error}", lost=True)
        return Outcome(shard, manifest.rows, manifest.sentences)

    def _translated(self, shard: Path) -> ShardManifest:
        job, before = self.job, _stamp(shard)
        source = FileInfo(file=shard.name, sha256=digest(shard), num_bytes=before[0])
        counts: list[Counts] = []
        output = write_durably(job.out / shard.name, lambda sink: counts.append(self._write(shard, sink, before)))
        rows, nulls = counts[0]
        manifest = ShardManifest(
            input=source, output=output, rows=rows, nulls=nulls, sentences=self.sentences, settings=job.settings
        )
        manifest.save(job.out)
        return manifest

    def _write(self, shard: Path, sink: Sink, before: tuple[int, int]) -> Counts:
        columns = Columns(self.job.settings.column, self.job.settings.into)
        counts = format_of(shard)(shard, sink, columns, self._counted)
        if _stamp(shard) != before:
            raise ValueError(f"{shard} was changed while it was translated: give the same command again")
        return counts

    def _counted(self, texts: Iterable[str]) -> Iterator[str]:
        self.sentences = 0
        if self.details is None:
            self.details = load(self.job)
        for number, found in enumerate(self.details(texts), 1):
            self.sentences += len(found.sentences)
            yield found.text
            if self.progress:
                self.progress(number)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
