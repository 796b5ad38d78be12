"""A recipe: one run described, from its text files to the scores at its end. No torch here."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pydantic import Field, model_validator

from dragoman.bundle.info import Store
from dragoman.config import Config
from dragoman.data.corpus import CorpusConfig
from dragoman.data.problem import CleanConfig
from dragoman.data.vocab_training import VocabConfig
from dragoman.decoding.options import SearchOptions
from dragoman.evaluation.reading import Reading
from dragoman.experiment import conflicts
from dragoman.experiment.commented import commented
from dragoman.experiment.expansion import anchored, expand
from dragoman.experiment.mistakes import check_keys, validated
from dragoman.experiment.override import overridden_by_all
from dragoman.experiment.yaml_lines import Document, parse_yaml, read_yaml
from dragoman.models.config import ModelShape, TransformerShape
from dragoman.training.config import TrainingConfig

Made = TypeVar("Made")

_NOT_OF_A_PRESET: Final = {"dropout", "attention_bias", "norm"}


class DataSection(Config):
    """What is learned from, and what it is judged by."""

    train: tuple[CorpusConfig, ...] = Field(min_length=1, description="the sentence pairs to learn from")
    dev: CorpusConfig | None = Field(
        None, description="the pairs of each validation, kept out of training; else split off the training pairs"
    )
    split: int = Field(1000, ge=1, description="how many pairs are split off where there is no dev")
    test: tuple[CorpusConfig, ...] = Field(
        (), description="kept out of training too, and translated once, when it is over"
    )
    clean: CleanConfig = Field(CleanConfig(), description="what is done about pairs with something wrong")
    vocabulary: VocabConfig | None = Field(
        None, description="how subwords are learned; else jointly, with a size that follows the number of pairs"
    )
    sample: int = Field(1_000_000, ge=1, description="pairs that the vocabulary is learned from")


class ValidationSection(Config):
    """How the model is tried out on the dev pairs while it learns, and on the test pairs in the end."""

    search: SearchOptions = Field(SearchOptions(), description="how translations are searched for")
    reading: Reading = Field(Reading(), description="how text is read by BLEU and chrF: tokenised, lower-cased")
    samples: int = Field(3, ge=0, description="translations shown each time")
    max_pairs: int | None = Field(None, ge=1, description="translate no more than so many dev pairs; else all of them")
    probe: int = Field(
        8, ge=0, description="dev pairs whose attention is kept each time, for dragoman evolve; 0 keeps none"
    )


class CorpusTerms(Config):
    """On which terms a corpus was given."""

    licence: str | None = Field(None, description="the licence's name, such as CC-BY 2.0")
    attribution: str | None = Field(None, description="who made it, and where it is from")


class CardSection(Config):
    """What the model's card says that no file can know."""

    licence: str | None = Field(None, description="under which the model itself is given away")
    corpora: dict[str, CorpusTerms] = Field({}, description="the terms of each training corpus, by its name")


class Recipe(Config):
    """One run described: with the same files and the same recipe, another run gives the same model."""

    name: str = Field(min_length=1, description="what the run and its model are called")
    description: str = Field("", description="a sentence or two for whoever finds it")
    source_language: str | None = Field(None, description="what is translated from, such as en")
    target_language: str | None = Field(None, description="what is translated to, such as de")
    data: DataSection = Field(description="what is learned from, and what it is judged by")
    model: ModelShape = Field(TransformerShape(), description="the model, but for the size of its vocabulary")
    training: TrainingConfig = Field(TrainingConfig(), description="how the model is trained")
    validation: ValidationSection = Field(ValidationSection(), description="how it is tried out meanwhile")
    store: Store = Field("float32", description="how the bundle's weights are written; float16 takes half the space")
    card: CardSection = Field(CardSection(), description="what the model's card says of licences and origins")
    seed: int = Field(1, ge=0, description="what everything random is drawn from")

    @model_validator(mode="after")
    def _fits(self) -> "Recipe":
        data = self.data
        conflicts.refuse(
            *conflicts.of_corpora(data.train, data.dev, data.test),
            *conflicts.of_card([corpus.name for corpus in data.train], self.card.corpora),
            *conflicts.of_vocabulary(data.vocabulary, self.model),
            *conflicts.of_lengths(data.clean, self.model, self.validation.search),
            *conflicts.of_training(self.training, self.model),
            *conflicts.of_samples(self.validation.samples, self.validation.max_pairs),
        )
        return self


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in this file, with keys set as in `training.stop.updates=500`.

    Everything that is wrong with it is said at once: one line each, with the place, the key and the mend.
    """
    return recipe_of(read_yaml(path), overrides, path.parent)


def recipe_of(document: Document, overrides: Sequence[str], folder: Path) -> Recipe:
    """The recipe that a document becomes with these keys set. Paths in it are relative to `folder`."""
    return _made(document, overrides, folder, validated)


def check_overrides(recipe: Recipe, overrides: Sequence[str]) -> None:
    """Raise what is wrong with keys to be set in a recipe like this one, whose own values are not decided yet."""
    _made(_written_out(recipe, overrides), overrides, Path(), check_keys)


def changed(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """The recipe with keys set as in `training.stop.updates=500`."""
    return recipe_of(_written_out(recipe, overrides), overrides, Path())


def _made(
    document: Document, overrides: Sequence[str], folder: Path, make: Callable[[type[Recipe], Document], Made]
) -> Made:
    """What is made of the document; if that fails, all that is wrong with it and with the overrides is said at once."""
    document, refused = overridden_by_all(document, overrides)
    try:
        made = make(Recipe, expand(document, folder))
    except ValueError as error:
        raise ValueError("\n".join([*refused, str(error)])) from error
    if refused:
        raise ValueError("\n".join(refused))
    return made


def _written_out(recipe: Recipe, overrides: Sequence[str]) -> Document:
    document = parse_yaml(dump_recipe(recipe), "the chosen recipe", numbered=False)
    if any(override.startswith("model.preset=") for override in overrides):
        # Written out, every size that was chosen would be a change of the preset.
        kept = {key: value for key, value in document.values["model"].items() if key in _NOT_OF_A_PRESET}
        document = Document({**document.values, "model": kept}, document.places)
    return document


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML, whole, with what each key means; `load_recipe` reads the same recipe from it.

    Paths become absolute: the file may lie elsewhere than where they were relative to.
    """
    return commented(with_whole_paths(recipe))


def with_whole_paths(recipe: Recipe) -> Recipe:
    """The recipe with absolute paths: it means the same from any folder."""
    data = recipe.data
    held_out = {"dev": data.dev and _anchored(data.dev), "test": tuple(map(_anchored, data.test))}
    return with_data(recipe, train=tuple(map(_anchored, data.train)), **held_out)


def with_data(recipe: Recipe, **data: object) -> Recipe:
    """The recipe with other corpora, by the keys of its data section."""
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=data)})


def _anchored(corpus: CorpusConfig) -> CorpusConfig:
    target = corpus.target and anchored(corpus.target, Path())
    return corpus.model_copy(update={"source": anchored(corpus.source, Path()), "target": target})
