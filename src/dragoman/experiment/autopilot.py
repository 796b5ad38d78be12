"""The autopilot: choose a recipe for text files and a time limit, with a reason for each choice."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple

from dragoman.data.augment import AugmentConfig
from dragoman.data.corpus import CorpusConfig, find_languages
from dragoman.data.order import BatchConfig
from dragoman.data.prepare import suggested_size
from dragoman.experiment.census import Census, take_census
from dragoman.experiment.findings import NARROW_DOMAIN_PAIRS, TOO_FEW_PAIRS
from dragoman.experiment.machine import Machine, tokens_per_second, tokens_per_update
from dragoman.io.progress import Progress, ignore_progress
from dragoman.io.streams import STANDARD_INPUT, uncompressed_suffix
from dragoman.models import cost
from dragoman.models.config import ModelConfig, TransformerShape, with_vocabulary
from dragoman.models.presets import find_preset
from dragoman.recipes.recipe import DataSection, Recipe, ValidationSection, check_overrides
from dragoman.text.vocab import VocabConfig
from dragoman.training.config import OptimizerConfig, ScheduleConfig, StopConfig, TrainingConfig, format_duration

MIN_PAIRS: Final = 20
"""The minimum number of pairs, for training and validation together."""

WHOLE_LANGUAGE_PAIRS: Final = 100_000
"""The number of pairs usually needed for a narrow domain, and for a language in general."""

MIN_EPOCHS: Final = 5

_MAX_PROCESSES: Final = 16
_MIN_BATCH_TOKENS: Final = 2048
"""The minimum tokens per batch, if time allows: with less, a process spends more of its time on overhead."""

_MIN_UPDATES: Final = 1000
"""The number of updates that must fit into the training time, with smaller updates if necessary."""

_MIN_UPDATE_TOKENS: Final = 1024

_MANY_EPOCHS: Final = 40
"""The number of epochs from which high dropout and subword sampling prevent overfitting."""

_UPDATES_PER_EPOCH: Final = 50
"""The minimum number of updates per epoch on very little text."""

_UPDATES_FOR_BLEU: Final = 1000
_VALIDATIONS: Final = 10
_VALIDATION_SECONDS: Final = 20.0
"""The minimum time between validations, unless that leaves fewer than three."""

_VALIDATION_SHARE: Final = 0.04
_SECONDS_PER_PAIR: Final = 0.02
"""The time in which one core translates a sentence with the tiny model."""

_AUGMENT: Final = AugmentConfig(title_case=0.02, typing_errors=0.05, copied=0.02, phrases=0.05)
"""What people type besides clean sentences. Capitals are translated by their usual letter case."""

_NOT_LANGUAGES: Final = {"txt", "src", "tgt", "trg", "ref", "hyp", "tok", "raw", "bpe", "csv", "tsv", "out", "lst"}


class PlanChoice(NamedTuple):
    """A choice of the autopilot: the setting, its value and the reason."""

    what: str
    value: str
    reason: str


class Plan(NamedTuple):
    """A recipe to run, the choices of the autopilot, and warnings about the expected quality."""

    recipe: Recipe
    choices: tuple[PlanChoice, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelSize:
    """A model size, with the best training hyperparameters for this size."""

    preset: str
    rate: float
    """The best learning rate."""
    warmup: int
    tokens: int
    """Tokens per update."""
    vocabulary: int
    """The maximum vocabulary size: embeddings of more subwords would dominate the model."""
    min_pairs: int = 0
    min_updates: int = 0

    def shape(self, dropout: float = 0.1) -> TransformerShape:
        """Return the model architecture, without the vocabulary size.

        Pre-norm, unlike the paper: at these learning rates, the encoder of a small post-norm model collapses to the
        same state for every word of a sentence, and attention is useless (docs/results.md).
        """
        changes = {**find_preset(self.preset).changes, "norm": "pre", "attention_bias": True, "dropout": dropout}
        return TransformerShape.model_validate(changes)


SIZES: Final = (
    ModelSize("tiny", 3e-3, 800, 8192, 8_000),
    ModelSize("small", 1.2e-3, 800, 4096, 16_000, min_pairs=10_000, min_updates=500),
    ModelSize("paper-base", 7e-4, 4000, 24_576, 37_000, min_pairs=1_500_000, min_updates=20_000),
)
"""The model sizes, smallest first. On very few pairs, the smallest size with many epochs translates best; on 29,000
pairs, the second size with small updates is better from the first minutes on (docs/results.md)."""


@dataclass(frozen=True)
class PlanInputs:
    """The inputs of a plan (data, time and machine), and the values computed from the inputs."""

    census: Census
    time: float
    """Seconds from the start of the command to the finished model."""
    machine: Machine
    processes: int | None = None
    """The requested number of training processes; None: one per accelerator or core."""

    @property
    def precision(self) -> Literal["bfloat16", "float32"]:
        """The faster precision on this machine."""
        return "bfloat16" if self.machine.bfloat16 else "float32"

    @property
    def split(self) -> int:
        """The number of validation pairs: a tenth of all pairs, at most 1,000."""
        return min(1000, self.census.pairs // 10)

    @property
    def epoch(self) -> float:
        """The number of tokens in all training pairs."""
        return self.census.tokens * (self.census.pairs - self.split)

    @property
    def training_time(self) -> float:
        """The seconds for training: the total time minus startup, preparation and scoring, at least half the total."""
        around = 30.0 + self.census.pairs / 5_000 + _SECONDS_PER_PAIR * self.split
        left = max(1.0, self.time - around, self.time / 2)
        return left // 60 * 60 if left >= 1200 else left // 1

    @cached_property
    def size(self) -> ModelSize:
        """The largest model size for which data and time suffice."""
        possible = [size for size in SIZES if self.census.pairs >= size.min_pairs]
        return [size for size in possible if self.training_time >= self.time_for(size)][-1]

    @property
    def larger(self) -> ModelSize | None:
        """The next larger model size; None if there is no larger size."""
        return next(iter(SIZES[SIZES.index(self.size) + 1 :]), None)

    @property
    def max_epochs(self) -> int:
        """The number of epochs after which the model no longer improves."""
        pairs = self.census.pairs
        return 150 if pairs < 100_000 else 60 if pairs < 1_000_000 else 30

    @property
    def possible_epochs(self) -> float:
        """The number of epochs that fit into the training time."""
        return self.speed(self.size) * self.training_time / self.epoch

    @property
    def epochs(self) -> float:
        """The planned number of epochs."""
        return min(float(self.max_epochs), self.possible_epochs)

    @property
    def num_batches(self) -> int:
        """The number of batches per update: one for each process."""
        return self.processes or min(_MAX_PROCESSES, self.machine.max_processes)

    @property
    def update_tokens(self) -> int:
        """The number of tokens per update: fewer where little text or little time would allow too few updates."""
        enough = int(self.speed(self.size) * self.training_time / _MIN_UPDATES)
        epoch = int(self.epoch / _UPDATES_PER_EPOCH)
        usual = max(self.size.tokens, _MIN_BATCH_TOKENS * self.num_batches)
        return min(usual, max(_MIN_UPDATE_TOKENS, min(enough, epoch)))

    def vocabulary(self, size: ModelSize) -> int:
        """Return a vocabulary size that covers all characters and keeps each subword frequent."""
        pairs = self.census.pairs
        best = min(suggested_size(pairs), int(32 * pairs**0.5), size.vocabulary)
        rounded = best // 100 * 100 if best > 1000 else best
        return max(self.census.smallest, min(rounded, self.census.largest))

    def model(self, size: ModelSize) -> ModelConfig:
        """Return the model config of a model size, with the vocabulary size."""
        vocabulary = self.vocabulary(size)
        return with_vocabulary(size.shape(), vocabulary, vocabulary)

    def speed(self, size: ModelSize) -> float:
        """Return the estimated training speed of a model size, in tokens per second."""
        return tokens_per_second(self.model(size), self.precision, self.machine)

    def time_for(self, size: ModelSize) -> float:
        """Return the minimum training time of a model size, in seconds."""
        return size.min_updates * size.tokens / self.speed(size)


def autopilot(
    corpora: Sequence[CorpusConfig],
    name: str,
    time: float,
    machine: Machine,
    progress: Progress = ignore_progress,
    processes: int | None = None,
) -> Plan:
    """Choose a recipe that trains on the corpora within a total time of `time` seconds."""
    if any(corpus.source == STANDARD_INPUT for corpus in corpora):
        raise ValueError("standard input can be read only once, but the autopilot needs two passes: give a file")
    census = take_census(corpora, progress)
    if census.pairs < MIN_PAIRS:
        few = f"{corpora[0].source}: {census.pairs} pairs are too few to train on"
        raise ValueError(f"{few}: give at least {MIN_PAIRS}, and {NARROW_DOMAIN_PAIRS:,} or more for a useful model")
    inputs = PlanInputs(census, time, machine, processes)
    recipe = _choose_recipe(inputs, corpora, name)
    return Plan(recipe, tuple(_explain_choices(inputs, recipe)), tuple(_warn(inputs)))


def check_changes(corpora: Sequence[CorpusConfig], name: str, overrides: Sequence[str]) -> None:
    """Raise ValueError if overrides of recipe keys are invalid, before the text is read."""
    census = Census(10_000, 0, 30.0, 100, frozenset(), frozenset(), False)
    recipe = _choose_recipe(PlanInputs(census, 3600.0, Machine(1, None, False)), corpora, name)
    check_overrides(recipe, overrides)


def guess_languages(corpora: Sequence[CorpusConfig]) -> tuple[str | None, str | None]:
    """Return the source and target languages by file extensions or file contents, or (None, None) if unclear."""
    codes = {_corpus_languages(corpus) for corpus in corpora}
    source, target = next(iter(codes))
    is_clear = len(codes) == 1 and source and target and source != target
    return (source, target) if is_clear else (None, None)


def _corpus_languages(corpus: CorpusConfig) -> tuple[str | None, str | None]:
    if corpus.target is not None:
        return _language_code(corpus.source), _language_code(corpus.target)
    try:
        return find_languages(corpus) or (None, None)
    except ValueError:  # reading the pairs raises it again
        return None, None


def _language_code(address: str) -> str | None:
    suffix = uncompressed_suffix(address).removeprefix(".")
    is_code = re.fullmatch(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?", suffix) and suffix not in {*_NOT_LANGUAGES, "xml"}
    return suffix if is_code else None


def _choose_recipe(inputs: PlanInputs, corpora: Sequence[CorpusConfig], name: str) -> Recipe:
    source_language, target_language = guess_languages(corpora)
    vocabulary = VocabConfig(kind="bpe", size=inputs.vocabulary(inputs.size))
    recipe = Recipe(
        name=name,
        description="Chosen by the size of the data and the time available.",
        source_language=source_language,
        target_language=target_language,
        data=DataSection(train=tuple(corpora), split=inputs.split, vocabulary=vocabulary),
        model=inputs.size.shape(_choose_dropout(inputs)),
        training=_choose_batches(inputs).model_copy(update={"augment": _choose_augment(inputs, corpora)}),
        validation=ValidationSection(max_pairs=_choose_max_pairs(inputs), samples=min(3, inputs.split)),
    )
    return recipe.model_copy(update={"training": _choose_schedule(inputs, recipe)})


def _choose_dropout(inputs: PlanInputs) -> float:
    """Return the dropout probability: higher for few pairs and many epochs, to prevent overfitting."""
    if inputs.epochs < MIN_EPOCHS:
        return 0.0
    if inputs.epochs < 10 or inputs.census.pairs >= 500_000:
        return 0.1
    return 0.3 if inputs.census.pairs < 100_000 and inputs.epochs >= _MANY_EPOCHS else 0.2


def _choose_batches(inputs: PlanInputs) -> TrainingConfig:
    sampling = 0.1 if inputs.census.pairs < 200_000 and inputs.epochs >= _MANY_EPOCHS else 0.0
    tokens = inputs.update_tokens // inputs.num_batches
    return TrainingConfig(
        batch=BatchConfig(tokens=tokens, headroom=1.15 if sampling else 1.0),
        batches_per_update=inputs.num_batches,
        subword_sampling=sampling,
        optimizer=OptimizerConfig(clip=1.0),
        precision=inputs.precision,
    )


def _choose_augment(inputs: PlanInputs, corpora: Sequence[CorpusConfig]) -> AugmentConfig:
    """Return the pairs to add: for languages with enough pairs for texts of any kind, and time to read them often."""
    are_languages = all(code and re.match(r"[a-z]{2}(?![a-z])", code) for code in guess_languages(corpora))
    is_general = are_languages and inputs.census.pairs >= WHOLE_LANGUAGE_PAIRS and inputs.epochs >= MIN_EPOCHS
    return _AUGMENT if is_general else AugmentConfig()


def _choose_schedule(inputs: PlanInputs, recipe: Recipe) -> TrainingConfig:
    """Return the training config with a schedule and a validation interval that fit the training time."""
    size, tokens = inputs.size, tokens_per_update(recipe)
    updates = max(1, round(inputs.epochs * inputs.epoch / tokens))
    warmup = max(1, min(size.warmup, updates // 10))
    rate = size.rate * min(1.0, (warmup / 100) ** 0.5)  # a very short warm-up does not reach as high a rate
    # With a handful of pairs, or soon after the start, BLEU is 0 whatever the model has learned.
    is_bleu_useful = inputs.census.pairs >= TOO_FEW_PAIRS and updates >= _UPDATES_FOR_BLEU
    stop = StopConfig(
        updates=max(warmup + 1, round(inputs.max_epochs * inputs.epoch / tokens)),
        metric="bleu" if is_bleu_useful else "loss",
        patience=5 if inputs.epochs == inputs.max_epochs else None,
    )
    seconds = min(inputs.training_time, inputs.epochs * inputs.epoch / inputs.speed(size))
    changes = {
        "schedule": ScheduleConfig(rate=float(f"{rate:.1e}"), factors=("warmup", "linear"), warmup=warmup),
        "stop": stop.model_copy(update={"time": inputs.training_time}),
        "validate_every": _round_time(seconds / max(3, min(_VALIDATIONS, seconds / _VALIDATION_SECONDS))),
        "ema": 0.999 if updates > 20_000 else 0.998,
    }
    return recipe.training.model_copy(update=changes)


def _choose_max_pairs(inputs: PlanInputs) -> int:
    """Return the number of pairs per validation, chosen so that validation takes a small share of the time."""
    slowdown = inputs.speed(SIZES[0]) / inputs.speed(inputs.size)
    budget = _VALIDATION_SHARE * inputs.training_time / _VALIDATIONS
    return min(inputs.split, max(50, int(budget * inputs.machine.max_processes / (_SECONDS_PER_PAIR * slowdown))))


def _round_time(seconds: float) -> float:
    """Return a time rounded down to whole minutes, tens of seconds, or seconds."""
    step = 60.0 if seconds >= 120 else 10.0 if seconds >= 30 else 1.0
    return max(5.0, seconds // step * step)


def _warn(inputs: PlanInputs) -> Iterator[str]:
    pairs, larger = inputs.census.pairs, inputs.larger
    if pairs < NARROW_DOMAIN_PAIRS:
        usual = f"a narrow domain needs {NARROW_DOMAIN_PAIRS:,} pairs, a language in general {WHOLE_LANGUAGE_PAIRS:,}"
        yield f"{pairs:,} pairs are few: expect bad translations of sentences unlike these; {usual} or more"
    updates = inputs.speed(inputs.size) * inputs.training_time / inputs.update_tokens
    is_short = inputs.possible_epochs < MIN_EPOCHS
    if is_short or updates < _MIN_UPDATES:
        longer = round_up_time(inputs.time * max(MIN_EPOCHS / inputs.possible_epochs, _MIN_UPDATES / updates))
        few = f"only about {updates:,.0f} updates fit: expect poor translations" * (updates < _MIN_UPDATES)
        seldom = f"each pair is read only {inputs.possible_epochs:.1f} times" * is_short
        yield f"the time is short: {', and '.join(filter(None, (seldom, few)))}; give --time {longer}"
    if larger and pairs >= larger.min_pairs:
        need = round_up_time(inputs.time_for(larger) * 1.1)
        yield f"there are enough pairs for a larger model ({larger.preset}), which would take about {need} here"


def round_up_time(seconds: float) -> str:
    """Return a time rounded up to whole minutes, hours or days, such as 45m, 3h or 2d."""
    unit, size = next((u, s) for u, s in (("d", 86400), ("h", 3600), ("m", 60)) if seconds >= 2 * s or u == "m")
    return f"{-int(-seconds // size)}{unit}"


def _explain_choices(inputs: PlanInputs, recipe: Recipe) -> Iterator[PlanChoice]:
    """Yield every choice with its reason; later choices depend on earlier choices."""
    census, training = inputs.census, recipe.training
    tokens = f"about {census.tokens:.0f} subwords each, source and target together"
    yield PlanChoice("data", f"{census.pairs:,} pairs", tokens)
    share = "a tenth" if inputs.split < 1000 else "1,000 make a steady score"
    yield PlanChoice("validation pairs", f"{recipe.data.split:,} of them", f"split off to judge the model by: {share}")
    vocabulary = inputs.vocabulary(inputs.size)
    is_smallest, letters = vocabulary == census.smallest, f"as few as {census.letters:,} different letters allow"
    reason = letters if is_smallest else f"few enough for each to be seen often in {census.pairs:,} pairs"
    yield PlanChoice("vocabulary", f"{vocabulary:,} subwords", f"shared by both sides, byte-pair encoding; {reason}")
    yield _explain_model(inputs, recipe)
    epochs = f"each pair is read about {inputs.epochs:.{0 if inputs.epochs >= 10 else 1}f} times"
    dropout = recipe.model.dropout
    reason = f"{epochs}, too seldom to be memorised" if dropout == 0 else f"the paper's: {epochs}"
    reason = f"{epochs} and must not be memorised" if dropout > 0.1 else reason
    yield PlanChoice("dropout", f"{dropout:g}", f"{reason}; label smoothing is the paper's 0.1")
    sampling = training.subword_sampling
    reason = "words are cut differently each time they are read" if sampling else "no pair is read often"
    yield PlanChoice("subword sampling", f"{sampling:g}" if sampling else "none", reason)
    if training.augment != AugmentConfig():
        reason = "copies with typing errors, as a title or with other names, and single words: what people type"
        yield PlanChoice("augmentation", f"{sum(training.augment.model_dump().values()):.0%} more pairs", reason)
    batches = training.batches_per_update
    size = f"{training.batch.tokens * batches:,} tokens in {batches} batch{'es' * (batches > 1)}"
    unit = "process" if inputs.processes else "device" if inputs.machine.num_devices else "core"
    fewer = ", and small, so that many updates fit" * (inputs.update_tokens < inputs.size.tokens)
    yield PlanChoice("update", size, f"one for each {unit}{fewer}")
    schedule = training.schedule
    reason = "low, for a short warm-up" if schedule.warmup < 100 else f"usual for d_model {recipe.model.d_model}"
    rate = f"up to {schedule.rate:g} in {schedule.warmup:,} updates, then down to 0"
    yield PlanChoice("learning rate", rate, f"{reason}; it reaches 0 when the time is up")
    yield PlanChoice("precision", inputs.precision, explain_precision(inputs.machine))
    speed = f"about {round(inputs.speed(inputs.size), -2):,.0f} tokens/s"
    yield PlanChoice("speed", speed, "measured briefly; training measures its own, and plans its end by that")
    yield _explain_end(inputs, training)
    metric = "BLEU" if training.stop.metric == "bleu" else "loss (BLEU would be 0)"
    reason = f"on {recipe.validation.max_pairs:,} pairs; the weights with the best {metric} are kept"
    yield PlanChoice("validation", f"every {format_duration(float(training.validate_every))}", reason)


def explain_precision(machine: Machine) -> str:
    """Return the reason for the precision on a machine."""
    where = f"this {machine.device} device" if machine.num_devices else "this CPU"
    return f"{where} is {'' if machine.bfloat16 else 'not '}fast in bfloat16"


def _explain_model(inputs: PlanInputs, recipe: Recipe) -> PlanChoice:
    reason = "the time is too short for a larger one" if inputs.larger else "there are data and time for it"
    if inputs.larger and inputs.census.pairs < inputs.larger.min_pairs:
        few = f"below {inputs.larger.min_pairs:,} pairs"
        reason = f"{few} a model of this size, which reads them more often, translates better"
    parameters = cost.parameters(inputs.model(inputs.size)) / 1e6
    shape = f"{recipe.model.depth}, d_model {recipe.model.d_model}, {parameters:.1f} M parameters"
    return PlanChoice("model", f"{inputs.size.preset}: {shape}", reason)


def _explain_end(inputs: PlanInputs, training: TrainingConfig) -> PlanChoice:
    stop, seconds = training.stop, inputs.training_time
    if inputs.possible_epochs < inputs.max_epochs:
        value = f"{seconds / 60:.0f} minutes" if seconds >= 600 else f"{seconds:.0f} seconds"
        reason = f"the time without starting, preparing and scoring: about {inputs.epochs:.1f} epochs"
        return PlanChoice("end", f"after {value} of training", reason)
    reason = f"{inputs.max_epochs} epochs; sooner, if {stop.patience} validations bring no new best"
    return PlanChoice("end", f"after {stop.updates:,} updates", reason)
