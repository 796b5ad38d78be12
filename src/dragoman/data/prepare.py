"""Corpora in, a prepared folder out: cut, clean, learn a vocabulary, encode, gather into shards.

Each step is done chunk by chunk or shard by shard by the pure functions of stages.py, in as many processes as wanted,
and leaves whole files in a workshop inside the folder. A run that is killed is simply run again: it does what is
missing, and the folder ends with the same bytes. The manifest comes last; a folder that has one is finished.
"""

import fcntl
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from pydantic import Field

from dragoman.config import Config
from dragoman.data.clean import profile_of
from dragoman.data.corpus import CorpusConfig, check_corpora, read_chunks
from dragoman.data.durable import UNFINISHED, FileInfo, damage, write_durably
from dragoman.data.leak import HeldOut, hold_out
from dragoman.data.manifest import MANIFEST, Manifest, Prepared, PreparedCorpus
from dragoman.data.problem import CleanConfig, Problem
from dragoman.data.progress import Progress
from dragoman.data.report import EXAMPLES, Report
from dragoman.data.stages import (
    CleanTask,
    EncodeTask,
    Gathered,
    ShardTask,
    Workshop,
    clean_chunk,
    encode_chunk,
    find_lines,
    gather_shard,
    load,
    load_raw,
    save_raw,
)
from dragoman.data.stream import STANDARD_INPUT
from dragoman.data.vocab import Vocab
from dragoman.data.vocab_training import VocabConfig, train_vocab
from dragoman.data.workers import in_processes

WORKSHOP: Final = ".workshop"
REPORT: Final = "report.json"

Do = Callable[[Callable[..., Any], Sequence[Any]], Iterator[Any]]
"""Does a function to each of some tasks, somewhere, and gives the results in order."""

Settings = dict[str, Any]
"""The configuration as JSON, and what the files looked like."""


class PrepareConfig(Config):
    """How corpora become batches' raw material."""

    corpora: tuple[CorpusConfig, ...] = Field(min_length=1, description="what to train on")
    held_out: tuple[CorpusConfig, ...] = Field((), description="development and test sets, to be kept out of it")
    clean: CleanConfig = Field(CleanConfig(), description="what is done about each problem")
    vocabulary: VocabConfig | None = Field(
        None, description="how subwords are learned; else jointly, with a size that follows the number of pairs"
    )
    vocabulary_of: str | None = Field(
        None, description="a prepared folder, seen from this one, whose vocabulary is taken; none is learned"
    )
    sample: int = Field(1_000_000, ge=1, description="pairs that the vocabulary is learned from")
    keep_text: bool = Field(False, description="keep the sentences beside their ids: subword sampling needs them")
    lines_per_chunk: int = Field(50_000, ge=1, description="lines that one process works on at a time")
    pairs_per_shard: int = Field(500_000, ge=1, description="pairs of a shard, about")


class Cut(NamedTuple):
    """A corpus that lies in the workshop in chunks."""

    corpus: CorpusConfig
    shop: Workshop
    num_chunks: int
    num_lines: int


def prepare(
    config: PrepareConfig,
    folder: Path,
    num_workers: int = 1,
    progress: Progress | None = None,
    run: Callable[..., Iterator[Any]] = in_processes,
) -> Prepared:
    """Does what is missing, and gives the finished folder. A finished one is verified and mended.

    `run` is workers.in_processes or cluster.in_cluster: where the work is done changes nothing about the bytes.
    """
    check_corpora([*config.corpora, *config.held_out])
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give --out a folder")
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        settings = settings_of(config)
        finished = _finished(folder, settings)
        if finished is not None:
            return finished
        for left_over in folder.glob(f".*{UNFINISHED}"):
            left_over.unlink()
        work = _workshop(folder, settings)
        do = partial(run, num_workers=num_workers)
        _run(config, folder, work, settings, do, progress or (lambda *_: None))
        shutil.rmtree(work)
        return Prepared.open(folder, verify=False)


def _run(
    config: PrepareConfig,
    folder: Path,
    work: Path,
    settings: Settings,
    do: Do,
    progress: Progress,
) -> None:
    cuts = [_cut(corpus, work, config.lines_per_chunk, progress) for corpus in config.corpora]
    held_out = hold_out(config.held_out, config.clean) if config.held_out else None
    reports = [_clean(cut, config.clean, held_out, do, progress) for cut in cuts]
    _save_reports(folder, cuts, reports)
    for cut, report in zip(cuts, reports, strict=True):
        if not report.stayed:
            raise ValueError(f"{cut.corpus.source}: no pair is left after cleaning; {folder / REPORT} says why")
    vocab = _vocabulary(folder, cuts, config, progress)
    corpora = []
    for number, cut in enumerate(cuts):
        gathered = _gather(cut, vocab, config, folder, do, progress)
        reports[number] += _duplicates(cut, gathered)
        shards = tuple(shard.info for shard in gathered)
        pairs = sum(shard.num_pairs for shard in shards)
        corpora.append(PreparedCorpus(name=cut.corpus.name, weight=cut.corpus.weight, num_pairs=pairs, shards=shards))
    _save_reports(folder, cuts, reports)
    counts = {"read": sum(report.pairs for report in reports), "stayed": sum(corpus.num_pairs for corpus in corpora)}
    manifest = Manifest(corpora=tuple(corpora), vocabulary=vocab.save(folder), settings=settings, counts=counts)
    manifest.save(folder)


def _cut(corpus: CorpusConfig, work: Path, lines_per_chunk: int, progress: Progress) -> Cut:
    """Reads the corpus once. That both sides have as many lines is known only at its end."""
    shop = Workshop(work / corpus.name)
    shop.folder.mkdir(exist_ok=True)
    done = shop.folder / "cut.json"
    if not done.exists():
        num_chunks = num_lines = 0
        for chunk in read_chunks(corpus, lines_per_chunk):
            save_raw(shop, chunk)
            num_chunks, num_lines = chunk.index + 1, chunk.first_line + len(chunk)
            progress(f"read {corpus.name}", num_lines, None)
        content = json.dumps([num_chunks, num_lines]).encode()
        write_durably(done, lambda sink: sink.write(content))
    return Cut(corpus, shop, *json.loads(done.read_bytes()))


def _clean(cut: Cut, settings: CleanConfig, held_out: HeldOut | None, do: Do, progress: Progress) -> Report:
    # A chunk from the middle stands for the corpus better than its beginning.
    profile = profile_of(load_raw(cut.shop, cut.num_chunks // 2), settings)
    tag = cut.corpus.tag
    tasks = [CleanTask(cut.shop, chunk, settings, profile, held_out, tag) for chunk in range(cut.num_chunks)]
    report = Report()
    for part in do(clean_chunk, tasks):
        report += part
        progress(f"clean {cut.corpus.name}", report.pairs, cut.num_lines)
    return report


def _vocabulary(folder: Path, cuts: Sequence[Cut], config: PrepareConfig, progress: Progress) -> Vocab:
    if config.vocabulary_of is not None:
        return Vocab.load(folder / config.vocabulary_of)
    done = folder / WORKSHOP / "vocabulary.json"
    saved = [FileInfo.model_validate(info) for info in json.loads(done.read_bytes())] if done.exists() else []
    if not saved or any(damage(folder, info) for info in saved):
        progress("learn the vocabulary", 0, None)
        source, target = (_sample(cuts, side, config.sample) for side in ("source", "target"))
        vocabulary = config.vocabulary or VocabConfig(size=suggested_size(sum(cut.num_lines for cut in cuts)))
        saved = list(train_vocab(source, target, vocabulary).save(folder))
        content = json.dumps([info.model_dump() for info in saved]).encode()
        write_durably(done, lambda sink: sink.write(content))
    return Vocab.load(folder)


def suggested_size(num_pairs: int) -> int:
    """How many ids suit so many pairs: the paper's 37,000 for millions, fewer for less, so that each is seen often."""
    return min(37_000, int(50 * num_pairs**0.5), 260 + num_pairs // 2)


def _sample(cuts: Sequence[Cut], side: str, size: int) -> Iterator[str]:
    """About `size` sentences from all over the corpora: the same on both sides and in every run."""
    share = min(1.0, size / sum(cut.num_lines for cut in cuts))
    for cut in cuts:
        for chunk in range(cut.num_chunks):
            batch = load(cut.shop.cleaned(chunk))
            lines = batch.column("line").to_numpy().astype(np.uint64)
            # Multiplying by an odd number near 2^64 / golden ratio spreads neighbours evenly over all numbers.
            lots = (lines * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
            for row in np.flatnonzero(lots < share * 2**32).tolist():
                yield batch.column(side)[row].as_py()


def _gather(cut: Cut, vocab: Vocab, config: PrepareConfig, folder: Path, do: Do, progress: Progress) -> list[Gathered]:
    num_shards = max(1, round(cut.num_lines / config.pairs_per_shard))
    encode = [EncodeTask(cut.shop, i, vocab, num_shards, config.keep_text) for i in range(cut.num_chunks)]
    done = 0
    for num_pairs in do(encode_chunk, encode):
        done += num_pairs
        progress(f"encode {cut.corpus.name}", done, None)
    keep_duplicates = config.clean.policy(Problem.DUPLICATE) == "keep"
    paths = [folder / f"{cut.corpus.name}-{shard:05}.arrow" for shard in range(num_shards)]
    gather = [ShardTask(cut.shop, cut.num_chunks, i, path, keep_duplicates) for i, path in enumerate(paths)]
    gathered = []
    for shard in do(gather_shard, gather):
        gathered.append(shard)
        progress(f"write the shards of {cut.corpus.name}", len(gathered), num_shards)
    return gathered


def _duplicates(cut: Cut, gathered: Sequence[Gathered]) -> Report:
    """What the shards found, as a part of the cleaning's report."""
    total = sum(shard.duplicates for shard in gathered)
    if not total:
        return Report()
    lines = sorted(line for shard in gathered for line in shard.first_duplicates)[:EXAMPLES]
    return Report(
        dropped=total,
        counts={Problem.DUPLICATE: {"drop": total}},
        examples={Problem.DUPLICATE: tuple(find_lines(cut.shop, cut.num_chunks, lines))},
    )


def _save_reports(folder: Path, cuts: Sequence[Cut], reports: Sequence[Report]) -> None:
    named = {cut.corpus.name: report.model_dump(mode="json") for cut, report in zip(cuts, reports, strict=True)}
    content = json.dumps(named, indent=1, ensure_ascii=False).encode()
    write_durably(folder / REPORT, lambda sink: sink.write(content))


def load_reports(folder: Path) -> dict[str, Report]:
    """The cleaning's report on each corpus of a prepared folder."""
    return {name: Report.model_validate(body) for name, body in json.loads((folder / REPORT).read_bytes()).items()}


def settings_of(config: PrepareConfig) -> Settings:
    """The configuration, and what the files looked like: another size or date is another file."""
    files: dict[str, list[int]] = {}
    for corpus in (*config.corpora, *config.held_out):
        for name in (corpus.source, corpus.target):
            if name is not None and name != STANDARD_INPUT and Path(name).is_file():
                status = Path(name).stat()
                files[name] = [status.st_size, status.st_mtime_ns]
    described = config.model_dump(mode="json")
    for part, key in ((described, "vocabulary_of"), *((corpus, "tag") for corpus in described["corpora"])):
        if part[key] is None:  # left out, as in folders that were prepared before there was such a key
            del part[key]
    return {"config": described, "files": files}


def _finished(folder: Path, settings: Settings) -> Prepared | None:
    """The folder, if it is finished and whole. One that was prepared otherwise is not touched."""
    if not (folder / MANIFEST).exists():
        return None
    manifest = Manifest.load(folder)
    if manifest.settings != settings:
        raise ValueError(
            f"{folder} was prepared from other files or with other settings; give another --out, or remove it first"
        )
    if any(damage(folder, info) for info in manifest.files):
        (folder / MANIFEST).unlink()
        return None
    return Prepared(folder, manifest)


def _workshop(folder: Path, settings: Settings) -> Path:
    """Where the work goes on; what an unfinished run with other settings left is thrown away."""
    work = folder / WORKSHOP
    content = json.dumps(settings, sort_keys=True).encode()
    begun = work / "settings.json"
    if work.exists() and not (begun.exists() and begun.read_bytes() == content):
        shutil.rmtree(work)
    work.mkdir(exist_ok=True)
    if not begun.exists():
        write_durably(begun, lambda sink: sink.write(content))
    return work


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two that prepare the same folder would only be in each other's way."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{folder} is being prepared by another process: wait for it, or give another --out"
            ) from None
        yield
