"""The same workers as Ray Data's actors: each holds its engine, and Ray starts one that dies again."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dragoman.data.cluster import cluster, in_cluster
from dragoman.decoding.bulk.settings import Job
from dragoman.decoding.bulk.work import Outcome, ShardWorker


def in_ray(job: Job, shards: Sequence[Path], num_workers: int) -> Iterator[Outcome]:
    """The outcomes in the order of the shards. Every machine must see the folders under the same names.

    One CPU more than there are actors: with none to spare, what feeds them would wait for ever.
    """
    there = replace(job, model=job.model.absolute(), out=job.out.absolute())
    with cluster(num_workers + 1):
        yield from in_cluster(ShardWorker(there), [shard.absolute() for shard in shards], num_workers)
