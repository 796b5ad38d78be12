"""The model of a job: chosen once, with all its options resolved, and loaded by every worker as it was chosen."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import version

from dragoman.bundle import Bundle, open_bundle
from dragoman.bundle.info import ExportStore
from dragoman.decoding.bulk.rows import Columns
from dragoman.decoding.bulk.settings import Job, Settings
from dragoman.decoding.engines import Engine, open_engine
from dragoman.decoding.given import Compute, EngineName
from dragoman.decoding.model import Model
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.translated import Translated
from dragoman.decoding.translator import Translator
from dragoman.version import __version__

Details = Callable[[Iterable[str]], Iterator[Translated]]
"""A translation with its sentences for each text, in the same order, however many there are."""


def choose(
    bundle: Bundle,
    columns: Columns,
    beam: int | None = None,
    engine: EngineName = "auto",
    compute: Compute | None = None,
    split: bool = True,
    protect: bool = False,
    say: Callable[[str], None] | None = None,
) -> Settings:
    """What the shards will have in common. The model is loaded once to know: what is wrong with it is said now."""
    translator = Translator.of(bundle, 1, beam, engine, compute)
    if translator.reason and say:
        say(f"torch translates, which is slower: {translator.reason}")
    return Settings(
        model=bundle.model_sha256,
        dragoman=__version__,
        engine=translator.engine.name,
        engine_version=version(translator.engine.name),
        compute=compute or "float32",
        store=_store(translator.engine),
        search=translator.options.model_dump(mode="json"),
        split=split,
        protect=protect,
        column=columns.text,
        into=columns.into,
    )


def _store(engine: Engine) -> ExportStore | None:
    """How the export that is in use keeps its matrices."""
    if engine.name != "ctranslate2":
        return None
    from dragoman.decoding.ctranslate2_engine import CTranslate2Engine

    assert isinstance(engine, CTranslate2Engine)
    return engine.export.store


def load(job: Job) -> Details:
    """The same model, ready to translate."""
    bundle, settings = open_bundle(job.model), job.settings
    options = SearchOptions.model_validate(settings.search)
    name: EngineName = "torch" if settings.engine == "torch" else "ctranslate2"
    choice = open_engine(bundle, options, name, job.threads, settings.compute)
    if (bundle.model_sha256, _store(choice.engine)) != (settings.model, settings.store):
        raise ValueError(f"{job.model} has become another model since this was begun: give it an --out of its own")
    model = Model(Translator(choice.engine, bundle.vocab, options), bundle.info.source_language)
    return partial(model.details, split=settings.split, protect=settings.protect)
