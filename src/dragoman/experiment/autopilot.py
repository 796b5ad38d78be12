"""A whole recipe from two text files and a time: what the size of the data and the clock suggest."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from dragoman.data.corpus import CorpusConfig
from dragoman.data.order import BatchConfig
from dragoman.data.packed import unpacked_suffix
from dragoman.data.progress import Progress
from dragoman.data.stream import STANDARD_INPUT
from dragoman.data.vocab_training import VocabConfig
from dragoman.experiment.census import Census, take_census
from dragoman.experiment.estimate import tokens_per_update
from dragoman.experiment.given import SECONDS_A_PAIR, SIZES, Given
from dragoman.experiment.machine import Machine
from dragoman.experiment.reasons import HOPELESS, Choice, choices, warnings
from dragoman.experiment.recipe import DataSection, Recipe, ValidationSection, check_overrides
from dragoman.training.config import OptimizerConfig, ScheduleConfig, StopConfig, TrainingConfig, spelled

FEWEST: Final = 20
"""Pairs that can be split into something to learn and something to judge by."""

_MOST_PROCESSES: Final = 16
_FEWEST_TOKENS: Final = 2048
"""Of a batch, below which a process does more administration than arithmetic."""

_OFTEN: Final = 40
"""Times that a pair is read, from which on it would be learned by heart but for much dropout and sampling."""

_PIECES: Final = 50
"""An epoch of very little text is cut into about so many updates, rather than into one."""

_ENOUGH_FOR_BLEU: Final = 1000
"""Updates."""

_VALIDATIONS: Final = 14
_SELDOM: Final = 20.0
"""Seconds between them at least, unless there would be fewer than three."""

_VALIDATION_SHARE: Final = 0.04

_ANY_PAIRS: Final = 10_000
"""Where they are not counted yet, and their number decides nothing."""

_NO_CODES: Final = {"txt", "src", "tgt", "trg", "ref", "hyp", "tok", "raw", "bpe", "csv", "tsv", "out", "lst", "xml"}


class Plan(NamedTuple):
    """What was chosen, and what to expect of it."""

    recipe: Recipe
    choices: tuple[Choice, ...]
    warnings: tuple[str, ...]


def autopilot(
    corpora: Sequence[CorpusConfig], name: str, time: float, machine: Machine, progress: Progress | None = None
) -> Plan:
    """Choose everything that the files leave open. `time` is in seconds."""
    if any(corpus.source == STANDARD_INPUT for corpus in corpora):
        raise ValueError("standard input can be read only once, and choosing takes a look first: give a file")
    census = take_census(corpora, progress)
    if census.pairs < FEWEST:
        raise ValueError(
            f"{corpora[0].source}: {census.pairs} pairs are too few to learn from: give {FEWEST} at the very least, "
            "and 10,000 or more to get something useful"
        )
    given = Given(census, time, machine)
    recipe = _recipe(given, corpora, name)
    return Plan(recipe, choices(given, recipe), tuple(warnings(given)))


def check_changes(corpora: Sequence[CorpusConfig], name: str, overrides: Sequence[str]) -> None:
    """Raise if keys cannot be set, whatever will be chosen: no text has to be read to know that."""
    unread = Given(Census(_ANY_PAIRS, 0, 30.0, 100, frozenset(), frozenset(), False), 3600.0, Machine(1, None, False))
    check_overrides(_recipe(unread, corpora, name), overrides)


def languages(corpora: Sequence[CorpusConfig]) -> tuple[str | None, str | None]:
    """What the suffixes of the files say, if they look like the codes of two languages."""
    codes = {(_code(corpus.source), _code(corpus.target or "")) for corpus in corpora}
    source, target = next(iter(codes))
    is_clear = len(codes) == 1 and source and target and source != target
    return (source, target) if is_clear else (None, None)


def _code(address: str) -> str | None:
    suffix = unpacked_suffix(address).removeprefix(".")
    looks = re.fullmatch(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?", suffix)
    return suffix if looks and suffix not in _NO_CODES else None


def _recipe(given: Given, corpora: Sequence[CorpusConfig], name: str) -> Recipe:
    source_language, target_language = languages(corpora)
    vocabulary = VocabConfig(kind="bpe", size=given.vocabulary(given.size))
    recipe = Recipe(
        name=name,
        description="Chosen by the size of the data and the time given.",
        source_language=source_language,
        target_language=target_language,
        data=DataSection(train=tuple(corpora), split=given.split, vocabulary=vocabulary),
        model=given.size.shape(_dropout(given)),
        training=_training(given),
        validation=ValidationSection(max_pairs=_tried_pairs(given), samples=min(3, given.split)),
    )
    return recipe.model_copy(update={"training": _ended(given, recipe)})


def _dropout(given: Given) -> float:
    """Much where each pair is read often, and could be learned by heart."""
    if given.epochs < 10 or given.census.pairs >= 500_000:
        return 0.1
    return 0.3 if given.census.pairs < 100_000 and given.epochs >= _OFTEN else 0.2


def _training(given: Given) -> TrainingConfig:
    sampling = 0.1 if given.census.pairs < 200_000 and given.epochs >= _OFTEN else 0.0
    batches = min(_MOST_PROCESSES, given.machine.cores)
    piece = max(1024, int(given.epoch / _PIECES))
    tokens = min(max(_FEWEST_TOKENS, given.size.tokens // batches), piece // batches)
    return TrainingConfig(
        batch=BatchConfig(tokens=tokens, headroom=1.15 if sampling else 1.0),
        batches_per_update=batches,
        subword_sampling=sampling,
        optimizer=OptimizerConfig(clip=1.0),
        precision=given.precision,
    )


def _ended(given: Given, recipe: Recipe) -> TrainingConfig:
    """With a schedule that fits the time, and validations spread over it."""
    size, tokens = given.size, tokens_per_update(recipe)
    expected = max(1, round(given.epochs * given.epoch / tokens))
    warmup = max(1, min(size.warmup, expected // 10))
    rate = size.rate * min(1.0, (warmup / 400) ** 0.5)  # a short warm-up does not carry as high a rate
    stop = {
        "updates": max(warmup + 1, round(given.most_epochs * given.epoch / tokens)),
        "time": spelled(given.training_time),
        # Of a handful of pairs, or soon after the start, BLEU is 0 whatever the model has learned.
        "metric": "bleu" if given.census.pairs >= HOPELESS and expected >= _ENOUGH_FOR_BLEU else "loss",
        "patience": 5 if given.epochs == given.most_epochs else None,
    }
    lasts = min(given.training_time, given.epochs * given.epoch / given.speed(size))
    changes = {
        "schedule": ScheduleConfig(rate=float(f"{rate:.1e}"), factors=("warmup", "linear"), warmup=warmup),
        "stop": StopConfig.model_validate(stop),
        "validate_every": _even(lasts / max(3, min(_VALIDATIONS, lasts / _SELDOM))),
        "ema": 0.999 if expected > 20_000 else 0.998,
    }
    return recipe.training.model_copy(update=changes)


def _tried_pairs(given: Given) -> int:
    """As many as leave nearly all of the time to training."""
    slower = given.speed(SIZES[0]) / given.speed(given.size)
    budget = _VALIDATION_SHARE * given.training_time / _VALIDATIONS
    possible = int(budget * given.machine.cores / (SECONDS_A_PAIR * slower))
    return min(given.split, max(50, possible))


def _even(seconds: float) -> float:
    """A time that is easy to read: whole minutes, tens of seconds, or seconds."""
    step = 60.0 if seconds >= 120 else 10.0 if seconds >= 30 else 1.0
    return max(5.0, seconds // step * step)
