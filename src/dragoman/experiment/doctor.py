"""What would go wrong in hour ten, found in the first seconds: data, recipe and machine, one finding for each look."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dragoman.data.clean import clean, profile_of
from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.data.leak import HeldOut, hold_out
from dragoman.data.prepare import suggested_size
from dragoman.data.problem import CleanConfig, Problem
from dragoman.data.progress import Progress
from dragoman.data.report import Report
from dragoman.data.stream import STANDARD_INPUT
from dragoman.data.vocab_training import train_vocab
from dragoman.experiment.autopilot import languages
from dragoman.experiment.census import Census, take_census
from dragoman.experiment.estimate import disk_space, model_of, tokens_per_second, tokens_per_update
from dragoman.experiment.machine import Machine
from dragoman.experiment.preflight import Finding, Order, existing, preflight
from dragoman.experiment.reasons import FEWEST_EPOCHS, HOPELESS, NARROW
from dragoman.experiment.recipe import Recipe
from dragoman.training.config import spelled

_LINES: Final = 20_000
_SAMPLE: Final = 100_000
"""Pairs of each corpus that are cleaned for a look."""

_MUCH: Final = 0.2
"""Share of dropped pairs from which on one should look at them."""

_ALIKE: Final = 0.5
"""Share of words that two sides have in common only if they are of one language."""


def examine(order: Order, machine: Machine, progress: Progress) -> Iterator[Finding]:
    """Everything. What needs the data is left out where the data cannot be read."""
    yield from of_machine(machine)
    quick = list(preflight(order, machine))
    yield from quick
    corpora = order.recipe.data.train
    if any(finding.level == "problem" for finding in quick if finding.check == "files"):
        return
    if any(corpus.source == STANDARD_INPUT for corpus in corpora):
        yield Finding("data", "warning", "standard input can be read only once: the pairs were not looked at")
        return
    try:
        census = take_census(corpora, progress)
        yield of_pairs(census)
        yield from of_cleaning(order.recipe, progress)
        yield from of_languages(order.recipe, census)
    except ValueError as error:
        yield Finding("data", "problem", str(error))
        return
    yield of_vocabulary(order.recipe, census)
    yield of_time(order.recipe, census, machine)
    yield of_disk(order, census)


def of_machine(machine: Machine) -> Iterator[Finding]:
    """Whether there is what training needs."""
    import torch  # slow to load, so only where it is asked about

    kind = f"CUDA {torch.version.cuda}, but training uses the CPU" if torch.version.cuda else "CPUs"
    precision = "fast in bfloat16" if machine.bfloat16 else "fastest in float32"
    cores = f"{machine.cores} core{'s' * (machine.cores > 1)}"
    yield Finding("machine", "ok", f"torch {torch.__version__} for {kind}; {cores}, {precision}")
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if busy > machine.cores / 2:
        message = f"other programs keep {busy:.1f} of {machine.cores} cores busy: training will take longer beside them"
        yield Finding("load", "warning", message)


def of_pairs(census: Census) -> Finding:
    """Whether there are enough."""
    message = f"{census.pairs:,} pairs, about {census.tokens:.0f} subwords each"
    if census.pairs < HOPELESS:
        few = "the model will know these sentences by heart, and little else"
        return Finding("pairs", "warning", f"{message}: {few}; {NARROW:,} are a beginning")
    return Finding("pairs", "ok", message)


def of_cleaning(recipe: Recipe, progress: Progress) -> Iterator[Finding]:
    """What cleaning would drop, and what of the held-out pairs is in the training pairs."""
    data = recipe.data
    held_out = hold_out((*([data.dev] if data.dev else []), *data.test), data.clean)
    for corpus in data.train:
        report = _cleaned(corpus, data.clean, held_out, progress)
        yield _of_dropped(corpus, report)
        if leaks := report.count(Problem.LEAK):
            example = report.examples[Problem.LEAK][0]
            where = f"line {example.line} of {corpus.name} is {example.note}"
            done = "are left out of training" if data.clean.policy(Problem.LEAK) == "drop" else "stay, and flatter it"
            message = f"{leaks:,} pairs of {corpus.name} are held out too, and {done}: {where}"
            yield Finding("leaks", "warning", message)
    if held_out.files and data.dev is not None:
        yield from _of_twins(data.dev, data.test, data.clean)


def _cleaned(corpus: CorpusConfig, settings: CleanConfig, held_out: HeldOut, progress: Progress) -> Report:
    report, profile = Report(), None
    for chunk in read_chunks(corpus, _LINES):
        profile = profile or profile_of(chunk, settings)
        report += clean(chunk, settings, profile, held_out if held_out.files else None).report
        progress(f"try cleaning {corpus.name}", report.pairs, None)
        if report.pairs >= _SAMPLE:
            break
    return report


def _of_dropped(corpus: CorpusConfig, report: Report) -> Finding:
    share = report.dropped / max(1, report.pairs)
    message = f"{corpus.name}: {share:.1%} of {report.pairs:,} pairs would be dropped"
    reasons = sorted(
        ((counts["drop"], problem) for problem, counts in report.counts.items() if "drop" in counts), reverse=True
    )
    if reasons:
        message += f" ({', '.join(f'{problem.value} {count:,}' for count, problem in reasons[:3])})"
    if report.dropped == report.pairs:
        return Finding("cleaning", "problem", f"{message}: nothing would be left; look at the files")
    if share > _MUCH:
        return Finding("cleaning", "warning", f"{message}: look at them with dragoman prepare")
    return Finding("cleaning", "ok", message)


def _of_twins(dev: CorpusConfig, test: Sequence[CorpusConfig], settings: CleanConfig) -> Iterator[Finding]:
    """Test pairs that are validated with: the score would be better than the model."""
    held_out = hold_out((dev,), settings)
    for corpus in test:
        twins = sum(
            clean(chunk, settings, profile_of(chunk, settings), held_out).report.count(Problem.LEAK)
            for chunk in read_chunks(corpus, _LINES)
        )
        if twins:
            message = f"{twins:,} pairs of {corpus.name} are in {dev.name} too: its score will be flattered"
            yield Finding("leaks", "warning", message)


def of_languages(recipe: Recipe, census: Census) -> Iterator[Finding]:
    """Whether each side is what it is said to be."""
    said, suffixes = (recipe.source_language, recipe.target_language), languages(recipe.data.train)
    if None not in (*said, *suffixes) and said == suffixes[::-1]:
        message = f"the files end in .{suffixes[0]} and .{suffixes[1]}, but the recipe says {said[0]} to {said[1]}"
        yield Finding("languages", "problem", f"{message}: swap source and target")
    fewer, more = sorted((census.source_words, census.target_words), key=len)
    if fewer and len(fewer & more) > _ALIKE * len(fewer):
        message = "source and target have most of their words in common: are both the same language?"
        yield Finding("languages", "warning", message)
    for corpus in (*([recipe.data.dev] if recipe.data.dev else []), *recipe.data.test):
        if _is_swapped(take_census([corpus]), census):
            message = f"{corpus.name}: its source reads like the target of the training pairs: swap source and target"
            yield Finding("languages", "problem", message)


def _is_swapped(one: Census, other: Census) -> bool:
    straight = len(one.source_words & other.source_words) + len(one.target_words & other.target_words)
    crossed = len(one.source_words & other.target_words) + len(one.target_words & other.source_words)
    return crossed > 2 * straight


def of_vocabulary(recipe: Recipe, census: Census) -> Finding:
    """Whether it can be learned from the text."""
    vocabulary = recipe.data.vocabulary
    if vocabulary is None:
        return Finding("vocabulary", "ok", f"about {suggested_size(census.pairs):,} subwords, by the number of pairs")
    message = f"{vocabulary.size:,} subwords"
    if census.is_whole and not census.smallest <= vocabulary.size <= census.largest:
        try:
            train_vocab(_texts(recipe, "source"), _texts(recipe, "target"), vocabulary)
        except ValueError as error:
            return Finding("vocabulary", "problem", str(error))
    if vocabulary.size > 3 * suggested_size(census.pairs):
        most = f"{suggested_size(census.pairs):,} would each be seen more often"
        return Finding("vocabulary", "warning", f"{message} are many for {census.pairs:,} pairs: {most}")
    return Finding("vocabulary", "ok", message)


def _texts(recipe: Recipe, side: str) -> Iterator[str]:
    for corpus in recipe.data.train:
        for chunk in read_chunks(corpus, _LINES):
            yield from (text.decode(errors="replace") for text in getattr(chunk, side).to_pylist() if text)


def of_time(recipe: Recipe, census: Census, machine: Machine) -> Finding:
    """How far the run gets, roughly."""
    training = recipe.training
    model = model_of(recipe, suggested_size(census.pairs))
    speed = tokens_per_second(model, training.precision, machine)
    per_update = tokens_per_update(recipe)
    possible = speed * (training.stop.time or float("inf")) / per_update
    updates = min(float(training.stop.updates), possible)
    aside = 0 if recipe.data.dev else recipe.data.split  # for validation: nothing is learned from them
    epochs = updates * per_update / (census.tokens * max(1, census.pairs - aside))
    message = f"about {updates:,.0f} updates, {epochs:.1f} times through the data"
    if training.stop.time is None:
        message += f", in {updates * per_update / speed / 3600:,.1f} hours or so"
    else:
        message += f", in {spelled(training.stop.time)}"
    if training.precision == "bfloat16" and not machine.bfloat16:
        return Finding("time", "warning", f"{message}; this CPU is faster with training.precision=float32")
    warmup = training.schedule.warmup
    if {"warmup", "paper", "inverse_sqrt"} & set(training.schedule.factors) and warmup > updates / 2:
        return Finding(
            "time", "warning", f"{message}: too few for a warm-up of {warmup:,}; give more time, or lower it"
        )
    if epochs < FEWEST_EPOCHS and census.pairs < 1_000_000:
        return Finding("time", "warning", f"{message}: few; give more time, or a smaller model")
    return Finding("time", "ok", message)


def of_disk(order: Order, census: Census) -> Finding:
    """Whether the run fits."""
    need = disk_space(order.recipe, model_of(order.recipe, suggested_size(census.pairs)), census.num_bytes)
    free = shutil.disk_usage(existing(order.folder or Path())).free
    message = f"about {need / 1e9:,.2f} GB are written, and {free / 1e9:,.1f} GB are free"
    if need > free:
        return Finding("disk", "problem", f"{message}: give --out a folder on another disk, or make room")
    return Finding("disk", "ok", message)
