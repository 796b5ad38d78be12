"""A worker that translates shards one after another, and writes each translation with a manifest."""

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from dragoman.alignment.engine_links import find_engine_links
from dragoman.bulk.folder import count_deaths
from dragoman.bulk.shard_manifest import BulkSettings, ShardManifest, check_shard
from dragoman.bulk.staging import copy_locally, marked_attempt, write_output
from dragoman.bundle import Bundle, open_bundle
from dragoman.bundle.info import ExportStore
from dragoman.decoding.engine import Engine
from dragoman.decoding.options import EngineName, EngineOptions, SearchOptions
from dragoman.device import AUTO
from dragoman.io.durable import FileInfo, Sink, hash_file
from dragoman.io.remote_path import AnyPath
from dragoman.translation.file_formats import (
    FieldNames,
    RowCounts,
    Translate,
    format_by_name,
    open_packed,
    read_lines,
    translate_lines,
)
from dragoman.translation.glossary import Glossary, count_unused
from dragoman.translation.pipeline import Pipeline
from dragoman.translation.translate_request import TranslateRequest
from dragoman.translation.translator import Translator
from dragoman.version import __version__

ATTEMPTS: Final = 3
"""The number of attempts per shard. A shard that kills three workers would kill a fourth."""


@dataclass(frozen=True)
class BulkJob:
    """The model, output folder and settings with which a worker translates shards."""

    model: Path
    """The folder of the bundle."""
    out: AnyPath
    settings: BulkSettings
    threads: int
    glossary: Glossary | None = None
    device: str = AUTO


class ShardOutcome(NamedTuple):
    """The result of translating a shard: the number of rows and sentences, or an error."""

    shard: AnyPath
    rows: int = 0
    sentences: int = 0
    wrong: str | None = None
    """The error, or None if the shard was translated."""
    is_lost: bool = False
    """True if the shard killed its workers or raised an unexpected error, which no change of its rows may fix."""
    untranslated: int = 0
    """The number of sentences with text that was kept instead of translated."""
    unused_terms: int = 0
    """The number of glossary terms that the translations do not use."""


def choose_settings(
    bundle: Bundle, request: TranslateRequest, warn: Callable[[str], None], glossary: Glossary | None = None
) -> BulkSettings:
    """Return the settings for all shards. Load the model once, so that errors occur before workers start."""
    options = EngineOptions(request.engine, 1, request.compute, request.beam, request.device)
    translator = Translator.load(bundle, options, request.sampling)
    opened = translator.opened
    if opened and opened.reason:
        warn(f"using torch, which is slower than CTranslate2: {opened.reason}")
    if opened and opened.warning:
        warn(opened.warning)
    return BulkSettings(
        model=bundle.model_sha256,
        dragoman=__version__,
        engine=translator.engine.name,
        engine_version=version(translator.engine.name),
        compute=request.compute or "float32",
        store=_store_of(translator.engine),
        search=translator.options.model_dump(mode="json"),
        sampling=request.sampling,
        split=request.split,
        protect=translator.protects if request.protect is None else request.protect,
        column=request.fields.text,
        into=request.fields.into,
        glossary=glossary and glossary.sha256,
        to=bundle.language if bundle.info.target_languages else None,
    )


def _store_of(engine: Engine) -> ExportStore | None:
    """Return the weight type of the export that the engine uses, or None for torch."""
    store: ExportStore | None = getattr(getattr(engine, "export", None), "store", None)
    return store


class ShardWorker:
    """Translates shards one after another, and loads the engine with the first shard."""

    def __init__(self, job: BulkJob, on_rows: Callable[[int], None] | None = None) -> None:
        self.job = job
        self.on_rows = on_rows
        self.pipeline: Pipeline | None = None
        self.num_sentences = self.num_untranslated = self.num_unused_terms = 0

    def __call__(self, shard: AnyPath) -> ShardOutcome:
        """Translate a shard. Return an error as an outcome, so that the worker can translate other shards."""
        if count_deaths(self.job.out, shard) >= ATTEMPTS:  # Ray does not count, and would go on for ever
            return ShardOutcome(shard, wrong=f"{shard} killed {ATTEMPTS} workers", is_lost=True)
        try:
            # A worker that died may have died after it finished the shard.
            manifest = check_shard(shard, self.job.out).manifest
            if manifest is None:
                with marked_attempt(self.job.out / shard.name), copy_locally(shard) as source:
                    manifest = self._translate(source)
        except ValueError as error:
            return ShardOutcome(shard, wrong=str(error))
        except OSError as error:
            return ShardOutcome(shard, wrong=f"{shard}: {error}")
        except Exception as error:  # the engine's, or a bug: another attempt would not help
            traceback.print_exc()
            return ShardOutcome(shard, wrong=f"{shard}: {type(error).__name__}: {error}", is_lost=True)
        return ShardOutcome(
            shard,
            manifest.rows,
            manifest.sentences,
            untranslated=manifest.untranslated,
            unused_terms=manifest.unused_terms,
        )

    def _translate(self, shard: Path) -> ShardManifest:
        job, before, counts = self.job, _stamp(shard), RowCounts(0, 0)
        self.num_sentences = self.num_untranslated = self.num_unused_terms = 0

        def write(sink: Sink) -> None:
            nonlocal counts
            counts = translate_file(shard, sink, FieldNames(job.settings.column, job.settings.into), self._run)
            if _stamp(shard) != before:
                raise ValueError(f"{shard} changed during translation: run the same command again")

        source = FileInfo(file=shard.name, sha256=hash_file(shard), num_bytes=before[0])
        output = write_output(job.out / shard.name, write)
        manifest = ShardManifest(
            input=source,
            output=output,
            rows=counts.rows,
            nulls=counts.nulls,
            sentences=self.num_sentences,
            untranslated=self.num_untranslated,
            unused_terms=self.num_unused_terms,
            settings=job.settings,
        )
        manifest.save(job.out)
        return manifest

    def _run(self, inputs: Iterable[tuple[Any, str | None]]) -> Iterator[tuple[Any, str | None]]:
        if self.pipeline is None:
            self.pipeline = replace(load_pipeline(self.job), progress=self._report_rows)
        for key, translation in self.pipeline.run(inputs):
            sentences = translation.sentences if translation else ()
            self.num_sentences += len(sentences)
            self.num_untranslated += sum(sentence.kept is not None for sentence in sentences)
            self.num_unused_terms += count_unused(translation.terms) if translation else 0
            yield key, translation and translation.text

    def _report_rows(self, what: str, done: int, total: int | None = None, unit: str = "") -> None:  # noqa: ARG002
        if self.on_rows:
            self.on_rows(done)


def load_pipeline(job: BulkJob) -> Pipeline:
    """Load a job's model with the job's settings; raise ValueError if the model has changed since the start."""
    settings = job.settings
    bundle = open_bundle(job.model).to(settings.to)
    engine: EngineName = "torch" if settings.engine == "torch" else "ctranslate2"
    options = EngineOptions(engine, job.threads, settings.compute, device=job.device)
    loaded = Translator.load(bundle, options, settings.sampling)
    if (bundle.model_sha256, _store_of(loaded.engine)) != (settings.model, settings.store):
        raise ValueError(f"{job.model} has changed since this run began: give another --out")
    translator = replace(loaded, options=SearchOptions.model_validate(settings.search))
    links_of = find_engine_links(bundle, translator.engine) if job.glossary else None
    return Pipeline(translator, settings.split, settings.protect, glossary=job.glossary, links_of=links_of)


def translate_file(path: Path, sink: Sink, fields: FieldNames, translate: Translate) -> RowCounts:
    """Write the translation of a file in the same format and with the same compression."""
    kind = format_by_name(path) or "text"
    if kind == "parquet":
        from dragoman.translation.parquet_files import translate_parquet

        return translate_parquet(path, sink, fields, translate)
    with open_packed(path, sink) as write:
        return translate_lines(read_lines(path), kind, write, fields, translate)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
