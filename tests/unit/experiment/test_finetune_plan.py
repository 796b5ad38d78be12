"""The autopilot's choices for a training that begins with a trained model."""

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.bundle import demo_folder, open_bundle
from dragoman.data.corpus import CorpusConfig
from dragoman.experiment.autopilot import Plan
from dragoman.experiment.census import Census
from dragoman.experiment.finetune_plan import FinetuneInputs, plan_finetuning
from dragoman.experiment.machine import Machine, tokens_per_update
from dragoman.io.progress import ignore_progress
from dragoman.models.presets import preset
from dragoman.recipes.recipe import InitSection, KeepSection, dump_recipe, load_recipe

MACHINE = Machine(cores=2, memory=20_000_000_000, bfloat16=False)
MINUTE = 60.0


def write(folder: Path, name: str, num: int) -> tuple[str, str]:
    for code in ("en", "de"):
        lines = (f"a little line of {code}, the {number}th of them\n" for number in range(num))
        (folder / f"{name}.{code}").write_text("".join(lines), encoding="utf-8")
    return str(folder / f"{name}.en"), str(folder / f"{name}.de")


def plan(folder: Path, pairs: int, time: float = 30 * MINUTE, keep: KeepSection | None = None) -> Plan:
    source, target = write(folder, "a", pairs)
    corpus, init = CorpusConfig(source=source, target=target), InitSection(bundle="demo", keep=keep)
    return plan_finetuning(
        [corpus], "run", init, open_bundle(demo_folder()), time, MACHINE, ignore_progress
    )  # fmt: skip


def inputs(pairs: int, time: float = 30 * MINUTE, machine: Machine = MACHINE, size: str = "small") -> FinetuneInputs:
    census = Census(pairs, 130 * pairs, 30.0, 90, frozenset(), frozenset(), is_whole=True)
    return FinetuneInputs(census, preset(size, 8000), time, machine)


@pytest.mark.parametrize("pairs", [30, 500, 5000])
@pytest.mark.parametrize("time", [3 * MINUTE, 60 * MINUTE])
def test_every_size_gives_a_recipe_with_many_small_updates(tmp_path: Path, pairs: int, time: float) -> None:
    keep = KeepSection(source=write(tmp_path, "old", 300)[0], target=str(tmp_path / "old.de"))
    recipe = plan(tmp_path, pairs, time, keep).recipe
    (tmp_path / "recipe.yaml").write_text(dump_recipe(recipe), encoding="utf-8")
    assert load_recipe(tmp_path / "recipe.yaml") == recipe
    training = recipe.training
    assert training.stop.updates >= 100
    assert training.schedule.warmup <= 50
    assert training.stop.time is not None
    assert time / 2 <= training.stop.time < time
    assert training.batch.tokens * training.batches_per_update <= 8192
    assert recipe.data.split <= pairs // 4
    assert recipe.validation.max_pairs is not None
    assert recipe.validation.max_pairs <= recipe.data.split
    assert isinstance(training.validate_every, int)
    assert recipe.model.dropout >= 0.1


def test_many_updates_fit_even_into_a_few_minutes() -> None:
    for pairs in (500, 1000, 5000, 29_000):
        short = inputs(pairs, 4 * MINUTE)
        assert short.speed * short.training_time / short.update_tokens >= 100
        validations = 9 * short.max_pairs * short.seconds_per_pair
        assert validations <= 0.15 * short.training_time or short.max_pairs == 50


def test_the_learning_rate_grows_with_the_pairs_and_falls_with_the_width() -> None:
    rates = [inputs(pairs).rate for pairs in (20, 500, 1000, 5000, 29_000, 10**6)]
    assert rates == sorted(rates)
    assert (rates[0], rates[-2], rates[-1]) == (2e-5, 5e-4, 5e-4)
    assert replace(inputs(1000), num_old=700).rate == pytest.approx(1.5 * inputs(1000).rate, rel=0.05)
    assert replace(inputs(29_000), num_old=700).rate == 5e-4
    assert inputs(1000, size="paper-base").rate < inputs(1000).rate
    assert inputs(20, size="paper-big").rate == 2e-5


def test_on_accelerators_there_is_a_batch_for_each_of_them_however_many_cores(tmp_path: Path) -> None:
    gpus = Machine(cores=64, memory=None, bfloat16=True, speed=30.0, device="cuda", num_devices=2)
    source, target = write(tmp_path, "a", 600)
    corpora, init = [CorpusConfig(source=source, target=target)], InitSection(bundle="demo")
    made = plan_finetuning(corpora, "run", init, open_bundle(demo_folder()), 30 * MINUTE, gpus, ignore_progress)
    assert made.recipe.training.batches_per_update == 2
    assert "this cuda device is fast in bfloat16" in [choice.reason for choice in made.choices]
    fewer_cores = replace(gpus, cores=4)
    assert inputs(5000, machine=gpus).seconds_per_pair == inputs(5000, machine=fewer_cores).seconds_per_pair


def test_fewer_pairs_are_read_more_often() -> None:
    epochs = [inputs(pairs).max_epochs for pairs in (500, 5000, 29_000)]
    assert epochs == sorted(epochs, reverse=True)
    assert len(set(epochs)) == 3


def test_without_old_text_forgetting_is_announced(tmp_path: Path) -> None:
    (warning,) = plan(tmp_path, 600).warnings
    assert "--keep" in warning
    source, target = write(tmp_path, "old", 400)
    with_pairs = plan(tmp_path, 600, keep=KeepSection(source=source, target=target))
    assert with_pairs.warnings == ()
    assert ("old text", "400 pairs") in [choice[:2] for choice in with_pairs.choices]
    shares = [made.recipe.init.parent_share for made in (plan(tmp_path, 600), with_pairs) if made.recipe.init]
    assert shares == [0.0, pytest.approx(0.2)]
    rehearsed = plan(tmp_path, 600, keep=KeepSection(source=source))
    assert "400 sentences, translated by the parent" in [choice.value for choice in rehearsed.choices]
    assert rehearsed.recipe.init is not None
    assert rehearsed.recipe.init.keep is not None
    assert rehearsed.recipe.init.keep.target is None


def test_a_short_time_is_announced_with_a_longer_one(tmp_path: Path) -> None:
    slow = Machine(cores=1, memory=None, bfloat16=False, speed=0.02)
    source, target = write(tmp_path, "a", 600)
    init = InitSection(bundle="demo")
    corpora = [CorpusConfig(source=source, target=target)]
    made = plan_finetuning(corpora, "run", init, open_bundle(demo_folder()), 60.0, slow, ignore_progress)
    assert "--time" in made.warnings[-1]
    assert tokens_per_update(made.recipe) <= 512
    assert made.recipe.training.schedule.warmup == 1


def test_text_in_the_other_direction_or_too_little_of_it_is_refused(tmp_path: Path) -> None:
    source, target = write(tmp_path, "a", 60)
    parent, init = open_bundle(demo_folder()), InitSection(bundle="demo")
    swapped = [CorpusConfig(source=target, target=source)]
    with pytest.raises(ValueError, match="de to en, but the model translates en to de: swap"):
        plan_finetuning(swapped, "run", init, parent, MINUTE, MACHINE, ignore_progress)
    old = KeepSection(source=target, target=source)
    with pytest.raises(ValueError, match=r"de to en, but the model translates en to de: swap .* --keep"):
        plan(tmp_path, 60, keep=old)
    with pytest.raises(ValueError, match="19 pairs are too few"):
        plan(tmp_path, 19)
