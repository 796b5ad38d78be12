"""The recipe: the complete configuration of a training run, with consistency checks; does not import torch."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeVar, get_args

from pydantic import Discriminator, Field, Tag, model_validator

from dragoman.bundle.info import Store
from dragoman.config import Config
from dragoman.data.corpus import CorpusConfig, check_corpora
from dragoman.decoding.options import SearchOptions
from dragoman.evaluation.metric_options import VALIDATION_METRICS, MetricName, MetricOptions
from dragoman.io.streams import STANDARD_INPUT
from dragoman.models.config import ModelPart, ModelShape, TransformerShape
from dragoman.recipes.commented_yaml import dump_commented
from dragoman.recipes.expansion import LONGEST_PIECE, absolute_path, expand, parent_path
from dragoman.recipes.recipe_errors import (
    ConflictError,
    RecipeError,
    check_keys,
    list_words,
    nearest,
    validate_document,
)
from dragoman.recipes.yaml_document import Document, Key, apply_overrides, parse_yaml, read_yaml
from dragoman.text.cleaning import CleanConfig
from dragoman.text.vocab import VocabConfig
from dragoman.training.config import TrainingConfig

T = TypeVar("T")

_BYTES_AND_SPECIALS: Final = 256 + 4
"""Ids that every vocabulary has: 256 bytes and 4 special tokens."""

_STEEPEST: Final = 0.1
"""A learning rate at which Adam does not converge; typical rates are less than a tenth of this."""

_NOT_IN_PRESETS: Final = {"dropout", "attention_bias", "norm"}


Several = Annotated[
    Annotated[T, Tag("one")] | Annotated[tuple[T, ...], Tag("several")],
    Discriminator(lambda value: "several" if isinstance(value, list | tuple) else "one"),
]
"""One section, or a list of several."""


class DataSection(Config):
    """Training, validation and test data."""

    train: tuple[CorpusConfig, ...] = Field(min_length=1, description="corpora of sentence pairs to train on")
    dev: Several[CorpusConfig] | None = Field(
        None, description="validation pairs, or a list of several sets; by default, taken from the training pairs"
    )
    split: int = Field(1000, ge=1, description="number of training pairs to validate with if dev is not set")
    test: tuple[CorpusConfig, ...] = Field((), description="test sets to score at the end; not trained on")
    clean: CleanConfig = Field(CleanConfig(), description="cleaning of pairs with problems")
    vocabulary: VocabConfig | None = Field(
        None, description="subword vocabulary; by default joint, with a size chosen by the number of pairs"
    )
    sample: int = Field(1_000_000, ge=1, description="maximum number of pairs to learn the vocabulary from")
    obtain: str = Field("", description="how to get the data files; shown when a file is missing")

    @property
    def held_out(self) -> tuple[CorpusConfig, ...]:
        """The corpora that must not be trained on: the dev sets, if any, and the test sets."""
        return (*self.dev_sets, *self.test)

    @property
    def dev_sets(self) -> tuple[CorpusConfig, ...]:
        """The sets of validation pairs; empty if they are taken from the training pairs."""
        return self.dev if isinstance(self.dev, tuple) else (self.dev,) if self.dev else ()


class KeepSection(Config):
    """Old text that is mixed into the training pairs, so that the model does not forget what its parent knows."""

    source: str = Field(description="old source text, one sentence per line: path or fsspec URL; .gz and .zst allowed")
    target: str | None = Field(
        None, description="translations of the old text; null: the parent translates some of it before training"
    )
    share: float = Field(
        0.5, gt=0.0, lt=1.0, description="share of old pairs in an epoch; but an epoch reads an old pair at most twice"
    )
    held_out: int = Field(500, ge=1, description="maximum number of old pairs to measure forgetting with")


class InitSection(Config):
    """A trained model, the parent, to begin with: its weights, its vocabulary and the shape of its model."""

    bundle: str = Field(description="folder of a model or training run, or demo for the built-in model")
    sha256: str | None = Field(None, description="SHA-256 of the parent; another parent is refused; set by the run")
    freeze: tuple[ModelPart, ...] = Field((), description="parts that do not change: embeddings, encoder, decoder")
    parent_share: float = Field(
        0.0,
        ge=0.0,
        lt=1.0,
        description="share of the parent in the weights that are validated and kept, against forgetting",
    )
    keep: KeepSection | None = Field(None, description="old text against forgetting; null: none")


class ValidationSection(Config):
    """Translation and scoring of dev pairs during training, and of test pairs at the end."""

    search: SearchOptions = Field(SearchOptions(), description="beam search options")
    reading: MetricOptions = Field(MetricOptions(), description="tokenisation and lower-casing for BLEU and chrF")
    metrics: tuple[MetricName, ...] = Field((), description="metrics beside bleu and chrf, such as per, exact or f1")
    samples: int = Field(3, ge=0, description="number of translations to show at each validation")
    max_pairs: int | None = Field(None, ge=1, description="maximum number of dev pairs to validate with; null: all")
    probe: int = Field(8, ge=0, description="dev pairs whose attention is saved for dragoman evolve")

    @property
    def all_metrics(self) -> tuple[MetricName, ...]:
        """BLEU, chrF and the metrics that the recipe adds, each once."""
        return tuple(dict.fromkeys((*VALIDATION_METRICS, *self.metrics)))


class CorpusTerms(Config):
    """The terms of use of a corpus."""

    licence: str | None = Field(None, description="name of the licence, such as CC-BY 2.0")
    attribution: str | None = Field(None, description="authors and origin of the corpus")


class CardSection(Config):
    """Details for the model card that cannot be derived from files."""

    licence: str | None = Field(None, description="licence of the model")
    corpora: dict[str, CorpusTerms] = Field({}, description="licence and attribution of each training corpus, by name")


class Recipe(Config):
    """The complete configuration of a training run. The same recipe and files give the same model."""

    name: str = Field(min_length=1, description="name of the run and of the model")
    description: str = Field("", description="one or two sentences for the model card")
    source_language: str | None = Field(None, description="source language, such as en; a corpus may have another")
    target_language: str | None = Field(None, description="target language, such as de; a corpus may have another")
    protect: bool | None = Field(
        None,
        description="keep placeholders, addresses, code, emoji and digits in translations; null: if the languages"
        " are two different ISO 639-1 codes, such as en and de",
    )
    data: DataSection = Field(description="training, validation and test data")
    init: InitSection | None = Field(
        None, description="trained model to begin with; it sets the vocabulary, model and languages; null: none"
    )
    model: ModelShape = Field(TransformerShape(), description="model architecture, without the vocabulary size")
    training: TrainingConfig = Field(TrainingConfig(), description="training hyperparameters")
    validation: ValidationSection = Field(ValidationSection(), description="validation during training")
    store: Store = Field("float32", description="number format of the bundle's weights; float16 takes half the space")
    card: CardSection = Field(CardSection(), description="licences and attributions for the model card")
    seed: int = Field(1, ge=0, description="seed of all random numbers")

    @property
    def source_languages(self) -> tuple[str, ...]:
        """The source languages of the training corpora; empty if unknown."""
        named = (corpus.source_language or self.source_language for corpus in self.data.train)
        return tuple(dict.fromkeys(language for language in named if language))

    @property
    def target_languages(self) -> tuple[str, ...]:
        """The target languages of the training corpora; empty if unknown."""
        named = (corpus.target_language or self.target_language for corpus in self.data.train)
        return tuple(dict.fromkeys(language for language in named if language))

    @model_validator(mode="after")
    def _fits(self) -> "Recipe":
        if errors := list(_find_conflicts(self)):
            raise ConflictError(errors)
        return self


def _find_conflicts(recipe: Recipe) -> Iterator[RecipeError]:
    """Yield an error for each conflict between recipe keys."""
    yield from _check_corpora(recipe.data)
    yield from _check_languages(recipe)
    corpora = [corpus.name for corpus in recipe.data.train]
    for name in recipe.card.corpora:
        if name not in corpora:
            near = nearest(name, corpora)
            hint = f"did you mean {list_words(near)}?" if near else f"the names are {', '.join(corpora)}"
            yield RecipeError(("card", "corpora", name), f"no corpus of data.train has this name; {hint}")
    yield from _check_init(recipe)
    yield from _check_model(recipe)
    yield from _check_schedule(recipe.training)
    validation = recipe.validation
    if validation.max_pairs is not None and validation.samples > validation.max_pairs:
        message = f"{validation.samples} is more than max_pairs ({validation.max_pairs}): lower samples"
        yield RecipeError(("validation", "samples"), message)
    metric = recipe.training.stop.metric
    if metric not in ("loss", *validation.all_metrics):
        message = f"{metric} is not computed at validations: add it to validation.metrics"
        yield RecipeError(("training", "stop", "metric"), message)
    longest = validation.search.max_length
    if longest.ratio == 0.0 and validation.search.min_length > longest.tokens(1):
        message = f"{validation.search.min_length} is above max_length ({longest.tokens(1)}): lower min_length"
        yield RecipeError(("validation", "search", "min_length"), message)


def _check_corpora(data: DataSection) -> Iterator[RecipeError]:
    """Yield an error for each duplicate corpus name, and for each held-out file that is also trained on."""
    held_out = _held_out_keys(data)
    try:
        check_corpora([*data.train, *data.held_out])
    except ValueError as error:
        yield RecipeError(("data",), str(error))
    trained = {(corpus.source, corpus.fields[0]): f"data.train.{i}" for i, corpus in enumerate(data.train)}
    for key, corpus in held_out:
        if same := trained.get((corpus.source, corpus.fields[0])):
            yield RecipeError((*key, "source"), f"this file is also {same}: give a file with other pairs")
        if corpus.weight != 1.0:
            yield RecipeError((*key, "weight"), "only training corpora have a weight: remove weight")
        if corpus.source == STANDARD_INPUT:
            yield RecipeError((*key, "source"), "held-out pairs cannot come from standard input: give a file")


def _held_out_keys(data: DataSection) -> list[tuple[Key, CorpusConfig]]:
    """Return the dev and test sets with their keys."""
    is_list = isinstance(data.dev, tuple)
    keys: list[tuple[Key, CorpusConfig]] = [
        (("data", "dev", i) if is_list else ("data", "dev"), corpus) for i, corpus in enumerate(data.dev_sets)
    ]
    return keys + [(("data", "test", i), corpus) for i, corpus in enumerate(data.test)]


def _check_languages(recipe: Recipe) -> Iterator[RecipeError]:
    """Yield an error for each corpus without a target language where others have one, or with an unknown one."""
    train: list[tuple[Key, CorpusConfig]] = [
        (("data", "train", i), corpus) for i, corpus in enumerate(recipe.data.train)
    ]
    held_out = _held_out_keys(recipe.data)
    trained = [corpus.target_language for _, corpus in train if corpus.target_language]
    for key, corpus in (*train, *held_out):
        if trained and not corpus.target_language:
            message = "other corpora have a target language: add target_language"
            yield RecipeError(key, message)
    for key, corpus in held_out:
        known = trained or recipe.target_languages
        if corpus.target_language and corpus.target_language not in known and recipe.init is None:
            message = f"no corpus of data.train has the target language {corpus.target_language}: correct one of them"
            yield RecipeError((*key, "target_language"), message)


def _check_init(recipe: Recipe) -> Iterator[RecipeError]:
    """Yield an error for keys that do not fit a training that begins with a trained model."""
    init = recipe.init
    if init is None:
        return
    if recipe.data.vocabulary is not None:
        message = "init.bundle has a vocabulary, which its weights need: remove data.vocabulary, or init"
        yield RecipeError(("data", "vocabulary"), message)
    if set(init.freeze) == set(get_args(ModelPart)):
        yield RecipeError(("init", "freeze"), "nothing is left to train: leave out at least one part")
    if init.keep and len(recipe.target_languages) > 1:
        message = "the old text has one target language, and the corpora several: add it to data.train as a corpus"
        yield RecipeError(("init", "keep"), message)
    if init.keep and init.keep.source == STANDARD_INPUT:
        yield RecipeError(("init", "keep", "source"), "old text cannot come from standard input: give a file")


def _check_model(recipe: Recipe) -> Iterator[RecipeError]:
    """Yield an error for a vocabulary, length limit or loss that does not fit the model."""
    model, vocabulary = recipe.model, recipe.data.vocabulary
    if vocabulary and vocabulary.size <= _BYTES_AND_SPECIALS:
        message = f"{vocabulary.size} is too small: give more than {_BYTES_AND_SPECIALS}, the ids of bytes and specials"
        yield RecipeError(("data", "vocabulary", "size"), message)
    if vocabulary and model.tie == "all" and not vocabulary.joint:
        yield RecipeError(("model", "tie"), "all needs a joint vocabulary: use target, or data.vocabulary.joint: true")
    characters = recipe.data.clean.max_characters
    shortest = math.ceil(characters / LONGEST_PIECE)
    if model.position_limit is not None and shortest > model.position_limit:
        kept = f"data.clean.max_characters {characters}, which is {shortest} tokens or more"
        message = f"{model.position_limit} is too small for {kept}: raise max_positions or lower max_characters"
        yield RecipeError(("model", "max_positions"), message)
    yield from _check_guided_alignment(recipe)
    yield from _check_layers(recipe)
    if recipe.training.loss.r_drop > 0.0 and not any(model.dropouts):
        message = "R-Drop needs dropout, and the model has none: set model.dropout above 0, or r_drop to 0"
        yield RecipeError(("training", "loss", "r_drop"), message)


def _check_guided_alignment(recipe: Recipe) -> Iterator[RecipeError]:
    """Yield an error for a guided head that the model does not have."""
    model, guided = recipe.model, recipe.training.guided_alignment
    key: Key = ("training", "guided_alignment")
    if not guided.weight:
        return
    num_layers = len(model.cross_heads)
    if not num_layers:
        message = "this model has no attention to guide: set weight to 0, or model.context to bahdanau or luong"
        yield RecipeError((*key, "weight"), message)
        return
    if guided.layer is not None and not -num_layers <= guided.layer < num_layers:
        message = f"there is no layer {guided.layer}: choose 0 to {num_layers - 1}, or -1 for the last"
        yield RecipeError((*key, "layer"), message)
    if guided.head >= model.cross_heads[0]:
        message = f"there is no head {guided.head}: choose 0 to {model.cross_heads[0] - 1}"
        yield RecipeError((*key, "head"), message)


def _check_layers(recipe: Recipe) -> Iterator[RecipeError]:
    """Yield an error if the layers of this model cannot be compiled or recomputed."""
    training = recipe.training
    for name in ("compile", "recompute"):
        key: Key = ("training", name)
        if getattr(training, name) and not recipe.model.has_layers:
            yield RecipeError(key, f"{name} needs layers that are computed one by one: set {name} to false")
        elif getattr(training, name) and training.guided_alignment.weight:
            message = "a head that is trained to align is read while the layers run"
            yield RecipeError(key, f"{message}: set {name} to false, or guided_alignment.weight to 0")


def _check_schedule(training: TrainingConfig) -> Iterator[RecipeError]:
    """Yield an error for each schedule setting that has no effect or prevents learning."""
    key: Key = ("training", "schedule")
    schedule, stop, every = training.schedule, training.stop, training.snapshots.every
    falling = [factor for factor in schedule.factors if factor in ("cosine", "linear")]
    if "paper" in schedule.factors and schedule.rate < _STEEPEST:
        advice = "set rate to 1, or use factors: [warmup, inverse_sqrt], where rate is the peak"
        message = f"with the factor paper, {schedule.rate:g} gives a learning rate of almost 0"
        yield RecipeError((*key, "rate"), f"{message}: {advice}")
    if "paper" not in schedule.factors and schedule.rate >= _STEEPEST:
        message = f"{schedule.rate:g} is far too high for a peak learning rate: try 0.001"
        yield RecipeError((*key, "rate"), message)
    if {"paper", "warmup"} & set(schedule.factors) and schedule.warmup > stop.updates - bool(falling):
        left = f"a warm-up of {schedule.warmup} updates is too long for a run of {stop.updates}"
        message = f"{left}: lower warmup, or raise training.stop.updates"
        yield RecipeError((*key, "warmup"), message)
    if schedule.floor > 0.0 and not falling:
        yield RecipeError(
            (*key, "floor"), "floor needs the factor cosine or linear: add one of the two, or remove floor"
        )
    limit = stop.updates if isinstance(every, int) else stop.time
    if every is not None and limit is not None and every > limit:
        message = "training stops before the first snapshot: lower every, or set every to null"
        yield RecipeError(("training", "snapshots", "every"), message)


def load_recipe(path: Path, overrides: Sequence[str] = (), folder: Path | None = None) -> Recipe:
    """Return the recipe in a file, with overrides such as `training.stop.updates=500` applied.

    Paths in the recipe are relative to `folder`, by default the folder of the file. If the recipe has errors, raise one
    ValueError with a line for each error: location, key and what to do.
    """
    return _build(read_yaml(path), overrides, folder or path.parent, validate_document)


def check_overrides(recipe: Recipe, overrides: Sequence[str]) -> None:
    """Raise ValueError for overrides with unknown keys or invalid values; ignore conflicts with other keys."""
    _build(_as_document(recipe, overrides), overrides, Path(), check_keys)


def override_recipe(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """Return the recipe with overrides such as `training.stop.updates=500` applied."""
    return _build(_as_document(recipe, overrides), overrides, Path(), validate_document)


def _build(
    document: Document, overrides: Sequence[str], folder: Path, make: Callable[[type[Recipe], Document], T]
) -> T:
    """Apply the overrides, expand the document and call `make`; raise one ValueError with all errors."""
    document, errors = apply_overrides(document, overrides)
    try:
        result = make(Recipe, expand(document, folder))
    except ValueError as error:
        raise ValueError("\n".join([*errors, str(error)])) from error
    if errors:
        raise ValueError("\n".join(errors))
    return result


def _as_document(recipe: Recipe, overrides: Sequence[str]) -> Document:
    document = parse_yaml(dump_recipe(recipe), "the chosen recipe", numbered=False)
    if any(override.startswith("model.preset=") for override in overrides):
        # Written out, every size that was chosen would be a change of the preset.
        kept = {key: value for key, value in document.values["model"].items() if key in _NOT_IN_PRESETS}
        training = {key: value for key, value in document.values["training"].items() if key != "loss"}
        document = Document({**document.values, "model": kept, "training": training}, document.places)
    return document


def dump_recipe(recipe: Recipe) -> str:
    """Return the complete recipe as YAML with a comment for each key; `load_recipe` reads the same recipe back.

    Paths become absolute, so that the file can be written to any folder.
    """
    return dump_commented(with_absolute_paths(recipe))


def with_absolute_paths(recipe: Recipe) -> Recipe:
    """Return the recipe with absolute paths, so that it can be used in any folder."""
    data = recipe.data
    train, test = (tuple(map(_absolute_corpus, corpora)) for corpora in (data.train, data.test))
    recipe = recipe.model_copy(update={"init": recipe.init and _absolute_init(recipe.init)})
    dev = tuple(map(_absolute_corpus, data.dev_sets))
    return with_data(recipe, train=train, dev=dev if isinstance(data.dev, tuple) else next(iter(dev), None), test=test)


def with_data(recipe: Recipe, **data: object) -> Recipe:
    """Return the recipe with the given keys of the data section replaced."""
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=data)})


def _absolute_corpus(corpus: CorpusConfig) -> CorpusConfig:
    files = {"source": corpus.source, "target": corpus.target, "links": corpus.links}
    return corpus.model_copy(update={name: file and absolute_path(file, Path()) for name, file in files.items()})


def _absolute_init(init: InitSection) -> InitSection:
    keep = init.keep
    if keep:
        files = {"source": keep.source, "target": keep.target}
        keep = keep.model_copy(update={name: file and absolute_path(file, Path()) for name, file in files.items()})
    return init.model_copy(update={"bundle": parent_path(init.bundle, Path()), "keep": keep})
