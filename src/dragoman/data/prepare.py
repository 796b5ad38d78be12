"""Prepare corpora: read them in chunks, clean, train a vocabulary, encode, and write shards.

Each stage is a pure function from complete files to a complete file (io/durable.py), applied to each chunk or shard by
several processes; intermediate files are in a work folder inside the prepared folder. The result does not depend on
where and in which order tasks run. After a preparation was killed, the same command runs the missing tasks and writes
the same bytes. The manifest is written last; a folder with a manifest is complete.

Augmentation adds chunks of changed copies and of mined phrases after the chunks of the corpus itself (augment.py).

The hash of a pair selects its shard, so that a shard is a random sample of its corpus, and duplicates share a shard.
"""

import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field

from dragoman.config import Config
from dragoman.data.augment import AddedPair, AugmentConfig, change_phrases, random_of
from dragoman.data.chunk_ranges import find_ranges, has_ranges, save_ranges
from dragoman.data.corpus import CorpusConfig, check_corpora, read_chunks
from dragoman.data.manifest import MANIFEST, Manifest, Prepared, PreparedCorpus
from dragoman.data.pair_cleaning import HeldOut, hold_out, profile_of
from dragoman.data.phrases import mine_phrases
from dragoman.data.prepare_tasks import (
    GatheredShard,
    augment_chunk,
    clean_chunk,
    encode_chunk,
    gather_shard,
    load_cleaned,
    load_raw,
    save_added,
    save_raw,
)
from dragoman.data.shards import DAMAGED, to_lists
from dragoman.data.text_changes import TextPair
from dragoman.data.word_links import attach_links, no_links
from dragoman.io.durable import UNFINISHED, DamageError, FileInfo, find_damage, hash_file, verify_files, write_durably
from dragoman.io.lock import locked
from dragoman.io.processes import in_processes
from dragoman.io.progress import Progress, ignore_progress
from dragoman.io.streams import STANDARD_INPUT
from dragoman.text.cleaning import CleanConfig, Problem
from dragoman.text.cleaning_report import EXAMPLES, CleaningReport, ProblemExample, excerpt
from dragoman.text.vocab import Vocab, VocabConfig, train_vocab

WORK: Final = ".workshop"
REPORT: Final = "report.json"
_MINED_PAIRS: Final = 200_000
"""The maximum number of pairs that phrases are mined from; more take minutes and add rare words."""
_HASHED_AT_ONCE: Final = 500_000_000
"""The number of bytes up to which hashing shows no progress: about a second."""
_VERIFIED_SHARDS: Final = 8
"""The number of shards whose SHA-256 is checked when a run starts from a complete folder."""

Do = Callable[[Callable[[int], Any], Sequence[int]], Iterator[Any]]
"""A function that maps another function over numbers, in processes or on a cluster; it yields the results in order."""

Settings = dict[str, Any]
"""The configuration as JSON, the size and modification time of the input files and, in a manifest, their SHA-256."""


class PrepareConfig(Config):
    """The configuration of a preparation: corpora, cleaning, vocabulary and shards."""

    corpora: tuple[CorpusConfig, ...] = Field(min_length=1, description="training corpora")
    held_out: tuple[CorpusConfig, ...] = Field((), description="development and test sets to remove from the corpora")
    clean: CleanConfig = Field(CleanConfig(), description="cleaning policies")
    vocabulary: VocabConfig | None = Field(None, description="vocabulary; default: joint, sized by the number of pairs")
    vocabulary_of: str | None = Field(None, description="relative path of a prepared folder whose vocabulary to use")
    sample: int = Field(1_000_000, ge=1, description="maximum number of pairs to train the vocabulary on")
    keep_text: bool = Field(False, description="store the sentences in the shards, for subword sampling")
    augment: AugmentConfig = Field(AugmentConfig(), description="pairs to add to the corpora without a tag")
    lines_per_chunk: int = Field(50_000, ge=1, description="number of lines per task of a worker process")
    pairs_per_shard: int = Field(500_000, ge=1, description="approximate number of pairs per shard")

    @property
    def languages(self) -> tuple[str, ...]:
        """The target languages of the corpora, if there are several; the vocabulary has a tag for each."""
        languages = tuple(dict.fromkeys(corpus.target_language for corpus in self.corpora if corpus.target_language))
        return languages if len(languages) > 1 else ()


class ChunkedCorpus(NamedTuple):
    """A corpus whose raw chunks are saved in a work folder."""

    corpus: CorpusConfig
    work: Path
    num_chunks: int
    num_lines: int
    num_added: int = 0
    """The number of chunks of added pairs, which follow those of the corpus."""


def prepare(
    config: PrepareConfig,
    folder: Path,
    num_workers: int = 1,
    progress: Progress = ignore_progress,
    run: Callable[..., Iterator[Any]] = in_processes,
    verify: bool = True,
) -> Prepared:
    """Prepare the corpora in a folder, or resume the preparation; verify and repair a complete folder.

    `run` maps a function over tasks: `in_processes` or `in_cluster`, which write the same bytes. Without `verify`, the
    SHA-256 of only a few shards of a complete folder is checked.
    """
    check_corpora([*config.corpora, *config.held_out])
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give a folder as --out")
    folder.mkdir(parents=True, exist_ok=True)
    busy = f"{folder} is being prepared by another process: wait until it ends, or give another --out"
    with locked(folder / ".lock", busy):
        settings = settings_of(config)
        finished = _open_finished(folder, settings, verify, progress)
        if finished is not None:
            return finished
        for left_over in (*folder.glob(f".*{UNFINISHED}"), *folder.glob(f"*{DAMAGED}")):
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
        hashes = self._hash(settings["files"])
        chunked = [self._read(corpus) for corpus in config.corpora]
        held_out = hold_out(config.held_out, config.clean) if config.held_out else None
        reports = {part.corpus.name: self._clean(part, held_out) for part in chunked}
        _save_reports(folder, reports)
        for part in chunked:
            if not reports[part.corpus.name].stayed:
                why = f"no pair is left after cleaning: see the problems in {folder / REPORT}"
                raise ValueError(f"{part.corpus.source}: {why}")
        vocab = self._vocabulary(chunked)
        chunked = self._augment(chunked, held_out)
        corpora = []
        for part in chunked:
            name, gathered = part.corpus.name, self._gather(part, vocab)
            reports[name] += _duplicates(part, gathered)
            shards = tuple(shard.info for shard in gathered)
            pairs, added = sum(shard.num_pairs for shard in shards), sum(shard.num_added for shard in gathered)
            described = {"name": name, "weight": part.corpus.weight, "target_language": part.corpus.target_language}
            corpora.append(PreparedCorpus(**described, num_pairs=pairs, num_added=added, shards=shards))
        _save_reports(folder, reports)
        read = sum(report.pairs for report in reports.values())
        stayed = sum(corpus.num_pairs - corpus.num_added for corpus in corpora)
        counts, vocabulary = {"read": read, "stayed": stayed}, vocab.save(folder)
        settings = {**settings, "hashes": hashes}
        Manifest(corpora=tuple(corpora), vocabulary=vocabulary, settings=settings, counts=counts).save(folder)

    def _hash(self, stamps: Mapping[str, Sequence[int]]) -> dict[str, str]:
        """Return the SHA-256 of each input file, by which a copy of it is known later."""
        files, hashes = list(stamps), list[str]()
        takes_seconds = sum(num_bytes for num_bytes, _ in stamps.values()) > _HASHED_AT_ONCE
        for sha256 in self.do(partial(_hash_input, files), range(len(files))):
            hashes.append(sha256)
            if takes_seconds:
                self.progress("hash the files", len(hashes), len(files), "files")
        return dict(zip(files, hashes, strict=True))

    def _read(self, corpus: CorpusConfig) -> ChunkedCorpus:
        """Save the chunks of a corpus in the work folder, or their byte ranges, unless they are already saved."""
        work = self.folder / WORK / corpus.name
        work.mkdir(exist_ok=True)
        done = work / "cut.json"
        if not done.exists():
            num_chunks = num_lines = 0
            if has_ranges(corpus):
                ranges = []
                for found in find_ranges(corpus.source, str(corpus.target), self.config.lines_per_chunk):
                    ranges.append(found)
                    num_chunks, num_lines = len(ranges), found.first_line + found.num_lines
                    self.progress(f"read {corpus.name}", num_lines, unit="lines")
                save_ranges(work, corpus, ranges)
            for chunk in () if num_chunks else attach_links(read_chunks(corpus, self.config.lines_per_chunk), corpus):
                save_raw(work, chunk)
                num_chunks, num_lines = chunk.index + 1, chunk.first_line + len(chunk)
                self.progress(f"read {corpus.name}", num_lines, unit="lines")
            write_durably(done, json.dumps([num_chunks, num_lines]).encode())
        return ChunkedCorpus(corpus, work, *json.loads(done.read_bytes()))

    def _clean(self, part: ChunkedCorpus, held_out: HeldOut | None) -> CleaningReport:
        # A chunk from the middle stands for the corpus better than its beginning.
        profile = profile_of(load_raw(part.work, part.num_chunks // 2), self.config.clean)
        clean = partial(clean_chunk, part.work, self.config.clean, profile, held_out, part.corpus)
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
            vocab = train_vocab(source, target, self.config.vocabulary or suggested, self.config.languages)
            saved = list(vocab.save(self.folder))
            write_durably(done, json.dumps([info.model_dump() for info in saved]).encode())
        return Vocab.load(self.folder)

    def _augment(self, chunked: Sequence[ChunkedCorpus], held_out: HeldOut | None) -> list[ChunkedCorpus]:
        """Add changed copies to each corpus, and mined phrases to the first of each target language.

        Tagged corpora stay as they are.
        """
        config, augmented = self.config.augment, list(chunked)
        real = [index for index, part in enumerate(chunked) if part.corpus.tag is None]
        for index in real if config.changes_pairs else ():
            part = chunked[index]
            add = partial(augment_chunk, part.work, config, part.corpus.name, part.num_chunks)
            for done, _ in enumerate(self.do(add, range(part.num_chunks)), 1):
                self.progress(f"augment {part.corpus.name}", done, part.num_chunks, "chunks")
            augmented[index] = part._replace(num_added=part.num_chunks)
        by_language: dict[str | None, list[int]] = {}
        for index in real if config.phrases else ():
            by_language.setdefault(chunked[index].corpus.target_language, []).append(index)
        for indices in by_language.values():
            part = augmented[indices[0]]
            chunk = part.num_chunks + part.num_added
            if not (part.work / f"{chunk:06}.clean.arrow").exists():
                phrases = self._mine([chunked[index] for index in indices], held_out)
                pairs: list[TextPair | AddedPair] = [*phrases]
                pairs += change_phrases(phrases, config, random_of(part.corpus.name, chunk))
                lines = pa.array(np.arange(part.num_lines, part.num_lines + len(pairs)))
                links = {"links": to_lists(no_links(len(pairs)))} if part.corpus.links else {}
                save_added(part.work, chunk, pa.record_batch({"line": lines, **links}), pairs)
            augmented[indices[0]] = part._replace(num_added=part.num_added + 1)
        return augmented

    def _mine(self, parts: Sequence[ChunkedCorpus], held_out: HeldOut | None) -> list[TextPair]:
        """Return the most frequent phrases of the corpora that are not a pair of the held-out sets."""
        source, target = (list(_sample(parts, side, _MINED_PAIRS, is_weighted=False)) for side in ("source", "target"))
        phrases = mine_phrases(source, target, self.progress)
        num_wanted = int(self.config.augment.phrases * sum(part.num_lines for part in parts))
        if held_out and phrases:
            sides = [pa.array(side, pa.large_string()) for side in zip(*phrases, strict=True)]
            is_held_out = held_out.find(*sides).pair >= 0
            phrases = [phrases[row] for row in np.flatnonzero(~is_held_out)]
        return phrases[:num_wanted]

    def _gather(self, part: ChunkedCorpus, vocab: Vocab) -> list[GatheredShard]:
        name, work, num_chunks = part.corpus.name, part.work, part.num_chunks
        num_shards = max(1, round(part.num_lines / self.config.pairs_per_shard))
        done = 0
        encode = partial(encode_chunk, work, vocab.to(part.corpus.target_language), num_shards, self.config.keep_text)
        for num_pairs in self.do(encode, range(num_chunks + part.num_added)):
            done += num_pairs
            self.progress(f"encode {name}", done, unit="pairs")
        keep_duplicates = self.config.clean.policy(Problem.DUPLICATE) == "keep"
        gather = partial(gather_shard, work, num_chunks, part.num_added, self.folder / name, keep_duplicates)
        gathered = []
        for shard in self.do(gather, range(num_shards)):
            gathered.append(shard)
            self.progress(f"write the shards of {name}", len(gathered), num_shards, "shards")
        return gathered


def suggested_size(num_pairs: int) -> int:
    """Return the default vocabulary size for a number of pairs, up to the paper's 37,000."""
    return min(37_000, int(50 * num_pairs**0.5), 260 + num_pairs // 2)


def _sample(chunked: Sequence[ChunkedCorpus], side: str, size: int, is_weighted: bool = True) -> Iterator[str]:
    """Yield up to `size` source or target sentences, sampled from all corpora.

    With `is_weighted`, the corpora are sampled in proportion to how often an epoch reads them: a large corpus of weight
    0.25 gives a quarter of its sentences. The same pairs are sampled for both sides and in every run.
    """
    weights = [part.corpus.weight if is_weighted else 1.0 for part in chunked]
    num_read = sum(weight * part.num_lines for weight, part in zip(weights, chunked, strict=True))
    scale = min(1 / max(weights), size / num_read)
    for weight, part in zip(weights, chunked, strict=True):
        share = weight * scale
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
        for name in (corpus.source, corpus.target, corpus.links):
            if name is not None and name != STANDARD_INPUT and Path(name).is_file():
                status = Path(name).stat()
                files[name] = [status.st_size, status.st_mtime_ns]
    described = config.model_dump(mode="json")
    for corpus in (*described["corpora"], *described["held_out"]):
        del corpus["source_language"]  # no part of a preparation
    for corpus in described["held_out"]:
        del corpus["target_language"]
    optional = [(described, "vocabulary_of")]
    optional += [(corpus, key) for corpus in described["corpora"] for key in ("tag", "target_language")]
    optional += [(corpus, "links") for corpus in (*described["corpora"], *described["held_out"])]
    for section, key in optional:
        if section[key] is None:  # left out, as in folders that were prepared before there was such a key
            del section[key]
    if config.augment == AugmentConfig():
        del described["augment"]
    return {"config": described, "files": files}


def _hash_input(files: Sequence[str], index: int) -> str:
    return hash_file(Path(files[index]))


def is_prepared_from(settings: Settings, now: Settings) -> bool:
    """Return True if a manifest's settings are those of now, with files of the same content.

    A file that was copied or downloaded again has another modification time; its SHA-256 decides.
    """
    files, hashes = settings.get("files", {}), settings.get("hashes", {})
    if settings.get("config") != now["config"] or files.keys() != now["files"].keys():
        return False
    touched = [name for name, stamp in now["files"].items() if stamp != files[name]]
    has_size = all(files[name][0] == now["files"][name][0] for name in touched)
    return has_size and all(hashes.get(name) == hash_file(Path(name)) for name in touched)


def _open_finished(folder: Path, settings: Settings, verify: bool, progress: Progress) -> Prepared | None:
    """Return the prepared folder, or None if it is incomplete or damaged.

    Raise ValueError if the folder was prepared with other settings.
    """
    if not (folder / MANIFEST).exists():
        return None
    manifest = Manifest.load(folder)
    if not is_prepared_from(manifest.settings, settings):
        wrong = f"{folder} was prepared from other files or with other settings"
        raise ValueError(f"{wrong}: give another --out, or remove the folder")
    try:
        prepared = Prepared.open(folder, verify, progress)
        if not verify:  # other shards at every start; training verifies the rest when it reads them
            verify_files(folder, random.sample(manifest.shards, min(_VERIFIED_SHARDS, len(manifest.shards))))
    except DamageError:
        (folder / MANIFEST).unlink()
        return None
    return prepared


def _open_work_folder(work: Path, settings: Settings) -> None:
    """Create the work folder; delete an existing work folder of a preparation with other settings."""
    content, marker = json.dumps(settings, sort_keys=True).encode(), work / "settings.json"
    if work.exists() and not (marker.exists() and marker.read_bytes() == content):
        shutil.rmtree(work)
    work.mkdir(exist_ok=True)
    if not marker.exists():
        write_durably(marker, content)
