"""What a run is trained on: the corpora that it began with, and those that joined it between two starts."""

import json
import shutil
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import Field

from dragoman.config import Config
from dragoman.data.batches import Newcomer, Reader, Sampling
from dragoman.data.corpus import CorpusConfig, check_corpora
from dragoman.data.durable import write_durably
from dragoman.data.manifest import MANIFEST, Manifest, Prepared, PreparedCorpus
from dragoman.data.prepare import PrepareConfig, settings_of
from dragoman.data.vocab import Vocab
from dragoman.experiment.recipe import Recipe

PREPARED: Final = "prepared"
JOINED: Final = "joined.json"


class Join(Config):
    """Corpora that joined a run, the ones at the end of its list."""

    first: int = Field(ge=1, description="the number of the first of them among the recipe's corpora, from 0")
    count: int = Field(ge=1, description="how many they are")
    epoch: int = Field(ge=0, description="the first epoch that they are part of")


class Part(NamedTuple):
    """Corpora that came together, and the folder in which they are prepared."""

    folder: Path
    config: PrepareConfig


def joins_of(folder: Path) -> list[Join]:
    """What has joined this run so far, in order."""
    path = folder / JOINED
    return [Join.model_validate(join) for join in json.loads(path.read_bytes())] if path.exists() else []


def remember_joins(folder: Path, joins: Sequence[Join]) -> None:
    """Keep when which corpora joined: the order of the batches depends on it."""
    if joins or (folder / JOINED).exists():
        content = json.dumps([join.model_dump() for join in joins]).encode()
        write_durably(folder / JOINED, lambda sink: sink.write(content))


def num_known(folder: Path, otherwise: int) -> int:
    """How many corpora the run has been prepared with; so many, if that cannot be told."""
    if joins := joins_of(folder):
        return joins[-1].first + joins[-1].count
    prepared = folder / PREPARED
    return len(Manifest.load(prepared).corpora) if (prepared / MANIFEST).exists() else otherwise


def joins_now(recipe: Recipe, folder: Path, known: int, update: int) -> list[Join]:
    """What has joined a run that goes on from this update: the recipe's new corpora do when the epoch is over."""
    joins = joins_of(folder)
    course = Material.open(folder).reader(recipe).course
    epoch = course.next_epoch(update * recipe.training.batches_per_update)
    # Where batches have become smaller, that may be an epoch that others have joined after.
    epoch = max([epoch, *(join.epoch for join in joins)])
    return [*joins, Join(first=known, count=len(recipe.data.train) - known, epoch=epoch)]


def parts(recipe: Recipe, folder: Path, joins: Sequence[Join]) -> Iterator[Part]:
    """How each part is prepared: the first learns the vocabulary, which the others take from it."""
    data = recipe.data
    firsts = [0, *(join.first for join in joins)]
    for first, last in pairwise([*firsts, len(data.train)]):
        config = PrepareConfig(
            corpora=data.train[first:last],
            held_out=held_out(recipe),
            clean=data.clean,
            vocabulary=None if first else data.vocabulary,
            vocabulary_of=f"../{PREPARED}" if first else None,
            sample=data.sample,
            keep_text=recipe.training.subword_sampling > 0,
        )
        yield Part(_place(folder, first), config)


def held_out(recipe: Recipe) -> tuple[CorpusConfig, ...]:
    """The validation pairs, and the test sets."""
    assert recipe.data.dev is not None
    return (recipe.data.dev, *recipe.data.test)


def refuse_other(run: Path, some: Sequence[Part], is_split_kept: bool) -> None:
    """Refuse what preparing would refuse, before anything is written."""
    check_corpora([*(corpus for part in some for corpus in part.config.corpora), *some[0].config.held_out])
    for part in some:
        if _is_other(part) or ((part.folder / MANIFEST).exists() and not is_split_kept):
            wrong = f"{part.folder} was prepared from other files or with other settings"
            raise ValueError(f"{wrong}: give another --out, or remove the whole folder {run} first")


def clear(run: Path, some: Sequence[Part]) -> None:
    """Remove what a joining that was broken off has left, if it is not the same that joins now."""
    known = {_place(run, first) for first in (0, *(join.first for join in joins_of(run)))}
    for part in some:
        if part.folder not in known and _is_other(part):
            shutil.rmtree(part.folder)


def _is_other(part: Part) -> bool:
    there = (part.folder / MANIFEST).exists()
    return there and Manifest.load(part.folder).settings != settings_of(part.config)


class Material(NamedTuple):
    """The prepared folders of a run."""

    beginning: Prepared
    newcomers: tuple[Newcomer, ...]

    @staticmethod
    def open(folder: Path) -> "Material":
        """As they lie in the folder of a run. Preparing has just verified them."""
        beginning = Prepared.open(folder / PREPARED, verify=False)
        newcomers = []
        for join in joins_of(folder):
            prepared = Prepared.open(_place(folder, join.first), verify=False)
            if prepared.manifest.vocabulary != beginning.manifest.vocabulary:
                raise ValueError(
                    f"{prepared.folder} has another vocabulary than {beginning.folder}: remove it, and run the same "
                    "command again"
                )
            newcomers.append(Newcomer(join.epoch, prepared))
        return Material(beginning, tuple(newcomers))

    @property
    def folders(self) -> list[Prepared]:
        """In the order in which they came."""
        return [self.beginning, *(newcomer.prepared for newcomer in self.newcomers)]

    def corpora(self, recipe: Recipe, updates: int) -> list[PreparedCorpus]:
        """Those that a run of so many updates has read from."""
        stretches = self.reader(recipe).course.stretches
        last = updates * recipe.training.batches_per_update
        read = [folder for folder, one in zip(self.folders, stretches, strict=True) if one.first_batch < max(1, last)]
        return [corpus for folder in read for corpus in folder.manifest.corpora]

    @property
    def num_pairs(self) -> int:
        """That there are to be trained on."""
        return sum(folder.manifest.counts["stayed"] for folder in self.folders)

    def arrivals(self, recipe: Recipe) -> Iterator[tuple[str, int]]:
        """Each corpus that joined, and the first update that may read from it."""
        if not self.newcomers:
            return  # cutting a large corpus into batches takes a while, and every start would
        course = self.reader(recipe).course
        for stretch, newcomer in zip(course.stretches[1:], self.newcomers, strict=True):
            for corpus in newcomer.prepared.manifest.corpora:
                yield corpus.name, stretch.first_batch // recipe.training.batches_per_update + 1

    def reader(self, recipe: Recipe, vocab: Vocab | None = None) -> Reader:
        """The batches; to read some where subwords are sampled, it needs the vocabulary."""
        rate = recipe.training.subword_sampling
        sampling = Sampling(vocab, rate, recipe.seed) if vocab and rate else None
        return Reader.of(self.beginning, recipe.training.batch, recipe.seed, sampling, self.newcomers)


def _place(folder: Path, first: int) -> Path:
    return folder / (f"{PREPARED}-{first}" if first else PREPARED)
