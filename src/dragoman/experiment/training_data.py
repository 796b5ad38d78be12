"""The training data of a run, including corpora added when the run is resumed. Does not import torch."""

import json
import shutil
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import Field

from dragoman.bundle import Bundle
from dragoman.config import Config
from dragoman.data.batches import AddedCorpora, Reader, SubwordSampling
from dragoman.data.corpus import check_corpora
from dragoman.data.manifest import MANIFEST, Manifest, Prepared, PreparedCorpus
from dragoman.data.prepare import PrepareConfig, is_prepared_from, prepare, settings_of
from dragoman.data.word_links import WordStarts
from dragoman.device import AUTO
from dragoman.experiment.dev_split import split_languages
from dragoman.experiment.guided_alignment import learn_missing_links, with_learned_links
from dragoman.experiment.machine import this_machine
from dragoman.experiment.parent import add_kept, new_corpora, pin_parent
from dragoman.experiment.preflight import check_folder, raise_problems
from dragoman.experiment.run_folder import check_same_recipe
from dragoman.experiment.run_state import PREPARED, RECIPE, has_checkpoint, newest_update
from dragoman.io.durable import write_durably
from dragoman.io.progress import Progress, ignore_progress
from dragoman.recipes.recipe import Recipe, dump_recipe, load_recipe, with_absolute_paths, with_data
from dragoman.text.vocab import Vocab
from dragoman.training.config import resolve_precision

ADDITIONS: Final = "joined.json"
PARENT: Final = "parent"
"""The folder with the vocabulary of the model that training began with."""


class Addition(Config):
    """Corpora that were added to a run, at the end of data.train."""

    first: int = Field(ge=1, description="index in data.train of the first added corpus")
    count: int = Field(ge=1, description="number of added corpora")
    epoch: int = Field(ge=0, description="first epoch that reads the added corpora")


Parts = dict[Path, PrepareConfig]
"""The prepare configs of the original and the added corpora, by prepared folder."""


def prepare_run(
    recipe: Recipe,
    folder: Path,
    num_workers: int = 2,
    progress: Progress = ignore_progress,
    allow_changes: bool = False,
    is_fast_in_bfloat16: bool | None = None,
    device: str = AUTO,
) -> Recipe:
    """Create the folder of a run, prepare its data, and write and return the final recipe.

    A stopped run is resumed if the recipe is the same or `allow_changes` is set. New corpora at the end of data.train
    are added to the run and use its vocabulary. `is_fast_in_bfloat16` decides what `precision: auto` means; by default
    the CPU does. On `device`, a parent translates old text.
    """
    folder, recipe = folder.absolute(), with_absolute_paths(recipe)
    raise_problems([check_folder(folder)])
    is_fast = this_machine().bfloat16 if is_fast_in_bfloat16 is None else is_fast_in_bfloat16
    before = _with_precision(load_recipe(folder / RECIPE), is_fast) if has_checkpoint(folder) else None
    recipe = _with_precision(recipe, before.training.precision == "bfloat16" if before else is_fast)
    recipe, parent = pin_parent(recipe, before)
    recipe, splits = add_kept(recipe, parent, folder, progress, device)
    additions = [added for added in load_additions(folder) if before or added.first < len(recipe.data.train)]
    known = _num_known(folder, len(before.data.train)) if before else len(recipe.data.train)
    first_corpora = recipe.data.train[: min([known, *(added.first for added in additions)])]
    first_corpora = tuple(corpus for corpus in first_corpora if corpus in new_corpora(recipe))
    if not recipe.data.dev_sets:
        drawn = split_languages(first_corpora, recipe.data.split, recipe.seed, folder)
        dev = tuple(split.corpus for split in drawn)
        recipe, splits = with_data(recipe, dev=dev if len(dev) > 1 else dev[0]), (*drawn, *splits)
    if len(recipe.data.train) < known:
        raise ValueError("a corpus cannot be removed from a resumed run: restore data.train, or give another --out")
    if before:
        check_same_recipe(before, recipe, allow_changes)
    if len(recipe.data.train) > known:
        for path, config in _parts(with_data(recipe, train=recipe.data.train[:known]), folder, additions).items():
            prepare(config, path, num_workers, progress, verify=False)  # damage is repaired: the addition depends on it
        additions.append(_new_addition(recipe, folder, known))
    parts = _parts(recipe, folder, additions)
    _remove_interrupted_additions(folder, parts)
    _check_prepared(recipe, folder, parts, all(each.is_written for each in splits))
    folder.mkdir(parents=True, exist_ok=True)
    for each in splits:
        each.write()
    if parent:
        _copy_vocabulary(parent, folder)
    for path, config in parts.items():
        learn_missing_links(config.corpora, folder, progress)
        prepare(config, path, num_workers, progress, verify=False)
    _save_additions(folder, additions)
    (folder / RECIPE).write_text(dump_recipe(recipe), encoding="utf-8")
    return recipe


def load_additions(folder: Path) -> list[Addition]:
    """Return all additions to a run, in order."""
    path = folder / ADDITIONS
    return [Addition.model_validate(added) for added in json.loads(path.read_bytes())] if path.exists() else []


def _save_additions(folder: Path, additions: Sequence[Addition]) -> None:
    """Write all additions to the run folder, as the order of batches depends on the additions."""
    if additions or (folder / ADDITIONS).exists():
        write_durably(folder / ADDITIONS, json.dumps([added.model_dump() for added in additions]).encode())


def _with_precision(recipe: Recipe, is_fast_in_bfloat16: bool) -> Recipe:
    return recipe.model_copy(update={"training": resolve_precision(recipe.training, is_fast_in_bfloat16)})


def _num_known(folder: Path, default: int) -> int:
    """Return the number of corpora that the run was prepared with; `default` if unknown."""
    if additions := load_additions(folder):
        return additions[-1].first + additions[-1].count
    prepared = folder / PREPARED
    return len(Manifest.load(prepared).corpora) if (prepared / MANIFEST).exists() else default


def _new_addition(recipe: Recipe, folder: Path, known: int) -> Addition:
    """Return the addition of the new corpora in the recipe, which training reads from the next epoch on."""
    plan = TrainingData.open(folder).reader(recipe).plan
    epoch = plan.next_epoch(newest_update(folder) * recipe.training.batches_per_update)
    # Where batches have become smaller, that may be an epoch before an earlier addition.
    epoch = max([epoch, *(added.epoch for added in load_additions(folder))])
    return Addition(first=known, count=len(recipe.data.train) - known, epoch=epoch)


def _parts(recipe: Recipe, folder: Path, additions: Sequence[Addition]) -> Parts:
    """Return the prepare configs of the original corpora, which train the vocabulary, and of each addition."""
    data, parts = recipe.data, {}
    is_guided = recipe.training.guided_alignment.weight > 0
    firsts = [0, *(added.first for added in additions)]
    for first, last in pairwise([*firsts, len(data.train)]):
        parts[_part_folder(folder, first)] = PrepareConfig(
            corpora=with_learned_links(data.train[first:last], folder) if is_guided else data.train[first:last],
            held_out=data.held_out,
            clean=data.clean,
            vocabulary=None if first else data.vocabulary,
            vocabulary_of=f"../{PREPARED}" if first else f"../{PARENT}" if recipe.init else None,
            sample=data.sample,
            keep_text=recipe.training.subword_sampling > 0,
            augment=recipe.training.augment,
        )
    return parts


def _copy_vocabulary(parent: Bundle, run: Path) -> None:
    """Write the vocabulary of the parent into the run folder; raise ValueError if the run has another vocabulary."""
    if (run / PREPARED / MANIFEST).exists() and Vocab.load(run / PREPARED).sha256 != parent.vocab.sha256:
        wrong = f"{run / PREPARED} was prepared with the vocabulary of another model"
        raise ValueError(f"{wrong}: give another --out, or remove the whole folder {run} first")
    (run / PARENT).mkdir(exist_ok=True)
    parent.vocab.save(run / PARENT)


def _check_prepared(recipe: Recipe, run: Path, parts: Parts, is_split_kept: bool) -> None:
    """Raise the ValueErrors that `prepare` would raise, before any file is written."""
    check_corpora([*recipe.data.train, *recipe.data.held_out])
    for path, config in parts.items():
        if _is_different(path, config) or ((path / MANIFEST).exists() and not is_split_kept):
            wrong = f"{path} was prepared from other files or with other settings"
            raise ValueError(f"{wrong}: give another --out, or remove the whole folder {run} first")


def _remove_interrupted_additions(run: Path, parts: Parts) -> None:
    """Remove the folders of interrupted additions whose settings differ from the current settings."""
    known = {_part_folder(run, first) for first in (0, *(added.first for added in load_additions(run)))}
    for path, config in parts.items():
        if path not in known and _is_different(path, config):
            shutil.rmtree(path)


def _is_different(folder: Path, config: PrepareConfig) -> bool:
    manifest = Manifest.load(folder) if (folder / MANIFEST).exists() else None
    return manifest is not None and not is_prepared_from(manifest.settings, settings_of(config))


def _part_folder(folder: Path, first: int) -> Path:
    return folder / (f"{PREPARED}-{first}" if first else PREPARED)


class TrainingData(NamedTuple):
    """The prepared folders of a run: the original corpora and the added corpora."""

    beginning: Prepared
    added: tuple[AddedCorpora, ...]

    @staticmethod
    def open(folder: Path) -> "TrainingData":
        """Open the prepared folders of a run; the reader verifies shards when it first reads from them."""
        beginning = Prepared.open(folder / PREPARED, verify=False)
        added = []
        for addition in load_additions(folder):
            prepared = Prepared.open(_part_folder(folder, addition.first), verify=False)
            if prepared.manifest.vocabulary != beginning.manifest.vocabulary:
                wrong = f"{prepared.folder} has a different vocabulary from {beginning.folder}"
                raise ValueError(f"{wrong}: remove {prepared.folder}, and run the same command again")
            added.append(AddedCorpora(addition.epoch, prepared))
        return TrainingData(beginning, tuple(added))

    @property
    def folders(self) -> list[Prepared]:
        """All prepared folders, in the order in which they were added to the run."""
        return [self.beginning, *(part.prepared for part in self.added)]

    def corpora(self, recipe: Recipe, updates: int) -> list[PreparedCorpus]:
        """Return the corpora from which a run has read after this number of updates."""
        ranges = self.reader(recipe).plan.ranges
        last = updates * recipe.training.batches_per_update
        read = [folder for folder, each in zip(self.folders, ranges, strict=True) if each.first_batch < max(1, last)]
        return [corpus for folder in read for corpus in folder.manifest.corpora]

    @property
    def num_pairs(self) -> int:
        """The number of sentence pairs to train on, without those that augmentation added."""
        return sum(folder.manifest.counts["stayed"] for folder in self.folders)

    @property
    def num_added(self) -> int:
        """The number of pairs that augmentation added to the sentence pairs."""
        return sum(corpus.num_added for folder in self.folders for corpus in folder.manifest.corpora)

    def first_updates(self, recipe: Recipe) -> Iterator[tuple[str, int]]:
        """Yield the name of each added corpus, and the first update that may read from this corpus."""
        if not self.added:
            return  # cutting a large corpus into batches takes a while, and every start would
        ranges = self.reader(recipe).plan.ranges
        for each, part in zip(ranges[1:], self.added, strict=True):
            for corpus in part.prepared.manifest.corpora:
                yield corpus.name, each.first_batch // recipe.training.batches_per_update + 1

    def reader(self, recipe: Recipe, vocab: Vocab | None = None) -> Reader:
        """Return a reader of training batches; subword sampling and guided alignment need the vocabulary."""
        rate = recipe.training.subword_sampling
        sampling = SubwordSampling(vocab, rate, recipe.seed) if vocab and rate else None
        word_starts = WordStarts.of(vocab) if vocab and recipe.training.guided_alignment.weight else None
        return Reader.of(self.beginning, recipe.training.batch, recipe.seed, sampling, self.added, word_starts)
