"""The checks of `dragoman doctor`: find problems with machine, recipe and data before training starts."""

import math
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.data.pair_cleaning import HeldOut, clean_pairs, hold_out, profile_of
from dragoman.data.prepare import suggested_size
from dragoman.device import describe_torch
from dragoman.experiment.autopilot import MIN_EPOCHS, guess_languages
from dragoman.experiment.census import Census, take_census
from dragoman.experiment.findings import Finding, check_num_pairs
from dragoman.experiment.launchers import LocalProcesses
from dragoman.experiment.line_alignment import check_alignment
from dragoman.experiment.machine import (
    Machine,
    disk_space,
    measure_speed,
    recipe_model,
    this_machine,
    tokens_per_second,
    tokens_per_update,
)
from dragoman.experiment.parent import count_old, kept_weight, open_parent
from dragoman.experiment.preflight import RunSetup, check_folder, existing_folder, preflight
from dragoman.experiment.request import TrainRequest, plan_training
from dragoman.io.progress import Progress
from dragoman.io.streams import STANDARD_INPUT
from dragoman.recipes.recipe import Recipe
from dragoman.text.cleaning import CleanConfig, Problem
from dragoman.text.cleaning_report import CleaningReport
from dragoman.text.vocab import train_vocab
from dragoman.training.config import format_duration, resolve_precision

_LINES: Final = 20_000
_SAMPLE: Final = 100_000
"""The maximum number of pairs per corpus that are cleaned as a check."""

_MANY_DROPPED: Final = 0.2
"""The share of dropped pairs above which a warning is given."""

_SAME_LANGUAGE: Final = 0.5
"""The share of common words above which both sides seem to be the same language."""


def examine(request: TrainRequest, out: Path | None, progress: Progress) -> Iterator[Finding]:
    """Yield findings about the machine, the output folder and, if the request has input, the run."""
    progress("measure the speed of this machine", 0, None)
    try:
        machine = measure_speed(this_machine(request.device))
    except ValueError as error:
        yield Finding("device", "problem", str(error))
        return
    yield from check_machine(machine)
    if out is not None:
        yield check_folder(out)
    if not request.has_input:
        return
    try:
        recipe, _, warnings = plan_training(request, progress, machine)
    except ValueError as error:
        yield from (Finding("recipe", "problem", line) for line in str(error).split("\n"))
        return
    yield Finding("recipe", "ok", f"{recipe.name}: no errors")
    if recipe.init:
        try:
            parent = open_parent(recipe.init)
        except ValueError as error:
            yield Finding("parent", "problem", str(error))
            return
        yield Finding("parent", "ok", f"{parent.card.title or parent.folder}: {parent.info.model.summary}")
    yield from (Finding("plan", "warning", warning) for warning in warnings)
    processes = LocalProcesses(request.device).num_processes(request.processes, recipe.training.batches_per_update)
    yield from check_run(RunSetup(recipe, out, processes, request.tensorboard), machine, progress)


def check_run(setup: RunSetup, machine: Machine, progress: Progress) -> Iterator[Finding]:
    """Yield all findings about a run; skip the checks of data that cannot be read."""
    quick = list(preflight(setup, machine))
    yield from quick
    corpora = setup.recipe.data.train
    if any(finding.level == "problem" for finding in quick if finding.check == "files"):
        return
    if any(corpus.source == STANDARD_INPUT for corpus in corpora):
        yield Finding("data", "warning", "pairs from standard input are not checked: give a file to check them")
        return
    try:
        census = take_census(corpora, progress)
        yield check_num_pairs(census.pairs, census.tokens, has_parent=setup.recipe.init is not None)
        yield from check_cleaning(setup.recipe, progress)
        yield from check_alignment(setup.recipe, progress)
        yield from check_languages(setup.recipe, census)
    except ValueError as error:
        yield Finding("data", "problem", str(error))
        return
    yield check_vocabulary(setup.recipe, census)
    yield check_time(setup.recipe, census, machine)
    yield check_disk(setup, census)


def check_machine(machine: Machine) -> Iterator[Finding]:
    """Yield findings about torch, the cores and the load of the machine."""
    precision = "fast in bfloat16" if machine.bfloat16 else "fastest in float32"
    yield Finding("machine", "ok", f"{describe_torch()}; {machine.processors}, {precision}")
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if busy > machine.cores / 2:
        message = f"other programs keep {busy:.1f} of {machine.cores} cores busy: stop them, or allow more time"
        yield Finding("load", "warning", message)


def check_cleaning(recipe: Recipe, progress: Progress) -> Iterator[Finding]:
    """Check how many pairs cleaning drops, and how many training pairs also occur in held-out sets."""
    data = recipe.data
    held_out = hold_out(data.held_out, data.clean)
    for corpus in data.train:
        report = _cleaned(corpus, data.clean, held_out, progress)
        yield _check_dropped(corpus, report)
        if leaks := report.count(Problem.LEAK):
            example = report.examples[Problem.LEAK][0]
            is_dropped = data.clean.policy(Problem.LEAK) == "drop"
            done = "are left out of training" if is_dropped else "stay, and inflate the scores"
            message = f"{leaks:,} pairs of {corpus.name} are held out too, and {done}"
            yield Finding("leaks", "warning", f"{message}: line {example.line} of {corpus.name} is {example.note}")
    if not data.dev_sets:
        return
    dev = hold_out(data.dev_sets, data.clean)
    for corpus in data.test:
        report = _cleaned(corpus, data.clean, dev, progress)
        if leaks := report.count(Problem.LEAK):
            names = " and ".join(dev.name for dev in data.dev_sets)
            message = f"{leaks:,} pairs of {corpus.name} are in {names} too: remove them from {corpus.name}"
            yield Finding("leaks", "warning", message)


def _cleaned(corpus: CorpusConfig, settings: CleanConfig, held_out: HeldOut, progress: Progress) -> CleaningReport:
    report, profile = CleaningReport(), None
    for chunk in read_chunks(corpus, _LINES):
        profile = profile or profile_of(chunk, settings)
        report += clean_pairs(chunk, settings, profile, held_out if held_out.files else None).report
        progress(f"try cleaning {corpus.name}", report.pairs, None)
        if report.pairs >= _SAMPLE:
            break
    return report


def _check_dropped(corpus: CorpusConfig, report: CleaningReport) -> Finding:
    share = report.dropped / max(1, report.pairs)
    message = f"{corpus.name}: {share:.1%} of {report.pairs:,} pairs would be dropped"
    dropped = Counter({problem.value: counts.get("drop", 0) for problem, counts in report.counts.items()})
    if reasons := [f"{problem} {count:,}" for problem, count in dropped.most_common(3) if count]:
        message += f" ({', '.join(reasons)})"
    if report.dropped == report.pairs:
        return Finding("cleaning", "problem", f"{message}: no pair is left; check the files")
    if share > _MANY_DROPPED:
        return Finding("cleaning", "warning", f"{message}: run dragoman prepare to see them")
    return Finding("cleaning", "ok", message)


def check_languages(recipe: Recipe, census: Census) -> Iterator[Finding]:
    """Check whether source and target are swapped or in the same language, unless the model is to learn both ways."""
    if {*recipe.source_languages} & {*recipe.target_languages}:
        return
    named, guessed = (recipe.source_language, recipe.target_language), guess_languages(recipe.data.train)
    if None not in (*named, *guessed) and named == guessed[::-1]:
        message = f"the files are {guessed[0]} to {guessed[1]}, but the recipe says {named[0]} to {named[1]}"
        yield Finding("languages", "problem", f"{message}: swap source and target")
    fewer, more = sorted((census.source_words, census.target_words), key=len)
    if fewer and len(fewer & more) > _SAME_LANGUAGE * len(fewer):
        message = "source and target share most words: check that the languages differ"
        yield Finding("languages", "warning", message)
    for corpus in recipe.data.held_out:
        if _is_swapped(take_census([corpus]), census):
            message = f"{corpus.name}: source resembles the target of the training pairs: swap source and target"
            yield Finding("languages", "problem", message)


def _is_swapped(census: Census, other: Census) -> bool:
    straight = len(census.source_words & other.source_words) + len(census.target_words & other.target_words)
    crossed = len(census.source_words & other.target_words) + len(census.target_words & other.source_words)
    return crossed > 2 * straight


def check_vocabulary(recipe: Recipe, census: Census) -> Finding:
    """Check whether a vocabulary of the configured size can be trained on the text."""
    vocabulary, suggested = recipe.data.vocabulary, suggested_size(census.pairs)
    if recipe.init:
        size = recipe_model(recipe, suggested).target_vocabulary
        return Finding("vocabulary", "ok", f"{size:,} subwords, those of {recipe.init.bundle}")
    if vocabulary is None:
        return Finding("vocabulary", "ok", f"about {suggested:,} subwords, chosen by the number of pairs")
    message = f"{vocabulary.size:,} subwords"
    if census.is_whole and not census.smallest <= vocabulary.size <= census.largest:
        try:
            train_vocab(_texts(recipe, "source"), _texts(recipe, "target"), vocabulary)
        except ValueError as error:
            return Finding("vocabulary", "problem", str(error))
    if vocabulary.size > 3 * suggested:
        many = f"{message} are many for {census.pairs:,} pairs"
        return Finding("vocabulary", "warning", f"{many}: use about {suggested:,}")
    return Finding("vocabulary", "ok", message)


def _texts(recipe: Recipe, side: str) -> Iterator[str]:
    for corpus in recipe.data.train:
        for chunk in read_chunks(corpus, _LINES):
            yield from (text.decode(errors="replace") for text in getattr(chunk, side).to_pylist() if text)


def check_time(recipe: Recipe, census: Census, machine: Machine) -> Finding:
    """Estimate the number of updates and epochs, and warn if there are few."""
    training = resolve_precision(recipe.training, machine.bfloat16)
    model = recipe_model(recipe, suggested_size(census.pairs))
    speed = tokens_per_second(model, training.precision, machine)
    per_update = tokens_per_update(recipe)
    possible = speed * (training.stop.time or math.inf) / per_update
    updates = min(float(training.stop.updates), possible)
    aside = 0 if recipe.data.dev_sets else recipe.data.split  # for validation: nothing is learned from them
    if 2 * aside > census.pairs:
        few = f"{census.pairs:,} pairs are too few to split off {aside:,} for validation"
        return Finding("time", "problem", f"{few}: set data.split to {max(1, census.pairs // 10)}, or set data.dev")
    epochs = updates * per_update / (census.tokens * (census.pairs - aside + _count_kept(recipe, census.pairs - aside)))
    message = f"about {updates:,.0f} updates, {epochs:.1f} epochs"
    hours = f"{updates * per_update / speed / 3600:,.1f} hours or so"
    message += f", in {format_duration(training.stop.time) if training.stop.time else hours}"
    if training.precision == "bfloat16" and not machine.bfloat16:
        return Finding("time", "warning", f"{message}: set training.precision=float32, which is faster here")
    warmup = training.schedule.warmup
    if {"warmup", "paper", "inverse_sqrt"} & set(training.schedule.factors) and warmup > updates / 2:
        message += f": too few for a warm-up of {warmup:,}; give more time, or lower training.schedule.warmup"
        return Finding("time", "warning", message)
    if epochs < MIN_EPOCHS and census.pairs < 1_000_000 and recipe.init is None:
        return Finding("time", "warning", f"{message}: few epochs; give more time, or a smaller model")
    return Finding("time", "ok", message)


def _count_kept(recipe: Recipe, num_new: int) -> float:
    """Return the number of old pairs that an epoch reads beside the new ones, against forgetting."""
    keep = recipe.init.keep if recipe.init else None
    num_old = count_old(keep, num_new)
    return kept_weight(keep.share, num_new, num_old) * num_old if keep else 0.0


def check_disk(setup: RunSetup, census: Census) -> Finding:
    """Check whether the run fits on the disk."""
    need = disk_space(setup.recipe, recipe_model(setup.recipe, suggested_size(census.pairs)), census.num_bytes)
    free = shutil.disk_usage(existing_folder(setup.folder or Path())).free
    message = f"the run writes about {need / 1e9:,.2f} GB, and {free / 1e9:,.1f} GB are free"
    if need > free:
        return Finding("disk", "problem", f"{message}: give a folder on another disk as --out, or free some space")
    return Finding("disk", "ok", message)
