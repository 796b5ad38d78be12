"""The autopilot's choices in words: what was chosen and why, and what to expect of it."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from dragoman.experiment.given import SIZES, Given
from dragoman.experiment.recipe import Recipe
from dragoman.models import cost
from dragoman.models.config import TransformerShape
from dragoman.training.config import Every, spelled

NARROW: Final = 10_000
GENERAL: Final = 100_000
"""Pairs that a narrow domain, and a language as a whole, usually take."""

HOPELESS: Final = 2_000
FEWEST_EPOCHS: Final = 5


class Choice(NamedTuple):
    """One of them."""

    what: str
    value: str
    reason: str


def choices(given: Given, recipe: Recipe) -> tuple[Choice, ...]:
    """All of them, in the order in which one follows from another."""
    return (
        _data(given),
        _dev(given, recipe),
        _vocabulary(given),
        _model(given, recipe),
        *_regularisation(given, recipe),
        _batch(recipe),
        _schedule(recipe),
        _precision(given),
        _speed(given),
        _end(given, recipe),
        _validation(recipe),
    )


def warnings(given: Given) -> Iterator[str]:
    """What to expect, where it may not be what was hoped for."""
    pairs = given.census.pairs
    needed = f"a narrow domain usually takes {NARROW:,} pairs, a language in general {GENERAL:,} or more"
    if pairs < HOPELESS:
        yield (
            f"{pairs:,} pairs are too little to learn a language from: the model will know these sentences by heart "
            f"and translate others badly; {needed}"
        )
    elif pairs < NARROW:
        yield f"{pairs:,} pairs are few: expect little beyond sentences much like these; {needed}"
    if given.possible_epochs < FEWEST_EPOCHS:
        longer = duration(given.time * FEWEST_EPOCHS / given.possible_epochs)
        yield (
            f"the time is short for so much text: each pair is read only {given.possible_epochs:.1f} times; "
            f"--time {longer} would do, or a faster machine"
        )
    larger = SIZES[SIZES.index(given.size) + 1 :]
    if larger and pairs >= larger[0].fewest_pairs:
        need = duration(given.time_for(larger[0]) * 1.1)
        yield f"there are pairs enough for a larger model ({larger[0].preset}), which would take about {need} here"


def duration(seconds: float) -> str:
    """A time rounded up to what one would type: 45m, 3h, 2d."""
    unit, size = next((u, s) for u, s in (("d", 86400), ("h", 3600), ("m", 60)) if seconds >= 2 * s or u == "m")
    return f"{-int(-seconds // size)}{unit}"


def _data(given: Given) -> Choice:
    tokens = f"about {given.census.tokens:.0f} subwords each, source and target together"
    return Choice("data", f"{given.census.pairs:,} pairs", tokens)


def _dev(given: Given, recipe: Recipe) -> Choice:
    share = "a tenth" if given.split < 1000 else "1,000 make a steady score"
    return Choice("validation pairs", f"{recipe.data.split:,} of them", f"split off to judge the model by: {share}")


def _vocabulary(given: Given) -> Choice:
    size = given.vocabulary(given.size)
    why = f"few enough for each to be seen often in {given.census.pairs:,} pairs"
    if size == given.census.smallest:
        why = f"as few as {given.census.letters:,} different letters allow"
    return Choice("vocabulary", f"{size:,} subwords", f"one for both sides, by byte-pair encoding; {why}")


def _model(given: Given, recipe: Recipe) -> Choice:
    shape, size = recipe.model, given.size
    assert isinstance(shape, TransformerShape)
    parameters = cost.parameters(given.model(size)) / 1e6
    layers = f"{shape.num_encoder_layers}+{shape.num_decoder_layers} layers"
    larger = SIZES[SIZES.index(size) + 1 :]
    if not larger:
        why = "there are data and time for it"
    elif given.census.pairs < larger[0].fewest_pairs:
        why = f"below {larger[0].fewest_pairs:,} pairs a small one that reads them more often translates better"
    else:
        why = "the time is not enough for a larger one"
    return Choice("model", f"{size.preset}: {layers}, d_model {shape.d_model}, {parameters:.1f} M parameters", why)


def _regularisation(given: Given, recipe: Recipe) -> Iterator[Choice]:
    assert isinstance(recipe.model, TransformerShape)
    often = f"each pair is read about {given.epochs:.{0 if given.epochs >= 10 else 1}f} times"
    why = f"{often} and must not be learned by heart" if recipe.model.dropout > 0.1 else f"the paper's: {often}"
    yield Choice("dropout", f"{recipe.model.dropout:g}", f"{why}; label smoothing is the paper's 0.1")
    sampling = recipe.training.subword_sampling
    why = "each time a pair is read its words are cut otherwise" if sampling else "each pair is read too seldom to tire"
    yield Choice("subword sampling", f"{sampling:g}" if sampling else "none", why)


def _batch(recipe: Recipe) -> Choice:
    training = recipe.training
    tokens = training.batch.tokens * training.batches_per_update
    why = "one for each core" if training.batches_per_update > 1 else "for the one core there is"
    batches = f"{training.batches_per_update} batch{'es' * (training.batches_per_update > 1)}"
    return Choice("update", f"{tokens:,} tokens in {batches}", why)


def _schedule(recipe: Recipe) -> Choice:
    schedule = recipe.training.schedule
    value = f"up to {schedule.rate:g} in {schedule.warmup:,} updates, then down to 0"
    why = (
        "the steps to it are few, so it is low"
        if schedule.warmup < 400
        else f"what d_model {recipe.model.d_model} likes"
    )
    return Choice("learning rate", value, f"{why}; the way down ends when the time does")


def _precision(given: Given) -> Choice:
    why = "this CPU multiplies it fast" if given.machine.bfloat16 else "this CPU is not fast in bfloat16"
    return Choice("precision", given.precision, why)


def _speed(given: Given) -> Choice:
    why = "by a short trial; training measures its own, and plans its end by that"
    return Choice("speed", f"about {round(given.speed(given.size), -2):,.0f} tokens/s", why)


def _end(given: Given, recipe: Recipe) -> Choice:
    stop = recipe.training.stop
    assert stop.time is not None
    if given.possible_epochs < given.most_epochs:
        why = f"the time given, less starting, preparing and scoring: about {given.epochs:.1f} times through the data"
        lasts = f"{stop.time / 60:.0f} minutes" if stop.time >= 600 else f"{stop.time:.0f} seconds"
        return Choice("end", f"after {lasts} of training", why)
    why = f"{given.most_epochs} times through the data; sooner, if {stop.patience} validations bring nothing better"
    return Choice("end", f"after {stop.updates:,} updates", why)


def _validation(recipe: Recipe) -> Choice:
    every: Every = recipe.training.validate_every
    assert isinstance(every, float)
    pairs = recipe.validation.max_pairs
    metric = "BLEU" if recipe.training.stop.metric == "bleu" else "loss (BLEU would be 0)"
    why = f"of {pairs:,} pairs; the weights with the best {metric} are kept"
    return Choice("validation", f"every {spelled(every)}", why)
