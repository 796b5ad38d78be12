"""The autopilot for a training that begins with a trained model: few updates, low rates, short validations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from dragoman.bundle import Bundle
from dragoman.data.corpus import CorpusConfig
from dragoman.data.order import BatchConfig
from dragoman.decoding.options import SearchOptions
from dragoman.experiment.autopilot import (
    MIN_PAIRS,
    Plan,
    PlanChoice,
    explain_precision,
    guess_languages,
    round_up_time,
)
from dragoman.experiment.census import Census, take_census
from dragoman.experiment.findings import FEW_FOR_A_PARENT
from dragoman.experiment.machine import Machine, tokens_per_second, tokens_per_update
from dragoman.experiment.parent import count_old, kept_weight, num_held_out
from dragoman.io.progress import Progress
from dragoman.io.streams import STANDARD_INPUT
from dragoman.models import cost
from dragoman.models.config import ModelConfig, without_vocabulary
from dragoman.models.presets import preset
from dragoman.recipes.expansion import fitting_characters
from dragoman.recipes.recipe import DataSection, InitSection, Recipe, ValidationSection
from dragoman.text.cleaning import CleanConfig
from dragoman.training.config import OptimizerConfig, ScheduleConfig, StopConfig, TrainingConfig

_HIGHEST_RATE: Final = 5e-4
_LOWEST_RATE: Final = 2e-5
_PAIRS_FOR_HIGHEST: Final = 20_000
_USUAL_WIDTH: Final = 256
"""The highest learning rate is for this many pairs and this d_model. It falls with the root of the number of pairs, as
fewer pairs are read more often, and with d_model, as from scratch."""

_RATE_WITH_OLD_TEXT: Final = 1.5
"""The factor by which the learning rate may be higher if old text prevents forgetting."""

_PARENT_SHARE: Final = 0.2
"""The share of the parent in the weights if there is old text (Wortsman et al., 2022).

With 5,000 pairs it cost 0.5 BLEU on captions, and saved 0.6 of 1.1 on the old text (docs/results.md)."""

_EPOCHS: Final = ((2_000, 16), (10_000, 8), (10**9, 4))
"""The epochs that are enough, by the number of pairs below which they are."""

_MIN_UPDATES: Final = 100
_WANTED_UPDATES: Final = 200
"""The updates that a run has at least, and those that must fit into its time, with smaller updates if necessary."""

_UPDATES_PER_EPOCH: Final = 100
_UPDATE_TOKENS: Final = (512, 1024, 8192)
"""Tokens per update: the fewest where time is short, the fewest elsewhere, and the most."""

_WARMUP: Final = 50
_VALIDATIONS: Final = 8
_VALIDATION_SHARE: Final = 0.1
_SCORING_SHARE: Final = 0.2
"""The shares of the time for validations, and for the comparison with the parent at the end."""

_SECONDS_PER_PAIR: Final = 0.02
"""The time in which one core translates a sentence with the tiny model (on torch); CTranslate2 takes a quarter."""

_PAIRS_FOR_BLEU: Final = 300
"""The number of validation pairs from which BLEU is steady enough to choose weights by."""

_MIN_DROPOUT: Final = 0.1
_EMA: Final = 0.99
_PATIENCE: Final = 4
_MAX_PROCESSES: Final = 16


@dataclass(frozen=True)
class FinetuneInputs:
    """The inputs of a plan (parent, data, time and machine), and the values computed from the inputs."""

    census: Census
    """The new pairs."""
    model: ModelConfig
    time: float
    """Seconds from the start of the command to the finished model."""
    machine: Machine
    num_old: int = 0
    """The number of old pairs, or of old sentences that the parent is to translate; 0: none."""
    is_rehearsed: bool = False
    """True if the parent translates the old sentences."""
    processes: int | None = None

    @property
    def precision(self) -> Literal["bfloat16", "float32"]:
        """The faster precision on this machine."""
        return "bfloat16" if self.machine.bfloat16 else "float32"

    @cached_property
    def speed(self) -> float:
        """The estimated training speed in tokens per second."""
        return tokens_per_second(self.model, self.precision, self.machine)

    @cached_property
    def seconds_per_pair(self) -> float:
        """The estimated time in which all cores or devices translate a sentence."""
        tiny = preset("tiny", self.model.target_vocabulary)
        slowdown = tokens_per_second(tiny, self.precision, self.machine) / self.speed
        return _SECONDS_PER_PAIR * slowdown / (self.machine.max_processes * self.machine.speed)

    @property
    def num_scored(self) -> int:
        """The number of pairs per test set that are translated twice at the end, as the time allows."""
        return max(100, int(_SCORING_SHARE * self.time / (4 * self.seconds_per_pair)))

    @property
    def split(self) -> int:
        """The number of validation pairs: a tenth of all pairs and at least 100, but not more than a quarter."""
        pairs = self.census.pairs
        return max(1, min(1000, max(100, pairs // 10), pairs // 4, self.num_scored))

    @property
    def held_out(self) -> int:
        """The maximum number of old pairs to measure forgetting with."""
        return min(500, self.num_scored)

    @property
    def epoch(self) -> float:
        """The number of tokens in all pairs that an epoch reads: the new pairs, and as many old pairs or fewer."""
        new = self.census.pairs - self.split
        old = kept_weight(0.5, float(new), self.num_old) * self.num_old if self.num_old else 0.0
        return self.census.tokens * (new + old)

    @property
    def training_time(self) -> float:
        """The seconds for training: the total time without startup, preparation and scoring, at least half of it."""
        num_scored = 2 * (self.split + (num_held_out(self.held_out, self.num_old) if self.num_old else 0))
        around = 30.0 + self.census.pairs / 5_000 + self.seconds_per_pair * num_scored
        around += self.seconds_per_pair / 4 * self.num_old * self.is_rehearsed
        return max(1.0, self.time - around, self.time / 2) // 1

    @property
    def max_epochs(self) -> int:
        """The number of epochs that are enough."""
        return next(epochs for pairs, epochs in _EPOCHS if self.census.pairs < pairs)

    @property
    def num_batches(self) -> int:
        """The number of batches per update: one for each process."""
        return self.processes or min(_MAX_PROCESSES, self.machine.max_processes)

    @property
    def update_tokens(self) -> int:
        """The number of tokens per update: few enough that many updates fit into an epoch and into the time."""
        fewest, few, most = _UPDATE_TOKENS
        usual = min(most, max(few, int(self.epoch / _UPDATES_PER_EPOCH)))
        return min(usual, max(fewest, int(self.speed * self.training_time / _WANTED_UPDATES)))

    @property
    def rate(self) -> float:
        """The highest learning rate."""
        few = min(1.0, (self.census.pairs / _PAIRS_FOR_HIGHEST) ** 0.5)
        few = min(1.0, few * _RATE_WITH_OLD_TEXT) if self.num_old else few
        wide = min(1.0, _USUAL_WIDTH / self.model.d_model)
        return float(f"{max(_LOWEST_RATE, _HIGHEST_RATE * few * wide):.1e}")

    @property
    def max_pairs(self) -> int:
        """The number of pairs per validation, which takes a small share of the time."""
        budget = _VALIDATION_SHARE * self.training_time / (_VALIDATIONS + 1)
        return min(self.split, max(50, int(budget / self.seconds_per_pair)))


def plan_finetuning(
    corpora: Sequence[CorpusConfig],
    name: str,
    init: InitSection,
    parent: Bundle,
    time: float,
    machine: Machine,
    progress: Progress,
    processes: int | None = None,
    to: str | None = None,
) -> Plan:
    """Choose a recipe that trains the parent on the corpora within a total time of `time` seconds.

    `to` is the target language of the corpora, if the parent translates into several; by default, as in file names.
    """
    if any(corpus.source == STANDARD_INPUT for corpus in corpora):
        raise ValueError("standard input can be read only once, but the autopilot needs two passes: give a file")
    _check_languages(corpora, parent, "--source and --target")
    if init.keep and init.keep.target:
        old = CorpusConfig(source=init.keep.source, target=init.keep.target)
        _check_languages([old], parent, "the files of --keep")
    language = _choose_language(corpora, parent, to)
    corpora = [corpus.model_copy(update={"target_language": language}) for corpus in corpora]
    census = take_census(corpora, progress)
    if census.pairs < MIN_PAIRS:
        few = f"{corpora[0].source}: {census.pairs} pairs are too few to train on"
        raise ValueError(f"{few}: give at least {MIN_PAIRS}, and {FEW_FOR_A_PARENT} or more for a useful change")
    num_old = count_old(init.keep, census.pairs)
    is_rehearsed = bool(init.keep and init.keep.target is None)
    inputs = FinetuneInputs(census, parent.info.model, time, machine, num_old, is_rehearsed, processes)
    recipe = _choose_recipe(inputs, corpora, name, init, parent)
    return Plan(recipe, tuple(_explain_choices(inputs, recipe, parent)), tuple(_warn(inputs)))


def _check_languages(corpora: Sequence[CorpusConfig], parent: Bundle, sides: str) -> None:
    """Raise ValueError if the files, given as `sides`, are named as source and target in the other direction."""
    languages = (parent.info.source_language, parent.info.target_language)
    guessed = guess_languages(corpora)
    if None not in (*languages, *guessed) and guessed == languages[::-1]:
        wrong = f"the text is {guessed[0]} to {guessed[1]}, but the model translates {languages[0]} to {languages[1]}"
        raise ValueError(f"{wrong}: swap {sides}, or give another --from")


def _choose_language(corpora: Sequence[CorpusConfig], parent: Bundle, to: str | None) -> str | None:
    """Return the target language of the corpora if the parent has several; raise ValueError if it is not one of them.

    Unless it is given as `to`, the names of the files tell it.
    """
    guessed = guess_languages(corpora)[1]
    if to is None and guessed in parent.info.target_languages:
        to = guessed
    chosen = parent.to(to)
    return chosen.language if parent.info.target_languages else None


def _choose_recipe(
    inputs: FinetuneInputs, corpora: Sequence[CorpusConfig], name: str, init: InitSection, parent: Bundle
) -> Recipe:
    info = parent.info
    shape = without_vocabulary(info.model)
    limit = fitting_characters(shape.position_limit)
    keep = init.keep and init.keep.model_copy(update={"held_out": inputs.held_out})
    recipe = Recipe(
        name=name,
        description=f"{parent.card.title or 'A model'}, trained on more text.",
        source_language=info.source_language,
        target_language=info.target_language,
        protect=info.protect,
        data=DataSection(train=tuple(corpora), split=inputs.split, clean=CleanConfig(max_characters=limit)),
        init=init.model_copy(update={"keep": keep, "parent_share": _PARENT_SHARE if keep else 0.0}),
        model=shape.model_copy(update={"dropout": max(_MIN_DROPOUT, shape.dropout)}),
        training=TrainingConfig(
            batch=BatchConfig(tokens=max(1, inputs.update_tokens // inputs.num_batches)),
            batches_per_update=inputs.num_batches,
            optimizer=OptimizerConfig(clip=1.0),
            precision=inputs.precision,
            ema=_EMA,
            log_every=10,
        ),
        validation=ValidationSection(
            search=SearchOptions.model_validate(info.search),
            max_pairs=inputs.max_pairs,
            samples=min(3, inputs.max_pairs),
        ),
    )
    return recipe.model_copy(update={"training": _choose_schedule(inputs, recipe)})


def _choose_schedule(inputs: FinetuneInputs, recipe: Recipe) -> TrainingConfig:
    tokens = tokens_per_update(recipe)
    updates = max(_MIN_UPDATES, round(inputs.max_epochs * inputs.epoch / tokens))
    possible = max(1, int(inputs.speed * inputs.training_time / tokens))
    expected = min(updates, possible)
    changes = {
        "schedule": ScheduleConfig(
            rate=inputs.rate, factors=("warmup", "linear"), warmup=max(1, min(_WARMUP, expected // 10))
        ),
        "stop": StopConfig(
            updates=updates,
            metric="bleu" if inputs.max_pairs >= _PAIRS_FOR_BLEU else "loss",
            patience=_PATIENCE,
        ).model_copy(update={"time": inputs.training_time}),
        # In updates: the weights of a run that makes all its updates do not depend on the clock.
        "validate_every": max(1, expected // _VALIDATIONS),
    }
    return recipe.training.model_copy(update=changes)


def _warn(inputs: FinetuneInputs) -> Iterator[str]:
    if not inputs.num_old:
        advice = "--keep OLD.SOURCE OLD.TARGET mixes in old pairs, --keep-source TEXT the model's own translations"
        yield f"other sentences than these are likely to be translated worse than before: {advice}"
    updates = inputs.speed * inputs.training_time / inputs.update_tokens
    if updates < _MIN_UPDATES:
        longer = round_up_time(inputs.time * _MIN_UPDATES / updates)
        yield f"the time is short: only about {updates:,.0f} updates fit; give --time {longer}"


def _explain_choices(inputs: FinetuneInputs, recipe: Recipe, parent: Bundle) -> Iterator[PlanChoice]:
    """Yield every choice with its reason."""
    census, training = inputs.census, recipe.training
    parameters = cost.parameters(inputs.model) / 1e6
    title = parent.card.title or str(parent.folder)
    shape = f"{recipe.model.depth}, d_model {recipe.model.d_model}, {parameters:.1f} M parameters"
    yield PlanChoice(
        "parent", title, f"{shape}, {inputs.model.target_vocabulary:,} subwords; training begins with its weights"
    )
    tokens = f"about {census.tokens:.0f} subwords each, source and target together"
    yield PlanChoice("data", f"{census.pairs:,} pairs", tokens)
    if inputs.num_old:
        weight = (
            kept_weight(recipe.init.keep.share, float(census.pairs), inputs.num_old)
            if recipe.init and recipe.init.keep
            else 0
        )
        what = "sentences, translated by the parent" if inputs.is_rehearsed else "pairs"
        share = (
            f"an epoch reads {min(1.0, weight):.1%} of them" if weight < 1 else f"an epoch reads them {weight:g} times"
        )
        yield PlanChoice("old text", f"{inputs.num_old:,} {what}", f"against forgetting; {share}")
        assert recipe.init is not None
        reason = "the rest of the weights is trained; against forgetting as well"
        yield PlanChoice("parent's share", f"{recipe.init.parent_share:g}", reason)
    reason = f"split off to judge the model by; {recipe.validation.max_pairs:,} of them at each validation"
    yield PlanChoice("validation pairs", f"{recipe.data.split:,}", reason)
    dropout, own = recipe.model.dropout, inputs.model.dropout
    reason = "as before" if dropout == own else f"more than the parent's {own:g}, as pairs are read several times"
    yield PlanChoice("dropout", f"{dropout:g}", reason)
    batches = training.batches_per_update
    size = f"{training.batch.tokens * batches:,} tokens in {batches} batch{'es' * (batches > 1)}"
    yield PlanChoice("update", size, "small, so that many updates fit")
    schedule = training.schedule
    rate = f"up to {schedule.rate:g} in {schedule.warmup:,} updates, then down to 0"
    reason = "lower than from scratch, as the weights are good already"
    reason += "; old text allows a higher one" if inputs.num_old else "; the fewer pairs, the lower"
    yield PlanChoice("learning rate", rate, reason)
    yield PlanChoice("precision", inputs.precision, explain_precision(inputs.machine))
    seconds = inputs.training_time
    limit = f"{seconds / 60:.0f} minutes" if seconds >= 600 else f"{seconds:.0f} seconds"
    sooner = f"sooner after {limit}, or if {training.stop.patience} validations bring no new best"
    yield PlanChoice("end", f"after {training.stop.updates:,} updates", f"{inputs.max_epochs} epochs; {sooner}")
    metric = "BLEU" if training.stop.metric == "bleu" else "loss (BLEU varies too much on few pairs)"
    reason = f"the weights with the best {metric} are kept: those of the parent if nothing is better"
    yield PlanChoice("validation", f"every {training.validate_every:,} updates", reason)
