"""Quick checks before a run starts, so that errors are reported early."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.data.prepare import suggested_size
from dragoman.experiment.findings import Finding
from dragoman.experiment.held_out import read_pairs
from dragoman.experiment.machine import Machine, recipe_model, training_memory
from dragoman.experiment.parent import OLD, has_kept, open_parent
from dragoman.experiment.run_state import BUNDLE, is_finished, is_run_folder
from dragoman.io.streams import STANDARD_INPUT, open_seekable, read_blocks
from dragoman.recipes.recipe import Recipe

_UNKNOWN_PAIRS = 1_000_000
"""The number of pairs assumed for the vocabulary size, as preflight does not count pairs."""


class RunSetup(NamedTuple):
    """A recipe, and the options of the training run to check."""

    recipe: Recipe
    folder: Path | None
    processes: int
    tensorboard: bool = False
    local_processes: int | None = None
    """The number of processes on this machine; None: all processes."""


def raise_problems(findings: Iterable[Finding]) -> None:
    """Raise one ValueError with all findings of level `problem`, if there are any."""
    problems = [finding.message for finding in findings if finding.level == "problem"]
    if problems:
        raise ValueError("\n".join(problems))


def preflight(setup: RunSetup, machine: Machine) -> Iterator[Finding]:
    """Yield the findings of all checks that do not read the training pairs."""
    yield from check_files(setup.recipe)
    yield from check_sampling(setup.recipe)
    yield check_processes(setup, machine)
    yield check_memory(setup, machine)
    if setup.tensorboard:
        yield check_tensorboard()


def check_folder(folder: Path) -> Finding:
    """Check that the folder is writable, and that it holds nothing but a run that is not finished."""
    if folder.exists() and not folder.is_dir():
        return Finding("folder", "problem", f"{folder} is a file: give a folder as --out")
    if is_finished(folder):
        return Finding("folder", "problem", f"{folder} holds a finished model in {folder / BUNDLE}: give another --out")
    if folder.exists() and not is_run_folder(folder):
        message = f"{folder} has files that are not part of a training run: give a new folder as --out"
        return Finding("folder", "problem", message)
    try:
        with tempfile.TemporaryFile(dir=existing_folder(folder)):
            pass
    except OSError as error:
        message = f"cannot write to {folder} ({error.strerror or error}): give another --out"
        return Finding("folder", "problem", message)
    return Finding("folder", "ok", f"{folder} is writable")


def existing_folder(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def check_files(recipe: Recipe) -> Iterator[Finding]:
    """Check that all data files exist and are text; held-out files, which are small, are read completely."""
    data = recipe.data
    if not data.dev_sets and any(corpus.source == STANDARD_INPUT for corpus in data.train):
        message = "no validation pairs can be split off standard input: set data.dev"
        yield Finding("files", "problem", message)
    findings = [*map(check_corpus, data.train), *(check_corpus(corpus, whole=True) for corpus in data.held_out)]
    findings += check_kept(recipe)
    yield from findings
    if data.obtain and any(finding.level == "problem" for finding in findings):
        yield Finding("files", "problem", f"to get the data: {data.obtain}")


def check_kept(recipe: Recipe) -> Iterator[Finding]:
    """Check that the old text against forgetting exists, unless it is one of the training corpora by now."""
    keep = recipe.init.keep if recipe.init else None
    if keep is None or has_kept(recipe):
        return
    if keep.target is not None:
        yield check_corpus(CorpusConfig(name=OLD, source=keep.source, target=keep.target))
        return
    try:
        next(read_blocks(keep.source))
    except ValueError as error:
        yield Finding("files", "problem", str(error))


def check_sampling(recipe: Recipe) -> Iterator[Finding]:
    """Check that the vocabulary of the parent can be sampled, if the recipe asks for it."""
    rate = recipe.training.subword_sampling
    if recipe.init is None or not rate:
        return
    vocab = open_parent(recipe.init).vocab
    if not (vocab.source.can_sample and vocab.target.can_sample):
        wrong = f"training.subword_sampling is {rate:g}, but {recipe.init.bundle} has an imported vocabulary"
        message = f"{wrong}, which cannot be sampled: set training.subword_sampling to 0"
        yield Finding("vocabulary", "problem", message)


def check_corpus(corpus: CorpusConfig, whole: bool = False) -> Finding:
    """Check that the files of a corpus exist and are text; with `whole`, read the files completely."""
    addresses = [address for address in (corpus.source, corpus.target) if address]
    names = " and ".join(Path(address).name for address in addresses)
    try:
        for address in addresses:
            if corpus.file_format == "parquet":
                with open_seekable(address):
                    pass
            elif address == STANDARD_INPUT:
                continue
            elif corpus.file_format in ("text", "tsv", "jsonl"):
                next(read_blocks(address))
            else:
                next(read_chunks(corpus, 1), None)
        if whole:
            return Finding("files", "ok", f"{corpus.name}: {len(read_pairs(corpus)):,} pairs in {names}")
    except ValueError as error:
        return Finding("files", "problem", str(error))
    return Finding("files", "ok", f"{corpus.name}: {names} can be read")


def check_processes(setup: RunSetup, machine: Machine) -> Finding:
    """Check that the processes share the batches of an update evenly and use all cores or devices."""
    processes, batches = setup.processes, setup.recipe.training.batches_per_update
    if batches % processes:
        shared = f"{processes} processes cannot share {batches} batch{'es' * (batches > 1)} evenly"
        message = f"{shared}: make training.batches_per_update a multiple of --processes"
        return Finding("processes", "problem", message)
    local = setup.local_processes or processes
    if machine.num_devices and local > machine.num_devices:
        message = f"{local} processes for {machine.processors}: give --processes {machine.num_devices} or fewer"
        return Finding("processes", "problem", message)
    if machine.num_devices > local:
        advice = f"make training.batches_per_update a multiple of {machine.num_devices} to use all"
        return Finding("processes", "warning", f"{processes} on {machine.processors}: {advice}")
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads) * processes > machine.cores:
        threads_used = f"{processes} x {threads} threads (OMP_NUM_THREADS) on {machine.cores} cores"
        return Finding("processes", "warning", f"{threads_used} slow each other down: unset OMP_NUM_THREADS")
    if not machine.num_devices and machine.cores > 1 == processes == batches:
        advice = f"training.batches_per_update={machine.cores}, with smaller batches, would use every core"
        return Finding("processes", "warning", f"one process on {machine.cores} cores: {advice}")
    return Finding("processes", "ok", f"{processes} on {machine.processors}")


def check_memory(setup: RunSetup, machine: Machine) -> Finding:
    """Check whether training fits into memory."""
    model = recipe_model(setup.recipe, suggested_size(_UNKNOWN_PAIRS))
    if machine.num_devices:
        need, free, where = training_memory(setup.recipe, model, 1), machine.device_memory, " on each device"
    else:
        need, free = training_memory(setup.recipe, model, setup.local_processes or setup.processes), machine.memory
        where = ""
    message = f"training needs {need / 1e9:,.1f} GB or more{where}"
    if free is None:
        return Finding("memory", "ok", f"{message}; the free memory is unknown")
    message += f", and {free / 1e9:,.1f} GB are free"
    if 3 * need <= free:
        return Finding("memory", "ok", message)
    advice = "use a smaller model, smaller batches (training.batch.tokens) or fewer --processes"
    return Finding("memory", "problem" if need > free else "warning", f"{message}: {advice}")


def check_tensorboard() -> Finding:
    """Check whether tensorboard is installed."""
    if find_spec("tensorboard") is None:
        return Finding("extras", "problem", "--tensorboard needs tensorboard: pip install 'dragoman[tensorboard]'")
    return Finding("extras", "ok", "tensorboard is installed")
