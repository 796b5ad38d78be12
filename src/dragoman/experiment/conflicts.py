"""What cannot work together in a recipe, though each of its sections is fine by itself."""

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from dragoman.data.corpus import CorpusConfig, check_corpora
from dragoman.data.problem import CleanConfig
from dragoman.data.stream import STANDARD_INPUT
from dragoman.data.vocab_training import VocabConfig
from dragoman.decoding.options import SearchOptions
from dragoman.experiment.mistakes import Mistake, MistakesError, nearest
from dragoman.experiment.outline import listed
from dragoman.experiment.yaml_lines import Key
from dragoman.models.config import RecurrentShape, TransformerShape
from dragoman.training.config import ScheduleConfig, SnapshotConfig, StopConfig, TrainingConfig

Shape = TransformerShape | RecurrentShape

_LONGEST_PIECE: Final = 16
"""Characters of a subword: SentencePiece makes no longer ones."""

_BYTES_AND_SPECIALS: Final = 256 + 4
"""Ids that every vocabulary has."""

_STEEPEST: Final = 0.1
"""A learning rate from which on Adam learns nothing; no Transformer was ever trained with a tenth of it."""


def refuse(*found: Mistake) -> None:
    """Raise what was found, all of it, if there is anything."""
    if found:
        raise MistakesError(found)


def of_corpora(
    train: Sequence[CorpusConfig], dev: CorpusConfig | None, test: Sequence[CorpusConfig]
) -> Iterator[Mistake]:
    """Corpora that cannot be told apart, or are used for two ends."""
    held_out: list[tuple[Key, CorpusConfig]] = [(("data", "test", i), corpus) for i, corpus in enumerate(test)]
    if dev is not None:
        held_out.insert(0, (("data", "dev"), dev))
    try:
        check_corpora([*train, *(corpus for _, corpus in held_out)])
    except ValueError as error:
        yield Mistake(("data",), str(error))
    trained = {(corpus.source, corpus.fields[0]): i for i, corpus in enumerate(train)}
    for key, corpus in held_out:
        if (corpus.source, corpus.fields[0]) in trained:
            same = f"data.train.{trained[corpus.source, corpus.fields[0]]}"
            yield Mistake((*key, "source"), f"the same file as {same}: none of its pairs would be left to train on")
        if corpus.weight != 1.0:
            yield Mistake((*key, "weight"), "only a training corpus has a weight: leave it out")
        if corpus.source == STANDARD_INPUT:
            yield Mistake((*key, "source"), "standard input can be read only once: give a file")


def of_card(corpora: Sequence[str], described: Collection[str]) -> Iterator[Mistake]:
    """Terms of a corpus that is not trained on."""
    for name in described:
        if name not in corpora:
            near = nearest(name, corpora)
            mend = f"did you mean {listed(near)}?" if near else f"there are {', '.join(corpora)}"
            yield Mistake(("card", "corpora", name), f"no corpus of data.train has this name; {mend}")


def of_vocabulary(vocabulary: VocabConfig | None, model: Shape) -> Iterator[Mistake]:
    """A vocabulary that cannot be learned, or is not one where the model needs one."""
    if vocabulary is None:
        return
    if vocabulary.size <= _BYTES_AND_SPECIALS:
        message = f"specials and bytes alone take {_BYTES_AND_SPECIALS} ids: {vocabulary.size} leave none for letters"
        yield Mistake(("data", "vocabulary", "size"), message)
    if model.tie == "all" and not vocabulary.joint:
        message = "all needs one vocabulary for both sides, but data.vocabulary.joint is false: use target"
        yield Mistake(("model", "tie"), message)


def of_lengths(clean: CleanConfig, model: Shape, search: SearchOptions) -> Iterator[Mistake]:
    """Sentences that would be let in and not fit, or outputs that cannot be as long as they must."""
    shortest = math.ceil(clean.max_characters / _LONGEST_PIECE)
    if isinstance(model, TransformerShape) and shortest > model.max_positions:
        message = (
            f"{model.max_positions} tokens are too few for the sentences that data.clean.max_characters lets in: "
            f"{clean.max_characters} characters are {shortest} tokens or more; change one of the two"
        )
        yield Mistake(("model", "max_positions"), message)
    limit = search.max_length
    if limit.ratio == 0.0 and search.min_length > limit.tokens(1):
        message = f"{search.min_length} is more than the {limit.tokens(1)} that max_length allows"
        yield Mistake(("validation", "search", "min_length"), message)


def of_training(training: TrainingConfig, model: Shape) -> Iterator[Mistake]:
    """Settings that would do nothing, or nothing but harm."""
    if training.loss.r_drop > 0.0 and not any(_dropouts(model)):
        message = "R-Drop compares two readings under dropout, and the model has none: give model.dropout, or r_drop: 0"
        yield Mistake(("training", "loss", "r_drop"), message)
    yield from _of_schedule(training.schedule, training.stop)
    yield from _of_snapshots(training.snapshots, training.stop)


def of_samples(samples: int, max_pairs: int | None) -> Iterator[Mistake]:
    """More translations to be shown than are made."""
    if max_pairs is not None and samples > max_pairs:
        yield Mistake(("validation", "samples"), f"{samples} cannot be shown where max_pairs is {max_pairs}")


def _dropouts(model: Shape) -> tuple[float, ...]:
    if isinstance(model, RecurrentShape):
        return (model.dropout,)
    return (model.dropout, model.attention_dropout, model.activation_dropout)


def _of_schedule(schedule: ScheduleConfig, stop: StopConfig) -> Iterator[Mistake]:
    key: Key = ("training", "schedule")
    falling = [factor for factor in schedule.factors if factor in ("cosine", "linear")]
    if "paper" in schedule.factors and schedule.rate < _STEEPEST:
        message = (
            f"the factor paper is a whole learning rate, below 0.001 by itself, and {schedule.rate:g} times that is "
            "nearly nothing: use rate: 1, or factors: [warmup, inverse_sqrt] with this as the highest rate"
        )
        yield Mistake((*key, "rate"), message)
    if "paper" not in schedule.factors and schedule.rate >= _STEEPEST:
        message = f"{schedule.rate:g} would be the highest learning rate, and far too high: try 0.001"
        yield Mistake((*key, "rate"), message)
    if falling and "warmup" in schedule.factors and schedule.warmup >= stop.updates:
        message = f"{schedule.warmup} leaves no update for {falling[0]}: training.stop.updates is {stop.updates}"
        yield Mistake((*key, "warmup"), message)
    elif {"paper", "warmup"} & set(schedule.factors) and schedule.warmup > stop.updates:
        message = (
            f"{schedule.warmup} updates of warm-up are more than there are, training.stop.updates being "
            f"{stop.updates}: training would end while the rate still rises; make one of the two fit the other"
        )
        yield Mistake((*key, "warmup"), message)
    if schedule.floor > 0.0 and not falling:
        yield Mistake((*key, "floor"), "only cosine and linear have a floor: add one to factors, or leave floor out")


def _of_snapshots(snapshots: SnapshotConfig, stop: StopConfig) -> Iterator[Mistake]:
    every = snapshots.every
    limit = stop.updates if isinstance(every, int) else stop.time
    if every is not None and limit is not None and every > limit:
        message = "there would be none before training stops: make them more often, or leave them out with null"
        yield Mistake(("training", "snapshots", "every"), message)
