"""A bulk run: find the shards, check which are finished, and translate the others."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from dragoman.bulk.find_shards import Portion, find_shards
from dragoman.bulk.folder import claim_folder, find_strays, lock_folder, remove_unfinished
from dragoman.bulk.process_pool import run_in_pool, run_in_ray
from dragoman.bulk.shard_manifest import FIX, ShardManifest, check_shard
from dragoman.bulk.shard_worker import BulkJob, ShardOutcome, choose_settings
from dragoman.bundle import open_bundle
from dragoman.device import CPU, choose_ctranslate2_device, choose_kind
from dragoman.io.processes import num_cores
from dragoman.io.progress import Progress
from dragoman.io.remote_path import AnyPath
from dragoman.translation.file_formats import MARKUP, format_by_name, refuse_unsupported
from dragoman.translation.glossary import Glossary
from dragoman.translation.translate_request import TranslateRequest

_MOST_NAMES: Final = 5


def run_bulk(request: TranslateRequest, progress: Progress, warn: Callable[[str], None]) -> "BulkSummary":
    """Translate all shards (input files) that are not finished. Check the request before starting any shard."""
    assert request.shards is not None
    assert request.out is not None
    out, portion = request.out, Portion.parse(request.shard_index)
    found = find_shards(request.shards, out)
    shards = portion.of(found)
    _check_formats(shards)
    bundle = open_bundle(request.model).to(request.to)
    glossary = Glossary.read(request.glossary) if request.glossary else None
    settings = choose_settings(bundle, request, warn, glossary)
    with lock_folder(out, portion):
        claim_folder(out, shards, settings)
        remove_unfinished(out, shards)
        kept, waiting = _check_shards(shards, out, progress, warn)
        usual = max(1, num_cores() // 2) if _is_on_cpu(settings.engine, request.device) else 1
        workers = max(1, min(request.workers or usual, len(waiting)))
        # A Ray actor has one CPU; and torch's results may depend on its threads, so it always has one.
        is_single = request.ray or settings.engine == "torch"
        threads = request.threads or (1 if is_single else max(1, num_cores() // workers))
        job = BulkJob(bundle.folder, out, settings, threads, glossary, request.device)
        estimate, begin = _Estimate(waiting, progress), time.monotonic()
        outcomes: list[ShardOutcome] = []
        try:
            if request.ray:
                running = run_in_ray(job, waiting, workers)
            else:
                running = run_in_pool(job, waiting, workers, warn, estimate.update)
            for outcome in running:
                outcomes.append(outcome)
                estimate.update(outcome.shard, outcome.rows, is_finished=True)
                if outcome.wrong:
                    warn(outcome.wrong)
            return BulkSummary(kept, outcomes, time.monotonic() - begin, find_strays(out, found))
        finally:
            remove_unfinished(out, shards)


def _is_on_cpu(engine: str, device: str) -> bool:
    return choose_kind(device) == CPU if engine == "torch" else choose_ctranslate2_device(device).is_cpu


def _check_formats(shards: Sequence[AnyPath]) -> None:
    """Raise ValueError for an unsupported file format, ImportError if the package for a file format is missing."""
    for shard in shards:
        refuse_unsupported(shard)
        if format_by_name(shard) in MARKUP:
            raise ValueError(f"{shard}: --shards translates rows, not documents: translate it with --input {shard}")
        if format_by_name(shard) == "parquet" or shard.suffix == ".zst":
            import pyarrow  # noqa: F401
        if shard.suffix == ".zst":
            import zstandard  # noqa: F401


def _check_shards(
    shards: Sequence[AnyPath], out: AnyPath, progress: Progress, warn: Callable[[str], None]
) -> tuple[list[ShardManifest], list[AnyPath]]:
    """Return the manifests of finished shards, and the paths of all other shards.

    Threads hash the files, since hashing releases the GIL.
    """
    kept, waiting = [], []
    with ThreadPoolExecutor(num_cores()) as pool:
        statuses = pool.map(partial(check_shard, out=out), shards)
        for number, (shard, status) in enumerate(zip(shards, statuses, strict=True), 1):
            if status.manifest is not None:
                kept.append(status.manifest)
            else:
                waiting.append(shard)
            if status.wrong:
                warn(f"{shard} is translated again: {status.wrong}")
            progress("check shards", number, len(shards))
    return kept, waiting


class _Estimate:
    """Reports the rows done, and a total estimated from the rows and bytes of finished shards."""

    def __init__(self, shards: Sequence[AnyPath], progress: Progress) -> None:
        self.progress = progress
        self.sizes = {shard.name: shard.stat().st_size for shard in shards}
        self.under_way: dict[str, int] = {}
        self.rows = self.num_bytes = 0
        if shards:
            progress("translate", 0, None)

    def update(self, shard: AnyPath, rows: int, is_finished: bool = False) -> None:
        """Report how many rows of a shard have been translated so far."""
        self.under_way[shard.name] = rows
        if is_finished:
            self.rows += self.under_way.pop(shard.name)
            self.num_bytes += self.sizes[shard.name]
        done, total = self.rows + sum(self.under_way.values()), None
        if self.num_bytes and self.rows:
            total = max(done, round(self.rows / self.num_bytes * sum(self.sizes.values())))
        self.progress("translate", done, total)


@dataclass(frozen=True)
class BulkSummary:
    """The result of a bulk run: shards that were finished before, translated in this run, or failed."""

    kept: Sequence[ShardManifest]
    outcomes: Sequence[ShardOutcome]
    seconds: float
    strays: Sequence[str] = ()
    """Names of translated shards in the output folder that the pattern does not match."""

    @property
    def done(self) -> list[ShardOutcome]:
        return [outcome for outcome in self.outcomes if outcome.wrong is None]

    @property
    def failed(self) -> list[ShardOutcome]:
        return [outcome for outcome in self.outcomes if outcome.wrong is not None]

    @property
    def lost(self) -> list[ShardOutcome]:
        """The shards that killed their workers or raised an unexpected error."""
        return [outcome for outcome in self.outcomes if outcome.is_lost]

    @property
    def rows(self) -> int:
        """The number of rows in all finished shards."""
        return sum(manifest.rows for manifest in self.kept) + sum(outcome.rows for outcome in self.done)

    def text(self) -> str:
        """Return the summary as text; a second line lists other translations in the output folder, if any."""
        finished = len(self.kept) + len(self.done)
        parts = [f"{_count(finished, 'shard')} finished, {_count(self.rows, 'row')}"]
        if self.kept:
            parts.append(f"{len(self.kept):,} of them {'was' if len(self.kept) == 1 else 'were'} finished before")
        if self.done:
            sentences = sum(outcome.sentences for outcome in self.done)
            rate = sentences / max(self.seconds, 1e-9)
            parts.append(f"{_count(sentences, 'sentence')} in {self.seconds:,.1f} s: {rate:,.0f} a second")
        if untranslated := sum(outcome.untranslated for outcome in self.done):
            parts.append(f"{_count(untranslated, 'sentence')} with text that was kept, not translated")
        if unused := sum(outcome.unused_terms for outcome in self.done):
            parts.append(f"{_count(unused, 'glossary term')} not used")
        beside = f"\nalso in the folder, but not matched by --shards: {_list(self.strays)}" if self.strays else ""
        return "; ".join(parts) + beside

    def problems(self) -> str:
        """Return an error message that lists the failed shards and says what to do."""
        names = [str(outcome.shard) for outcome in self.failed]
        what = f"{_count(len(names), 'shard')} could not be translated, for the reasons above: {_list(names)}"
        return f"{what}\nall others are finished; {FIX}"


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
