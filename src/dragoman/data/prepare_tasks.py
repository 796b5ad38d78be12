"""The tasks of a preparation: pure functions from complete files to a complete file.

Each task reads and writes the files of one chunk, or writes one shard, in the work folder of a corpus. A task whose
file exists does nothing, so that an interrupted preparation can be resumed.
"""

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, UInt64
from numpy import ndarray

from dragoman.config import Config
from dragoman.data.augment import AddedPair, AugmentConfig, change_pairs, random_of
from dragoman.data.chunk_ranges import load_range
from dragoman.data.corpus import Chunk, CorpusConfig
from dragoman.data.pair_cleaning import CleanPairs, HeldOut, LengthProfile, clean_pairs
from dragoman.data.shards import ShardInfo, ShardTexts, load_batch, save_batch, to_lists, to_ragged, write_shard
from dragoman.data.text_changes import TextPair
from dragoman.data.word_links import LinkedPair, join_links, parse_links
from dragoman.io.durable import find_damage, write_durably
from dragoman.text.cleaning import CleanConfig
from dragoman.text.cleaning_report import EXAMPLES, CleaningReport
from dragoman.text.ragged import Ragged
from dragoman.text.vocab import Vocab

_SIDES: Final = ("source", "target")
_SEPARATOR: Final = b"\xff"  # in no UTF-8


class GatheredShard(Config):
    """A written shard, and the duplicates dropped from the shard."""

    info: ShardInfo
    duplicates: int
    """The number of dropped duplicates."""
    first_duplicates: tuple[int, ...]
    """The line numbers of the first dropped duplicates, from 0."""
    num_added: int = 0
    """The number of pairs that augmentation added."""


def save_raw(work: Path, chunk: Chunk) -> None:
    """Save a chunk of raw pairs in the work folder, unless the file exists."""
    path = work / f"{chunk.index:06}.raw.arrow"
    if not path.exists():
        metadata = {"first_line": str(chunk.first_line), "unterminated": str(int(chunk.unterminated))}
        columns = {"source": chunk.source, "target": chunk.target}
        if chunk.links is not None:
            columns["links"] = chunk.links
        save_batch(path, pa.record_batch(columns, metadata=metadata))


def load_raw(work: Path, index: int) -> Chunk:
    """Return a chunk of raw pairs: from its byte ranges in the text files, or as `save_raw` has saved it."""
    if chunk := load_range(work, index):
        return chunk
    batch = load_batch(work / f"{index:06}.raw.arrow")
    metadata = batch.schema.metadata
    first_line, unterminated = int(metadata[b"first_line"]), metadata[b"unterminated"] == b"1"
    links = batch.column("links") if "links" in batch.schema.names else None
    return Chunk(index, first_line, batch.column("source"), batch.column("target"), unterminated, links)


def clean_chunk(
    work: Path,
    settings: CleanConfig,
    profile: LengthProfile,
    held_out: HeldOut | None,
    corpus: CorpusConfig,
    chunk: int,
) -> CleaningReport:
    """Clean a chunk, write the kept pairs and then the cleaning report, and return the report."""
    report = work / f"{chunk:06}.report.json"
    if not report.exists():
        raw = load_raw(work, chunk)
        cleaned = clean_pairs(raw, settings, profile, held_out)
        source = cleaned.source
        if corpus.tag:
            word, space = (pa.scalar(text, pa.large_string()) for text in (corpus.tag, " "))
            source = pc.binary_join_element_wise(word, source, space)
        columns = {"source": source, "target": cleaned.target, "line": pa.array(cleaned.line)}
        if corpus.links:
            columns["links"] = to_lists(_links_of(raw, cleaned, corpus))
        save_batch(work / f"{chunk:06}.clean.arrow", pa.record_batch(columns))
        write_durably(report, cleaned.report.model_dump_json().encode())
    return CleaningReport.model_validate_json(report.read_bytes())


def _links_of(raw: Chunk, cleaned: CleanPairs, corpus: CorpusConfig) -> Ragged:
    """Return the word links of the pairs that cleaning kept; a tag before the source moves its words by one."""
    assert raw.links is not None
    rows = pa.array(cleaned.line - raw.first_line)
    texts = (column.take(rows).to_pylist() for column in (raw.links, raw.source, raw.target))
    clean = zip(cleaned.source.to_pylist(), cleaned.target.to_pylist(), strict=True)
    pairs = [
        LinkedPair(line, links, (source, target), sides)
        for line, links, source, target, sides in zip(cleaned.line.tolist(), *texts, clean, strict=True)
    ]
    links = parse_links(pairs, str(corpus.links))
    if corpus.tag:
        links.ids[::2] += 1
    return links


def augment_chunk(work: Path, config: AugmentConfig, corpus: str, num_chunks: int, chunk: int) -> None:
    """Write the changed copies of a cleaned chunk as another chunk; they have the line numbers of their first pairs."""
    if (work / f"{num_chunks + chunk:06}.clean.arrow").exists():
        return
    batch = load_cleaned(work, chunk)
    pairs = list(map(TextPair, batch.column("source").to_pylist(), batch.column("target").to_pylist()))
    added = list(change_pairs(pairs, config, random_of(corpus, chunk)))
    first = pa.array([pair.rows[0] for pair in added], pa.int64())
    columns = {"line": batch.column("line").take(first)}
    if "links" in batch.schema.names:
        columns["links"] = to_lists(join_links(to_ragged(batch.column("links")), pairs, [pair.rows for pair in added]))
    save_added(work, num_chunks + chunk, pa.record_batch(columns), added)


def save_added(work: Path, chunk: int, origin: pa.RecordBatch, pairs: Sequence[TextPair | AddedPair]) -> None:
    """Save added pairs as a chunk, with the other columns of the pairs that they were made from."""
    columns = {name: origin.column(name) for name in origin.schema.names}
    columns |= {side: pa.array([getattr(pair, side) for pair in pairs], pa.large_string()) for side in _SIDES}
    save_batch(work / f"{chunk:06}.clean.arrow", pa.record_batch(columns))


def encode_chunk(work: Path, vocab: Vocab, num_shards: int, keep_text: bool, chunk: int) -> int:
    """Encode a chunk, write the token ids and hashes sorted by shard, and return the number of pairs."""
    path = work / f"{chunk:06}.encoded.arrow"
    if path.exists():
        return int(load_batch(path).num_rows)
    batch = load_cleaned(work, chunk)
    source, target = batch.column("source"), batch.column("target")
    hashes = hash_pairs(source, target)
    shard = (hashes[:, 0] % np.uint64(num_shards)).astype(np.int32)
    order = np.argsort(shard, kind="stable")
    rows = pa.array(order)
    columns = {
        "shard": pa.array(shard[order]),
        "hash": pa.array(hashes[order, 0]),
        "more_hash": pa.array(hashes[order, 1]),
        "line": batch.column("line").take(rows),
        "source": to_lists(vocab.source.encode(source.to_pylist()).take(order)),
        "target": to_lists(vocab.target.encode(target.to_pylist()).take(order)),
    }
    if keep_text:
        columns |= {"source_text": source.take(rows), "target_text": target.take(rows)}
    if "links" in batch.schema.names:
        columns["links"] = batch.column("links").take(rows)
    save_batch(path, pa.record_batch(columns))
    return int(batch.num_rows)


def gather_shard(
    work: Path, num_chunks: int, num_added: int, prefix: Path, keep_duplicates: bool, shard: int
) -> GatheredShard:
    """Write a shard without duplicates, and then a JSON record that marks the shard as complete."""
    record, path = work / f"{shard:06}.shard.json", Path(f"{prefix}-{shard:05}.arrow")
    done = GatheredShard.model_validate_json(record.read_bytes()) if record.exists() else None
    if done is None or find_damage(path.parent, done.info):
        chunks = range(num_chunks + num_added)
        parts = [_part(work / f"{chunk:06}.encoded.arrow", shard) for chunk in chunks]
        batch = pa.concat_batches(parts)
        is_added = np.arange(batch.num_rows) >= sum(part.num_rows for part in parts[:num_chunks])
        hashes = np.column_stack([batch.column(name).to_numpy() for name in ("hash", "more_hash")])
        is_first = np.ones(batch.num_rows, bool) if keep_duplicates else first_of_each(hashes)
        lost = batch.column("line").to_numpy()[~is_first & ~is_added]
        batch = batch.filter(pa.array(is_first))
        source, target = (to_ragged(batch.column(side)) for side in ("source", "target"))
        has_text = "source_text" in batch.schema.names
        texts = ShardTexts(batch.column("source_text"), batch.column("target_text")) if has_text else None
        links = to_ragged(batch.column("links")) if "links" in batch.schema.names else None
        info = write_shard(path, source, target, texts, batch.column("line").to_numpy(), links)
        first_lost = tuple(lost[:EXAMPLES].tolist())
        count = int((is_first & is_added).sum())
        done = GatheredShard(info=info, duplicates=len(lost), first_duplicates=first_lost, num_added=count)
        write_durably(record, done.model_dump_json().encode())
    return done


def load_cleaned(work: Path, chunk: int) -> pa.RecordBatch:
    """Return the cleaned pairs of a chunk."""
    return load_batch(work / f"{chunk:06}.clean.arrow")


def _part(path: Path, shard: int) -> pa.RecordBatch:
    """Copy the pairs that belong to a shard from an encoded chunk, so that the chunk does not stay memory-mapped."""
    batch = load_batch(path)
    start, end = np.searchsorted(batch.column("shard").to_numpy(), [shard, shard + 1]).tolist()
    return batch.take(pa.array(np.arange(start, end)))


def hash_pairs(source: pa.LargeStringArray, target: pa.LargeStringArray) -> UInt64[ndarray, "pairs 2"]:
    """Return a 128-bit hash of each pair, which identifies duplicates and selects the shard.

    The hashes are the same on every machine.
    """
    sides = zip(source.cast(pa.large_binary()).to_pylist(), target.cast(pa.large_binary()).to_pylist(), strict=True)
    digests = b"".join(blake2b(left + _SEPARATOR + right, digest_size=16).digest() for left, right in sides)
    return np.frombuffer(digests, "<u8").astype(np.uint64).reshape(-1, 2)


def first_of_each(hashes: UInt64[ndarray, "pairs 2"]) -> Bool[ndarray, " pairs"]:
    """Return a mask of the first occurrence of each pair."""
    wide = np.ascontiguousarray(hashes).view([("high", np.uint64), ("low", np.uint64)]).ravel()
    first = np.zeros(len(hashes), bool)
    first[np.unique(wide, return_index=True)[1]] = True
    return first
