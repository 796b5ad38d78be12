"""A corpus that is added to a run when it is resumed: the others keep their place, and the run its vocabulary."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.bundle import open_bundle
from dragoman.data.dates import dates
from dragoman.experiment.run_state import has_checkpoint
from dragoman.experiment.train_model import train_model
from dragoman.experiment.training_data import ADDITIONS, Addition, TrainingData, load_additions, prepare_run
from dragoman.recipes.recipe import Recipe, dump_recipe, load_recipe, override_recipe
from dragoman.text.vocab import Vocab
from dragoman.training.parallel import Group

pytestmark = pytest.mark.slow

SAVED = 6


def corpus(folder: Path, name: str, seed: int) -> dict[str, Any]:
    sides = list(zip(*dates(300, seed), strict=True))
    for side, texts in zip(("source", "target"), sides, strict=True):
        (folder / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return {"name": name, "source": str(folder / f"{name}.source"), "target": str(folder / f"{name}.target")}


def recipe(*corpora: dict[str, Any]) -> Recipe:
    sizes = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    training = {
        "batch": {"tokens": 1000},
        "schedule": {"factors": ["warmup"], "rate": 0.004, "warmup": 10},
        "stop": {"updates": 30, "metric": "loss"},
        "checkpoints": {"every": SAVED},
        "log_every": 1,
        "validate_every": 30,
    }
    described = {
        "name": "dates",
        "data": {"train": corpora, "split": 20, "vocabulary": {"size": 330, "character_coverage": 1.0}},
        "model": {"family": "transformer"} | sizes,
        "training": training,
        "validation": {"search": {"beam_size": 1}},
    }
    return Recipe.model_validate(described)


def stop(event: dict[str, Any]) -> None:
    if event["event"] == "update" and event["update"] > SAVED:
        raise KeyboardInterrupt


@pytest.fixture
def stopped(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A run with one corpus that was stopped in an epoch, and that corpus."""
    found = corpus(tmp_path, "found", 1)
    prepare_run(recipe(found), tmp_path / "run", num_workers=1)
    with pytest.raises(KeyboardInterrupt):
        train_model(tmp_path / "run", Group(), stop)
    while not has_checkpoint(tmp_path / "run"):
        time.sleep(0.01)  # a thread is still at work on it, which would have died with a process of its own
    return tmp_path / "run", found


def test_it_joins_when_the_epoch_is_over(stopped: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    run, found = stopped
    alone = TrainingData.open(run).reader(recipe(found)).plan
    vocab = Vocab.load(run / "prepared").sha256
    both = prepare_run(recipe(found, corpus(tmp_path, "made", 2)), run, num_workers=1, allow_changes=True)
    (join,) = load_additions(run)
    assert join == Addition(first=1, count=1, epoch=alone.next_epoch(SAVED))
    together = TrainingData.open(run).reader(both).plan
    joins = join.epoch * alone.num_batches
    assert SAVED <= joins < 30, "the test needs an epoch that ends after the stop and before the end"
    for index in range(joins):
        assert together.at(index).rows.tolist() == alone.at(index).rows.tolist()
    then = [together.at(joins + index).corpus for index in range(together.num_batches)]
    assert sorted(then) == [0] * alone.num_batches + [1] * (together.num_batches - alone.num_batches)
    assert Vocab.load(run / "prepared-1").sha256 == vocab
    events: list[dict[str, Any]] = []
    train_model(run, Group(), events.append)
    assert [event["update"] for event in events if event["event"] == "resumed"] == [SAVED]
    assert [data.name for data in open_bundle(run).card.data] == ["found", "made"]
    assert events[0]["pairs"] == sum(data.pairs for data in open_bundle(run).card.data)


def test_the_same_recipe_once_more_changes_nothing(stopped: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    run, found = stopped
    both = recipe(found, corpus(tmp_path, "made", 2))
    prepare_run(both, run, num_workers=1, allow_changes=True)
    kept = (run / ADDITIONS).read_bytes()
    prepare_run(both, run, num_workers=1)
    assert (run / ADDITIONS).read_bytes() == kept


def test_a_third_joins_after_the_second(stopped: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    run, found = stopped
    more = [corpus(tmp_path, name, seed) for seed, name in enumerate(["made", "more"], 2)]
    prepare_run(recipe(found, more[0]), run, num_workers=1, allow_changes=True)
    described = prepare_run(recipe(found, *more), run, num_workers=1, allow_changes=True)
    assert [join.first for join in load_additions(run)] == [1, 2]
    material = TrainingData.open(run)
    assert [corpus.name for corpus in material.corpora(described, 10**6)] == ["found", "made", "more"]
    plan = material.reader(described).plan
    last = plan.ranges[-1]
    assert {plan.at(last.first_batch + index).corpus for index in range(plan.num_batches)} == {0, 1, 2}


def test_what_was_left_by_another_that_was_broken_off_while_it_joined_is_removed(
    stopped: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    run, found = stopped
    prepare_run(recipe(found, corpus(tmp_path, "made", 2)), run, num_workers=1, allow_changes=True)
    (run / ADDITIONS).unlink()  # as if it had been killed just before
    prepare_run(recipe(found, corpus(tmp_path, "other", 3)), run, num_workers=1, allow_changes=True)
    assert [corpus.name for corpus in TrainingData.open(run).corpora(recipe(found), 99)] == ["found", "other"]


def test_one_that_is_put_into_the_runs_own_recipe_joins_too(
    stopped: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    run, found = stopped
    both = recipe(found, corpus(tmp_path, "made", 2))
    dev = load_recipe(run / "recipe.yaml").data.dev
    edited = both.model_copy(update={"data": both.data.model_copy(update={"dev": dev})})
    (run / "recipe.yaml").write_text(dump_recipe(edited), "utf-8")
    prepare_run(edited, run, num_workers=1)
    assert [join.first for join in load_additions(run)] == [1]


def test_one_that_comes_with_smaller_batches_joins_after_those_before_it(
    stopped: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    run, found = stopped
    corpora = [found, *(corpus(tmp_path, name, seed) for seed, name in enumerate(["made", "more"], 2))]
    prepare_run(recipe(*corpora[:2]), run, num_workers=1, allow_changes=True)
    smaller = override_recipe(recipe(*corpora), ["training.batch.tokens=60"])
    prepare_run(smaller, run, num_workers=1, allow_changes=True)
    first, second = load_additions(run)
    assert first.epoch == second.epoch
    assert TrainingData.open(run).reader(smaller).plan.num_batches > 0


def test_damage_is_repaired_before_corpora_are_added(stopped: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    run, found = stopped
    shard = run / "prepared" / "found-00000.arrow"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-10])
    prepare_run(recipe(found, corpus(tmp_path, "made", 2)), run, num_workers=1, allow_changes=True)
    assert shard.read_bytes() == whole


def test_another_vocabulary_is_refused(stopped: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    run, found = stopped
    prepare_run(recipe(found, corpus(tmp_path, "made", 2)), run, num_workers=1, allow_changes=True)
    other = override_recipe(recipe(found), ["data.vocabulary.size=320"])
    prepare_run(other, tmp_path / "other", num_workers=1)
    shutil.rmtree(run / "prepared")
    (tmp_path / "other" / "prepared").rename(run / "prepared")
    with pytest.raises(ValueError, match="prepared-1 has a different vocabulary from"):
        TrainingData.open(run)


def test_the_card_names_what_was_read(stopped: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    run, found = stopped
    both = prepare_run(recipe(found, corpus(tmp_path, "made", 2)), run, num_workers=1, allow_changes=True)
    material = TrainingData.open(run)
    ((name, update),) = material.first_updates(both)
    assert name == "made"
    assert [corpus.name for corpus in material.corpora(both, update - 1)] == ["found"]
    assert [corpus.name for corpus in material.corpora(both, update)] == ["found", "made"]


def test_a_run_with_relative_paths_goes_on_from_wherever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus(tmp_path, "found", 1)
    monkeypatch.chdir(tmp_path)
    relative = recipe({"name": "found", "source": "found.source", "target": "found.target"})
    described = prepare_run(relative, Path("run"), 1)
    (tmp_path / "run" / "checkpoints" / "update-000000001").mkdir(parents=True)
    assert prepare_run(relative, Path("run"), 1) == described
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert prepare_run(load_recipe(tmp_path / "run" / "recipe.yaml"), Path("../run").resolve(), 1) == described


def test_a_run_may_be_called_by_a_relative_path_and_moved(
    stopped: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, found = stopped
    relative = {"name": "found", "source": "found.source", "target": "found.target"}
    monkeypatch.chdir(tmp_path)
    prepare_run(recipe(relative), Path("run"), num_workers=1)  # the same run, and so not refused
    made = corpus(tmp_path, "made", 2)
    with_dev = load_recipe(run / "recipe.yaml")
    both = with_dev.model_copy(
        update={"data": with_dev.data.model_copy(update={"train": recipe(found, made).data.train})}
    )
    prepare_run(both, Path("run"), num_workers=1, allow_changes=True)
    run.rename(tmp_path / "moved")
    (tmp_path / "run").symlink_to("moved")  # its validation pairs are files of their own, and named so
    prepare_run(both, tmp_path / "moved", num_workers=1)


def test_it_is_refused_unless_meant_and_a_corpus_never_leaves(
    stopped: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    run, found = stopped
    made = corpus(tmp_path, "made", 2)
    with pytest.raises(ValueError, match=r"data\.train\.1: nothing before, made now"):
        prepare_run(recipe(found, made), run, num_workers=1)
    assert not (run / "prepared-1").exists()
    prepare_run(recipe(found, made), run, num_workers=1, allow_changes=True)
    for meant in (True, False):  # no use in offering what is refused then
        with pytest.raises(ValueError, match="a corpus cannot be removed from a resumed run"):
            prepare_run(recipe(found), run, num_workers=1, allow_changes=meant)
    with pytest.raises(ValueError, match="was prepared from other files or with other settings"):
        prepare_run(recipe(made, found), run, num_workers=1, allow_changes=True)
