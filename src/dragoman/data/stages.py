"""The way of a corpus from raw chunks to shards: pure functions from files to one file each.

Which chunk or shard is done where and when does not matter: each function reads files that are whole and writes one
that is whole (durable.py). A run that was killed is run again, and what is there already is not done again. A pair goes
to the shard that its hash names, so that a shard is a random sample of its corpus, and equal pairs meet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dragoman.config import Config
from dragoman.data.clean import clean
from dragoman.data.corpus import Chunk
from dragoman.data.duplicates import first_of_each, hash_pairs
from dragoman.data.durable import Sink, damage, write_durably
from dragoman.data.leak import HeldOut
from dragoman.data.problem import CleanConfig
from dragoman.data.profile import Profile
from dragoman.data.ragged import Ragged
from dragoman.data.report import EXAMPLES, Example, Report, excerpt
from dragoman.data.shards import ShardInfo, Texts, write_shard
from dragoman.data.vocab import Vocab


@dataclass(frozen=True)
class Workshop:
    """Where the files of one corpus stand while it is being prepared."""

    folder: Path

    def raw(self, chunk: int) -> Path:
        return self.folder / f"{chunk:06}.raw.arrow"

    def cleaned(self, chunk: int) -> Path:
        return self.folder / f"{chunk:06}.clean.arrow"

    def report(self, chunk: int) -> Path:
        return self.folder / f"{chunk:06}.report.json"

    def encoded(self, chunk: int) -> Path:
        return self.folder / f"{chunk:06}.encoded.arrow"

    def record(self, shard: int) -> Path:
        return self.folder / f"{shard:06}.shard.json"


def save_raw(shop: Workshop, chunk: Chunk) -> None:
    """A chunk as it was read."""
    path = shop.raw(chunk.index)
    if not path.exists():
        metadata = {"first_line": str(chunk.first_line), "unterminated": str(int(chunk.unterminated))}
        _save(path, pa.record_batch({"source": chunk.source, "target": chunk.target}, metadata=metadata))


def load_raw(shop: Workshop, index: int) -> Chunk:
    """The chunk that `save_raw` saved."""
    batch = load(shop.raw(index))
    metadata = batch.schema.metadata
    first_line, unterminated = int(metadata[b"first_line"]), metadata[b"unterminated"] == b"1"
    return Chunk(index, first_line, batch.column("source"), batch.column("target"), unterminated)


class CleanTask(NamedTuple):
    """Clean one chunk."""

    shop: Workshop
    chunk: int
    settings: CleanConfig
    profile: Profile
    held_out: HeldOut | None
    tag: str | None = None


def clean_chunk(task: CleanTask) -> Report:
    """The pairs that stay, as text; the report is written last, so that where it is, all is."""
    report = task.shop.report(task.chunk)
    if not report.exists():
        cleaned = clean(load_raw(task.shop, task.chunk), task.settings, task.profile, task.held_out)
        source = _tagged(cleaned.source, task.tag) if task.tag else cleaned.source
        columns = {"source": source, "target": cleaned.target, "line": pa.array(cleaned.line)}
        _save(task.shop.cleaned(task.chunk), pa.record_batch(columns))
        content = cleaned.report.model_dump_json().encode()
        write_durably(report, lambda sink: sink.write(content))
    return Report.model_validate_json(report.read_bytes())


def _tagged(texts: pa.LargeStringArray, tag: str) -> pa.LargeStringArray:
    word, space = (pa.scalar(text, pa.large_string()) for text in (tag, " "))
    return pc.binary_join_element_wise(word, texts, space)


class EncodeTask(NamedTuple):
    """Encode one clean chunk for so many shards."""

    shop: Workshop
    chunk: int
    vocab: Vocab
    num_shards: int
    keep_text: bool


def encode_chunk(task: EncodeTask) -> int:
    """Ids, hashes and destinations of a chunk's pairs, sorted by destination; gives their number."""
    path = task.shop.encoded(task.chunk)
    if path.exists():
        return int(load(path).num_rows)
    batch = load(task.shop.cleaned(task.chunk))
    source, target = batch.column("source").to_pylist(), batch.column("target").to_pylist()
    hashes = hash_pairs(batch.column("source"), batch.column("target"))
    shard = (hashes[:, 0] % np.uint64(task.num_shards)).astype(np.int32)
    order = np.argsort(shard, kind="stable")
    rows = pa.array(order)
    columns = {
        "shard": pa.array(shard[order]),
        "hash": pa.array(hashes[order, 0]),
        "more_hash": pa.array(hashes[order, 1]),
        "line": batch.column("line").take(rows),
        "source": _lists(task.vocab.source.encode(source).take(order)),
        "target": _lists(task.vocab.target.encode(target).take(order)),
    }
    if task.keep_text:
        columns |= {f"{side}_text": batch.column(side).take(rows) for side in ("source", "target")}
    _save(path, pa.record_batch(columns))
    return int(batch.num_rows)


class ShardTask(NamedTuple):
    """Gather one shard from all encoded chunks."""

    shop: Workshop
    num_chunks: int
    shard: int
    path: Path
    keep_duplicates: bool


class Gathered(Config):
    """A shard, and what it left out."""

    info: ShardInfo
    duplicates: int
    """Pairs that had come before."""
    first_duplicates: tuple[int, ...]
    """The lines of the first of them, from 0."""


def gather_shard(task: ShardTask) -> Gathered:
    """The pairs of one shard, each once, in their length cells. Its record is written last."""
    record = task.shop.record(task.shard)
    done = Gathered.model_validate_json(record.read_bytes()) if record.exists() else None
    if done is None or damage(task.path.parent, done.info):
        batch = pa.concat_batches([_part(task.shop.encoded(chunk), task.shard) for chunk in range(task.num_chunks)])
        is_first = np.ones(batch.num_rows, bool) if task.keep_duplicates else first_of_each(_hashes(batch))
        lost = batch.column("line").to_numpy()[~is_first]
        info = _write(task.path, batch.filter(pa.array(is_first)))
        done = Gathered(info=info, duplicates=len(lost), first_duplicates=tuple(lost[:EXAMPLES].tolist()))
        content = done.model_dump_json().encode()
        write_durably(record, lambda sink: sink.write(content))
    return done


def find_lines(shop: Workshop, num_chunks: int, lines: Sequence[int]) -> list[Example]:
    """The clean text of these lines, for a report."""
    found = []
    for chunk in range(num_chunks):
        batch = load(shop.cleaned(chunk))
        here = batch.column("line").to_numpy()
        for row in np.flatnonzero(np.isin(here, lines)).tolist():
            source, target = (excerpt(batch.column(side)[row].as_py().encode()) for side in ("source", "target"))
            found.append(Example(line=int(here[row]) + 1, source=source, target=target))
    return found


def load(path: Path) -> pa.RecordBatch:
    """A file of the workshop, memory-mapped."""
    return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)


def _save(path: Path, batch: pa.RecordBatch) -> None:
    def write(sink: Sink) -> None:
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)

    write_durably(path, write)


def _part(path: Path, shard: int) -> pa.RecordBatch:
    """What a chunk has for a shard: a copy, because a slice would keep its chunk mapped, and the pages around what is
    read would add up over all chunks.
    """
    batch = load(path)
    start, end = np.searchsorted(batch.column("shard").to_numpy(), [shard, shard + 1]).tolist()
    return batch.take(pa.array(np.arange(start, end)))


def _hashes(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    return np.column_stack([batch.column("hash").to_numpy(), batch.column("more_hash").to_numpy()])


def _write(path: Path, batch: pa.RecordBatch) -> ShardInfo:
    texts = (
        Texts(batch.column("source_text"), batch.column("target_text")) if "source_text" in batch.schema.names else None
    )
    return write_shard(
        path, _ragged(batch.column("source")), _ragged(batch.column("target")), texts, batch.column("line").to_numpy()
    )


def _lists(rows: Ragged) -> pa.LargeListArray:
    return pa.LargeListArray.from_arrays(pa.array(rows.offsets), pa.array(rows.ids))


def _ragged(column: pa.LargeListArray) -> Ragged:
    offsets = column.offsets.to_numpy()
    return Ragged(column.values.to_numpy()[offsets[0] : offsets[-1]], offsets - offsets[0])
