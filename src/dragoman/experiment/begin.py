"""A run begins, or goes on: its folder is made, its data prepared, and its recipe kept there as it will be run."""

from pathlib import Path
from typing import Final

from dragoman.data.prepare import prepare
from dragoman.data.progress import Progress
from dragoman.experiment.again import refuse_changes
from dragoman.experiment.material import (
    Join,
    clear,
    joins_now,
    joins_of,
    num_known,
    parts,
    refuse_other,
    remember_joins,
)
from dragoman.experiment.preflight import is_under_way, newest_update, of_folder, refuse
from dragoman.experiment.recipe import Recipe, dump_recipe, load_recipe, with_data, with_whole_paths
from dragoman.experiment.split import split_off

RECIPE: Final = "recipe.yaml"


def begin(
    recipe: Recipe, folder: Path, num_workers: int = 2, progress: Progress | None = None, changed: bool = False
) -> Recipe:
    """Make the folder of a run and prepare its data; the recipe as it will be run, which is kept there too.

    A run that was begun before goes on, if its recipe is the same or a `changed` one is meant. Corpora that a changed
    one has beside the others join the run, with its vocabulary.
    """
    folder, recipe = folder.absolute(), with_whole_paths(recipe)
    refuse([of_folder(folder)])
    before = load_recipe(folder / RECIPE) if is_under_way(folder) else None
    joins = [join for join in joins_of(folder) if before or join.first < len(recipe.data.train)]
    known = num_known(folder, len(before.data.train)) if before else len(recipe.data.train)
    beginning = recipe.data.train[: min([known, *(join.first for join in joins)])]
    split = None if recipe.data.dev else split_off(beginning, recipe.data.split, recipe.seed, folder)
    if split:
        recipe = with_data(recipe, dev=split.corpus)
    if len(recipe.data.train) < known:
        raise ValueError("a corpus cannot leave a run that goes on: leave it in data.train, or give another --out")
    if before:
        refuse_changes(before, recipe, changed)
        joins = _with_new(recipe, folder, joins, known, num_workers, progress)
    some = list(parts(recipe, folder, joins))
    clear(folder, some)
    refuse_other(folder, some, split is None or split.is_written)
    folder.mkdir(parents=True, exist_ok=True)
    if split:
        split.write()
    for part in some:
        prepare(part.config, part.folder, num_workers, progress)
    remember_joins(folder, joins)
    (folder / RECIPE).write_text(dump_recipe(recipe), encoding="utf-8")
    return recipe


def _with_new(
    recipe: Recipe, folder: Path, joins: list[Join], known: int, num_workers: int, progress: Progress | None
) -> list[Join]:
    """The joins of a run that goes on: those it had, and that of the corpora it does not know yet."""
    if len(recipe.data.train) == known:
        return joins
    for part in parts(with_data(recipe, train=recipe.data.train[:known]), folder, joins):
        prepare(part.config, part.folder, num_workers, progress)  # damage is mended: what joins depends on it
    return joins_now(recipe, folder, known, newest_update(folder))
