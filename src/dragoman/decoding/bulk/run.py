"""A run over shards from beginning to end: find them, see which are finished, have the others translated."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dragoman.bundle import open_bundle
from dragoman.data.cores import num_cores
from dragoman.data.progress import Progress
from dragoman.decoding.bulk.crew import Say, in_crew
from dragoman.decoding.bulk.finding import Portion, find_shards
from dragoman.decoding.bulk.folder import alone, claim, remove_left_overs, strays
from dragoman.decoding.bulk.formats import refuse_unreadable
from dragoman.decoding.bulk.loading import choose
from dragoman.decoding.bulk.manifest import ShardManifest, standing
from dragoman.decoding.bulk.pace import Pace
from dragoman.decoding.bulk.rows import Columns
from dragoman.decoding.bulk.settings import Job
from dragoman.decoding.bulk.summary import Summary
from dragoman.decoding.bulk.work import Outcome
from dragoman.decoding.given import Compute, EngineName


@dataclass(frozen=True)
class Bulk:
    """What is asked for."""

    model: Path
    pattern: str
    out: Path
    column: str = "text"
    into: str = "translation"
    workers: int | None = None
    """Processes; by default one for every two cores."""
    threads: int | None = None
    """Of each; by default its share of the cores."""
    shard_index: str | None = None
    ray: bool = False
    beam: int | None = None
    engine: EngineName = "auto"
    compute: Compute | None = None
    split: bool = True
    protect: bool = False


def carry_out(bulk: Bulk, tell: Progress, say: Say) -> Summary:
    """Translates what is not finished yet. What can be wrong with the request is said before anything is begun."""
    portion = Portion.parse(bulk.shard_index)
    found = find_shards(bulk.pattern, bulk.out)
    shards = portion.of(found)
    refuse_unreadable(shards)
    columns = Columns(bulk.column, bulk.into)
    if columns.text == columns.into:
        raise ValueError(f"--into {columns.into} is what is translated: give the translation a name of its own")
    bundle = open_bundle(bulk.model)
    settings = choose(bundle, columns, bulk.beam, bulk.engine, bulk.compute, bulk.split, bulk.protect, say)
    with alone(bulk.out, portion):
        claim(bulk.out, shards, settings)
        remove_left_overs(bulk.out, shards)
        kept, waiting = _looked_over(shards, bulk.out, tell, say)
        workers = max(1, min(bulk.workers or max(1, num_cores() // 2), len(waiting)))
        job = Job(bundle.folder, bulk.out, settings, bulk.threads or _threads(bulk, settings.engine, workers))
        try:
            outcomes, seconds = _translated(bulk, job, waiting, workers, tell, say)
            return Summary(kept, outcomes, seconds, strays(bulk.out, found))
        finally:
            remove_left_overs(bulk.out, shards)


def _looked_over(shards: Sequence[Path], out: Path, tell: Progress, say: Say) -> tuple[list[ShardManifest], list[Path]]:
    """Which are finished, and which are not. Hashing lets go of the interpreter lock."""
    kept, waiting = [], []
    with ThreadPoolExecutor(num_cores()) as pool:
        looks = pool.map(partial(standing, out=out), shards)
        for number, (shard, look) in enumerate(zip(shards, looks, strict=True), 1):
            if look.manifest is not None:
                kept.append(look.manifest)
            else:
                waiting.append(shard)
            if look.wrong:
                say(f"{shard} is translated again: {look.wrong}")
            tell("look over shards", number, len(shards))
    return kept, waiting


def _translated(
    bulk: Bulk, job: Job, waiting: list[Path], workers: int, tell: Progress, say: Say
) -> tuple[list[Outcome], float]:
    """What became of each, and the seconds it took. What is wrong with one is said when it is found."""
    begin, outcomes = time.monotonic(), []
    pace = Pace(waiting, tell)
    for outcome in _outcomes(bulk, job, waiting, workers, pace, say):
        outcomes.append(outcome)
        pace.finished(outcome.shard, outcome.rows)
        if outcome.wrong:
            say(outcome.wrong)
    return outcomes, time.monotonic() - begin


def _outcomes(bulk: Bulk, job: Job, waiting: list[Path], workers: int, pace: Pace, say: Say) -> Iterator[Outcome]:
    if not bulk.ray:
        return in_crew(job, waiting, workers, say, pace.reached)
    from dragoman.decoding.bulk.ray_crew import in_ray

    return in_ray(job, waiting, workers)


def _threads(bulk: Bulk, engine: str, workers: int) -> int:
    """A Ray actor has one CPU; and what torch computes may depend on its threads, so it has one always."""
    return 1 if bulk.ray or engine == "torch" else max(1, num_cores() // workers)
