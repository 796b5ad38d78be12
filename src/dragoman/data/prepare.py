"""Prepare corpora: read them in chunks, clean, train a vocabulary, encode, and write shards.

Each stage is a pure function from complete files to a complete file (io/durable.py), applied to each chunk or shard by
several processes; intermediate files are in a work folder inside the prepared folder. The result does not depend on
where and in which order tasks run. After a preparation was killed, the same command runs the missing tasks and writes
the same bytes. The manifest is written last; a folder with a manifest is complete.

The hash of a pair selects its shard, so that a shard is a random sample of its corpus, and duplicates share a shard.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, UInt64
from numpy import ndarray
from pydantic import Field

from dragoman.config import Config
from dragoman.data.corpus import Chunk, CorpusConfig, check_corpora, read_chunks
from dragoman.data.manifest import MANIFEST, Manifest, Prepared, PreparedCorpus
from dragoman.data.pair_cleaning import HeldOut, LengthProfile, clean_pairs, hold_out, profile_of
from dragoman.data.shards import ShardInfo, ShardTexts, load_batch, save_batch, to_lists, to_ragged, write_shard
from dragoman.io.durable import UNFINISHED, FileInfo, find_damage, write_durably
from dragoman.io.lock import locked
from dragoman.io.processes import in_processes
from dragoman.io.progress import Progress, ignore_progress
from dragoman.io.streams import STANDARD_INPUT
from dragoman.text.cleaning import CleanConfig, Problem
from dragoman.text.cleaning_report import EXAMPLES, CleaningReport, ProblemExample, excerpt
from dragoman.text.vocab import Vocab, VocabConfig, train_vocab

WORK: Final = ".workshop"
REPORT: Final = "report.json"
_SEPARATOR: Final = b"\xff"  # in no UTF-8

Do = Callable[[Callable[[int], Any], Sequence[int]], Iterator[Any]]
"""A function that maps another function over numbers, in processes or on a cluster; it yields the results in order."""

Settings = dict[str, Any]
"""The configuration as JSON, and the size and modification time of the input files."""


class PrepareConfig(Config):
    """The configuration of a preparation: corpora, cleaning, vocabulary and shards."""

    corpora: tuple[CorpusConfig, ...] = Field(min_length=1, description="training corpora")
    held_out: tuple[CorpusConfig, ...] = Field((), description="development and test sets to remove from the corpora")
    clean: CleanConfig = Field(CleanConfig(), description="cleaning policies")
    vocabulary: VocabConfig | None = Field(None, description="vocabulary; default: joint, sized by the number of pairs")
    vocabulary_of: str | None = Field(None, description="relative path of a prepared folder whose vocabulary to use")
    sample: int = Field(1_000_000, ge=1, description="maximum number of pairs to train the vocabulary on")
    keep_text: bool = Field(False, description="store the sentences in the shards, for subword sampling")
    lines_per_chunk: int = Field(50_000, ge=1, description="number of lines per task of a worker process")
    pairs_per_shard: int = Field(500_000, ge=1, description="approximate number of pairs per shard")


class ChunkedCorpus(NamedTuple):
    """A corpus whose raw chunks are saved in a work folder."""

    corpus: CorpusConfig
    work: Path
    num_chunks: int
    num_lines: int


class GatheredShard(Config):
    """A written shard, and the duplicates dropped from the shard."""

    info: ShardInfo
    duplicates: int
    """The number of dropped duplicates."""
    first_duplicates: tuple[int, ...]
    """The line numbers of the first dropped duplicates, from 0."""


def prepare(
    config: PrepareConfig,
    folder: Path,
    num_workers: int = 1,
    progress: Progress = ignore_progress,
    run: Callable[..., Iterator[Any]] = in_processes,
) -> Prepared:
    """Prepare the corpora in a folder, or resume the preparation; verify and repair a complete folder.

    `run` maps a function over tasks: `in_processes` or `in_cluster`, which write the same bytes.
    """
    check_corpora([*config.corpora, *config.held_out])
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give a folder as --out")
    folder.mkdir(parents=True, exist_ok=True)
    busy = f"{folder} is being prepared by another process: wait until it ends, or give another --out"
    with locked(folder / ".lock", busy):
        settings = settings_of(config)
        finished = _open_finished(folder, settings)
        if finished is not None:
            return finished
        for left_over in folder.glob(f".*{UNFINISHED}"):
            left_over.unlink()
        _open_work_folder(folder / WORK, settings)
        _Preparation(config, folder, partial(run, num_workers=num_workers), progress).finish(settings)
        shutil.rmtree(folder / WORK)
        return Prepared.open(folder, verify=False)


@dataclass(frozen=True)
class _Preparation:
    """Runs the stages of a preparation over all corpora."""

    config: PrepareConfig
    folder: Path
    do: Do
    progress: Progress

    def finish(self, settings: Settings) -> None:
        """Run all stages that are not complete, and write the manifest last."""
        config, folder = self.config, self.folder
        chunked = [self._read(corpus) for corpus in config.corpora]
        held_out = hold_out(config.held_out, config.clean) if config.held_out else None
        reports = {part.corpus.name: self._clean(part, held_out) for part in chunked}
        _save_reports(folder, reports)
        for part in chunked:
            if not reports[part.corpus.name].stayed:
                why = f"no pair is left after cleaning: see the problems in {folder / REPORT}"
                raise ValueError(f"{part.corpus.source}: {why}")
        vocab = self._vocabulary(chunked)
        corpora = []
        for part in chunked:
            name, gathered = part.corpus.name, self._gather(part, vocab)
            reports[name] += _duplicates(part, gathered)
            shards = tuple(shard.info for shard in gathered)
            pairs = sum(shard.num_pairs for shard in shards)
            corpora.append(PreparedCorpus(name=name, weight=part.corpus.weight, num_pairs=pairs, shards=shards))
        _save_reports(folder, reports)
        read, stayed = sum(report.pairs for report in reports.values()), sum(corpus.num_pairs for corpus in corpora)
        counts, vocabulary = {"read": read, "stayed": stayed}, vocab.save(folder)
        Manifest(corpora=tuple(corpora), vocabulary=vocabulary, settings=settings, counts=counts).save(folder)

    def _read(self, corpus: CorpusConfig) -> ChunkedCorpus:
        """Read a corpus and save its chunks in the work folder, unless they are already saved."""
        work = self.folder / WORK / corpus.name
        work.mkdir(exist_ok=True)
        done = work / "cut.json"
        if not done.exists():
            num_chunks = num_lines = 0
            for chunk in read_chunks(corpus, self.config.lines_per_chunk):
                save_raw(work, chunk)
                num_chunks, num_lines = chunk.index + 1, chunk.first_line + len(chunk)
                self.progress(f"read {corpus.name}", num_lines, unit="lines")
            write_durably(done, json.dumps([num_chunks, num_lines]).encode())
        return ChunkedCorpus(corpus, work, *json.loads(done.read_bytes()))

    def _clean(self, part: ChunkedCorpus, held_out: HeldOut | None) -> CleaningReport:
        # A chunk from the middle stands for the corpus better than its beginning.
        profile = profile_of(load_raw(part.work, part.num_chunks // 2), self.config.clean)
        clean = partial(clean_chunk, part.work, self.config.clean, profile, held_out, part.corpus.tag)
        report = CleaningReport()
        for of_chunk in self.do(clean, range(part.num_chunks)):
            report += of_chunk
            self.progress(f"clean {part.corpus.name}", report.pairs, part.num_lines, "pairs")
        return report

    def _vocabulary(self, chunked: Sequence[ChunkedCorpus]) -> Vocab:
        if self.config.vocabulary_of is not None:
            return Vocab.load(self.folder / self.config.vocabulary_of)
        done = self.folder / WORK / "vocabulary.json"
        saved = [FileInfo.model_validate(info) for info in json.loads(done.read_bytes())] if done.exists() else []
        if not saved or any(find_damage(self.folder, info) for info in saved):
            self.progress("learn the vocabulary", 0)
            source, target = (_sample(chunked, side, self.config.sample) for side in ("source", "target"))
            suggested = VocabConfig(size=suggested_size(sum(part.num_lines for part in chunked)))
            saved = list(train_vocab(source, target, self.config.vocabulary or suggested).save(self.folder))
            write_durably(done, json.dumps([info.model_dump() for info in saved]).encode())
        return Vocab.load(self.folder)

    def _gather(self, part: ChunkedCorpus, vocab: Vocab) -> list[GatheredShard]:
        name, work, num_chunks = part.corpus.name, part.work, part.num_chunks
        num_shards = max(1, round(part.num_lines / self.config.pairs_per_shard))
        done = 0
        encode = partial(encode_chunk, work, vocab, num_shards, self.config.keep_text)
        for num_pairs in self.do(encode, range(num_chunks)):
            done += num_pairs
            self.progress(f"encode {name}", done, unit="pairs")
        keep_duplicates = self.config.clean.policy(Problem.DUPLICATE) == "keep"
        gather = partial(gather_shard, work, num_chunks, self.folder / name, keep_duplicates)
        gathered = []
        for shard in self.do(gather, range(num_shards)):
            gathered.append(shard)
            self.progress(f"write the shards of {name}", len(gathered), num_shards, "shards")
        return gathered


def suggested_size(num_pairs: int) -> int:
    """Return the default vocabulary size for a number of pairs, up to the paper's 37,000."""
    return min(37_000, int(50 * num_pairs**0.5), 260 + num_pairs // 2)


def save_raw(work: Path, chunk: Chunk) -> None:
    """Save a chunk of raw pairs in the work folder, unless the file exists."""
    path = work / f"{chunk.index:06}.raw.arrow"
    if not path.exists():
        metadata = {"first_line": str(chunk.first_line), "unterminated": str(int(chunk.unterminated))}
        save_batch(path, pa.record_batch({"source": chunk.source, "target": chunk.target}, metadata=metadata))


def load_raw(work: Path, index: int) -> Chunk:
    """Return a chunk of raw pairs that `save_raw` has saved."""
    batch = load_batch(work / f"{index:06}.raw.arrow")
    metadata = batch.schema.metadata
    first_line, unterminated = int(metadata[b"first_line"]), metadata[b"unterminated"] == b"1"
    return Chunk(index, first_line, batch.column("source"), batch.column("target"), unterminated)


def clean_chunk(
    work: Path, settings: CleanConfig, profile: LengthProfile, held_out: HeldOut | None, tag: str | None, chunk: int
) -> CleaningReport:
    """Clean a chunk, write the kept pairs and then the cleaning report, and return the report."""
    report = work / f"{chunk:06}.report.json"
    if not report.exists():
        cleaned = clean_pairs(load_raw(work, chunk), settings, profile, held_out)
        source = cleaned.source
        if tag:
            word, space = (pa.scalar(text, pa.large_string()) for text in (tag, " "))
            source = pc.binary_join_element_wise(word, source, space)
        columns = {"source": source, "target": cleaned.target, "line": pa.array(cleaned.line)}
        save_batch(work / f"{chunk:06}.clean.arrow", pa.record_batch(columns))
        write_durably(report, cleaned.report.model_dump_json().encode())
    return CleaningReport.model_validate_json(report.read_bytes())


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
    save_batch(path, pa.record_batch(columns))
    return int(batch.num_rows)


def gather_shard(work: Path, num_chunks: int, prefix: Path, keep_duplicates: bool, shard: int) -> GatheredShard:
    """Write a shard without duplicates, and then a JSON record that marks the shard as complete."""
    record, path = work / f"{shard:06}.shard.json", Path(f"{prefix}-{shard:05}.arrow")
    done = GatheredShard.model_validate_json(record.read_bytes()) if record.exists() else None
    if done is None or find_damage(path.parent, done.info):
        batch = pa.concat_batches([_part(work / f"{chunk:06}.encoded.arrow", shard) for chunk in range(num_chunks)])
        hashes = np.column_stack([batch.column(name).to_numpy() for name in ("hash", "more_hash")])
        is_first = np.ones(batch.num_rows, bool) if keep_duplicates else first_of_each(hashes)
        lost = batch.column("line").to_numpy()[~is_first]
        batch = batch.filter(pa.array(is_first))
        source, target = (to_ragged(batch.column(side)) for side in ("source", "target"))
        has_text = "source_text" in batch.schema.names
        texts = ShardTexts(batch.column("source_text"), batch.column("target_text")) if has_text else None
        info = write_shard(path, source, target, texts, batch.column("line").to_numpy())
        done = GatheredShard(info=info, duplicates=len(lost), first_duplicates=tuple(lost[:EXAMPLES].tolist()))
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


def _sample(chunked: Sequence[ChunkedCorpus], side: str, size: int) -> Iterator[str]:
    """Yield about `size` source or target sentences, sampled from all corpora.

    The same pairs are sampled for both sides and in every run.
    """
    share = min(1.0, size / sum(part.num_lines for part in chunked))
    for part in chunked:
        for chunk in range(part.num_chunks):
            batch = load_cleaned(part.work, chunk)
            lines = batch.column("line").to_numpy().astype(np.uint64)
            # Multiplying by an odd number near 2^64 / golden ratio spreads neighbours evenly over all numbers.
            lots = (lines * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
            for row in np.flatnonzero(lots < share * 2**32).tolist():
                yield batch.column(side)[row].as_py()


def _duplicates(part: ChunkedCorpus, gathered: Sequence[GatheredShard]) -> CleaningReport:
    """Return a cleaning report on the duplicates dropped from the shards of a corpus."""
    total = sum(shard.duplicates for shard in gathered)
    if not total:
        return CleaningReport()
    first = sorted(line for shard in gathered for line in shard.first_duplicates)[:EXAMPLES]
    examples = []
    for chunk in range(part.num_chunks):
        batch = load_cleaned(part.work, chunk)
        lines = batch.column("line").to_numpy()
        for row in np.flatnonzero(np.isin(lines, first)).tolist():
            source, target = (excerpt(batch.column(side)[row].as_py().encode()) for side in ("source", "target"))
            examples.append(ProblemExample(line=int(lines[row]) + 1, source=source, target=target))
    counts = {Problem.DUPLICATE: {"drop": total}}
    return CleaningReport(dropped=total, counts=counts, examples={Problem.DUPLICATE: tuple(examples)})


def _save_reports(folder: Path, reports: dict[str, CleaningReport]) -> None:
    named = {name: report.model_dump(mode="json") for name, report in reports.items()}
    write_durably(folder / REPORT, json.dumps(named, indent=1, ensure_ascii=False).encode())


def load_reports(folder: Path) -> dict[str, CleaningReport]:
    """Return the cleaning reports of a prepared folder by corpus name."""
    named = json.loads((folder / REPORT).read_bytes())
    return {name: CleaningReport.model_validate(body) for name, body in named.items()}


def settings_of(config: PrepareConfig) -> Settings:
    """Return the configuration and, to detect changed inputs, the size and modification time of each file."""
    files: dict[str, list[int]] = {}
    for corpus in (*config.corpora, *config.held_out):
        for name in (corpus.source, corpus.target):
            if name is not None and name != STANDARD_INPUT and Path(name).is_file():
                status = Path(name).stat()
                files[name] = [status.st_size, status.st_mtime_ns]
    described = config.model_dump(mode="json")
    for section, key in ((described, "vocabulary_of"), *((corpus, "tag") for corpus in described["corpora"])):
        if section[key] is None:  # left out, as in folders that were prepared before there was such a key
            del section[key]
    return {"config": described, "files": files}


def _open_finished(folder: Path, settings: Settings) -> Prepared | None:
    """Return the prepared folder, or None if it is incomplete or damaged.

    Raise ValueError if the folder was prepared with other settings.
    """
    if not (folder / MANIFEST).exists():
        return None
    manifest = Manifest.load(folder)
    if manifest.settings != settings:
        wrong = f"{folder} was prepared from other files or with other settings"
        raise ValueError(f"{wrong}: give another --out, or remove the folder")
    if any(find_damage(folder, info) for info in manifest.files):
        (folder / MANIFEST).unlink()
        return None
    return Prepared(folder, manifest)


def _open_work_folder(work: Path, settings: Settings) -> None:
    """Create the work folder; delete an existing work folder of a preparation with other settings."""
    content, marker = json.dumps(settings, sort_keys=True).encode(), work / "settings.json"
    if work.exists() and not (marker.exists() and marker.read_bytes() == content):
        shutil.rmtree(work)
    work.mkdir(exist_ok=True)
    if not marker.exists():
        write_durably(marker, content)
