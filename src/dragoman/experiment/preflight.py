"""What is looked at before a run begins, quickly: whatever would stop it later is found now."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.data.prepare import suggested_size
from dragoman.data.sniff import is_utf8
from dragoman.data.stream import STANDARD_INPUT, read_blocks, seekable
from dragoman.experiment.estimate import model_of, training_memory
from dragoman.experiment.machine import Machine
from dragoman.experiment.recipe import Recipe
from dragoman.training.config import CHECKPOINTS

Level = Literal["ok", "warning", "problem"]

_UNKNOWN_PAIRS = 1_000_000
"""Assumed where nobody has counted, for the size of a vocabulary."""


class Finding(NamedTuple):
    """What a look at one thing showed, with the mend where one is needed."""

    check: str
    level: Level
    message: str


class Order(NamedTuple):
    """How a recipe is to be run."""

    recipe: Recipe
    folder: Path | None
    processes: int
    tensorboard: bool = False


def refuse(findings: Iterable[Finding]) -> None:
    """Raise what cannot go well, all of it, if there is anything."""
    problems = [finding.message for finding in findings if finding.level == "problem"]
    if problems:
        raise ValueError("\n".join(problems))


def preflight(order: Order, machine: Machine) -> Iterator[Finding]:
    """Everything that can be known without reading the training pairs."""
    if order.folder is not None:
        yield of_folder(order.folder)
    yield from of_files(order.recipe)
    yield of_processes(order, machine)
    yield of_memory(order, machine)
    if order.tensorboard:
        yield of_tensorboard()


def of_folder(folder: Path) -> Finding:
    """Whether a run can be written there."""
    if folder.exists() and not folder.is_dir():
        return Finding("folder", "problem", f"{folder} is a file: give --out a folder")
    if is_finished(folder):
        model = f"{folder} holds a finished model in {folder / 'bundle'}"
        return Finding("folder", "problem", f"{model}: give another --out")
    try:
        with tempfile.TemporaryFile(dir=existing(folder)):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        return Finding("folder", "problem", f"nothing can be written to {folder} ({reason}): give another --out")
    return Finding("folder", "ok", f"{folder} can be written to")


def is_under_way(folder: Path) -> bool:
    """Whether a run was begun there that has something to go on from. A finished one has removed its checkpoints."""
    return any(_checkpoints(folder))


def is_finished(folder: Path) -> bool:
    """Whether a run has left its model there, and nothing to do."""
    return (folder / "bundle").exists() and not is_under_way(folder)


def newest_update(folder: Path) -> int:
    """The one that the newest checkpoint of a run was made after."""
    return max(int(path.name.removeprefix("update-")) for path in _checkpoints(folder))


def _checkpoints(folder: Path) -> Iterator[Path]:
    return (folder / CHECKPOINTS).glob("update-*")


def existing(folder: Path) -> Path:
    """The folder, or else the nearest one above it that is there."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def of_files(recipe: Recipe) -> Iterator[Finding]:
    """Whether every file is there and is text; the held-out ones, which are small, to their last line."""
    data = recipe.data
    if data.dev is None and any(corpus.source == STANDARD_INPUT for corpus in data.train):
        mend = "standard input is read once, so no validation pairs can be split off it: give data.dev"
        yield Finding("files", "problem", mend)
    for corpus in data.train:
        yield of_corpus(corpus)
    for corpus in (*([data.dev] if data.dev else []), *data.test):
        yield of_corpus(corpus, whole=True)


def of_corpus(corpus: CorpusConfig, whole: bool = False) -> Finding:
    """Whether its files are there and are text; `whole`, to their last line."""
    try:
        for address in (corpus.source, corpus.target):
            if address is not None and address != STANDARD_INPUT:
                _open(address, corpus.kept_as == "parquet")
        if not whole:
            return Finding("files", "ok", f"{corpus.name}: {_named(corpus)} can be read")
        pairs = _read_through(corpus)
    except ValueError as error:
        return Finding("files", "problem", str(error))
    return Finding("files", "ok", f"{corpus.name}: {pairs:,} pairs in {_named(corpus)}")


def _named(corpus: CorpusConfig) -> str:
    return " and ".join(Path(address).name for address in (corpus.source, corpus.target) if address)


def _open(address: str, is_table: bool) -> None:
    if is_table:
        with seekable(address):
            return
    next(read_blocks(address))


def _read_through(corpus: CorpusConfig) -> int:
    pairs = 0
    for chunk in read_chunks(corpus, 10_000):
        for address, side in ((corpus.source, chunk.source), (corpus.target or corpus.source, chunk.target)):
            for row, text in enumerate(side.to_pylist()):
                if not is_utf8(text or b""):
                    line = chunk.first_line + row + 1
                    raise ValueError(f"{address}: line {line} is not UTF-8, and no score could be made of it; mend it")
        pairs += len(chunk)
    if not pairs:
        raise ValueError(f"{corpus.source}: there is not one pair in it")
    return pairs


def of_processes(order: Order, machine: Machine) -> Finding:
    """Whether they can share an update evenly."""
    processes, batches = order.processes, order.recipe.training.batches_per_update
    if batches % processes:
        message = (
            f"{processes} processes cannot share {batches} batch{'es' * (batches > 1)} evenly: make "
            "training.batches_per_update a multiple of --processes"
        )
        return Finding("processes", "problem", message)
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads) * processes > machine.cores:
        crowd = f"{processes} x {threads} threads (OMP_NUM_THREADS) on {machine.cores} cores"
        return Finding("processes", "warning", f"{crowd} are in each other's way: unset OMP_NUM_THREADS")
    if processes < machine.cores and processes == 1 and batches == 1:
        message = (
            f"one process on {machine.cores} cores: training.batches_per_update={machine.cores}, with smaller batches, "
            "would let each core take its share"
        )
        return Finding("processes", "warning", message)
    return Finding("processes", "ok", f"{processes} on {machine.cores} core{'s' * (machine.cores > 1)}")


def of_memory(order: Order, machine: Machine) -> Finding:
    """Whether the model fits."""
    model = model_of(order.recipe, suggested_size(_UNKNOWN_PAIRS))
    need = training_memory(order.recipe, model, order.processes)
    if machine.memory is None:
        return Finding("memory", "ok", f"at least {_gigabytes(need)} are needed; how much is free is not known here")
    amounts = f"{_gigabytes(need)} or more, and {_gigabytes(machine.memory)} are free"
    mend = "take a smaller model, smaller batches (training.batch.tokens) or fewer --processes"
    if need > machine.memory:
        return Finding("memory", "problem", f"training needs {amounts}: {mend}")
    if 3 * need > machine.memory:
        return Finding("memory", "warning", f"training needs {amounts}: it may get tight; {mend}")
    return Finding("memory", "ok", f"training needs {amounts}")


def of_tensorboard() -> Finding:
    """Whether it is installed."""
    if find_spec("tensorboard") is None:
        return Finding("extras", "problem", "--tensorboard needs tensorboard: pip install 'dragoman[tensorboard]'")
    return Finding("extras", "ok", "tensorboard is installed")


def _gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:,.1f} GB"
