import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

from dragoman.data.corpus import CorpusConfig
from dragoman.experiment.census import Census, take_census
from dragoman.experiment.doctor import (
    check_cleaning,
    check_disk,
    check_languages,
    check_machine,
    check_run,
    check_time,
    check_vocabulary,
)
from dragoman.experiment.findings import Finding, check_num_pairs
from dragoman.experiment.machine import Machine
from dragoman.experiment.preflight import RunSetup
from dragoman.recipes.recipe import DataSection, InitSection, KeepSection, Recipe, override_recipe

MACHINE = Machine(cores=2, memory=80_000_000_000, bfloat16=True)
NOUNS = ["cat", "dog", "house", "tree", "river", "stone", "child", "woman", "bread", "window", "garden", "letter"]
VERBS = ["sees", "finds", "likes", "paints", "carries", "forgets"]
ENGLISH = [f"the {a} {verb} a {b} today" for a in NOUNS for verb in VERBS for b in NOUNS if a != b]


def german(text: str) -> str:
    """Another language, of other words, as long as the first."""
    return " ".join(word[::-1] + "en" for word in text.split())


def corpus(folder: Path, name: str, texts: list[str], targets: list[str] | None = None) -> CorpusConfig:
    source, target = folder / f"{name}.en", folder / f"{name}.de"
    source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    target.write_text("".join(f"{text}\n" for text in targets or map(german, texts)), encoding="utf-8")
    return CorpusConfig(name=name, source=str(source), target=str(target))


def recipe(train: CorpusConfig, *changes: str, **held_out: object) -> Recipe:
    data = DataSection.model_validate({"train": (train,), **held_out})
    return override_recipe(Recipe(name="x", data=data), changes)


def quietly(what: str, done: int, total: int | None) -> None:
    assert what
    assert total is None or done <= total


def shown(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(finding.level, finding.message) for finding in findings]


@pytest.fixture
def train(tmp_path: Path) -> CorpusConfig:
    return corpus(tmp_path, "train", ENGLISH[100:])


def test_a_good_recipe_has_one_finding_for_each_look(tmp_path: Path, train: CorpusConfig) -> None:
    dev = corpus(tmp_path, "dev", ENGLISH[:40])
    described = recipe(train, "model.preset=tiny", "training.stop.time=20m", dev=dev.model_dump())
    findings = [f for f in check_run(RunSetup(described, tmp_path / "run", 1), MACHINE, quietly) if f.check != "load"]
    assert [finding.check for finding in findings] == [
        *(
            "files",
            "files",
            "processes",
            "memory",
            "pairs",
            "cleaning",
            "alignment",
            "alignment",
            "vocabulary",
            "time",
            "disk",
        )
    ]
    assert [finding.check for finding in findings if finding.level == "problem"] == []


def test_what_needs_the_data_is_left_out_where_there_is_none(tmp_path: Path) -> None:
    described = recipe(CorpusConfig(source=str(tmp_path / "a.en"), target=str(tmp_path / "a.de")))
    findings = [f for f in check_run(RunSetup(described, None, 1), MACHINE, quietly) if f.check != "load"]
    assert [finding.check for finding in findings] == ["files", "processes", "memory"]
    assert "there is no such file" in findings[0].message


def test_sides_of_different_length_are_a_problem(tmp_path: Path) -> None:
    described = recipe(corpus(tmp_path, "train", ENGLISH[:50], ENGLISH[:49]))
    *_, last = check_run(RunSetup(described, None, 1), MACHINE, quietly)
    assert (last.check, last.level) == ("data", "problem")
    assert "has 50 lines but" in last.message


def test_a_busy_machine_is_pointed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.9, 5.0, 5.0))
    assert [finding.check for finding in check_machine(MACHINE)] == ["machine"]
    monkeypatch.setattr(os, "getloadavg", lambda: (1.1, 0.0, 0.0))
    _, load = check_machine(MACHINE)
    assert (load.level, "keep 1.1 of 2 cores busy" in load.message) == ("warning", True)


def test_few_pairs_are_pointed_out(train: CorpusConfig) -> None:
    census = take_census([train])
    assert census.pairs == len(ENGLISH) - 100
    assert check_num_pairs(census.pairs, census.tokens).level == "warning"
    assert check_num_pairs(2_000).level == "ok"


def test_dropped_pairs_are_counted_by_reason(tmp_path: Path) -> None:
    def found(bad: int) -> Finding:
        texts = ENGLISH[:200]
        (finding,) = check_cleaning(
            recipe(corpus(tmp_path, "train", texts, ["" if i < bad else german(text) for i, text in enumerate(texts)])),
            quietly,
        )
        return finding

    assert found(0) == ("cleaning", "ok", "train: 0.0% of 200 pairs would be dropped")
    assert found(10) == ("cleaning", "ok", "train: 5.0% of 200 pairs would be dropped (empty-side 10)")
    assert found(60).level == "warning"
    assert found(200).level == "problem"


def test_held_out_pairs_among_the_training_pairs_are_found(tmp_path: Path, train: CorpusConfig) -> None:
    dev = corpus(tmp_path, "dev", [*ENGLISH[:5], *ENGLISH[100:103]])
    test = corpus(tmp_path, "test", [*ENGLISH[3:5], *ENGLISH[20:24]])
    _, leak, twins = check_cleaning(recipe(train, dev=dev.model_dump(), test=[test.model_dump()]), quietly)
    assert leak.message.startswith(
        "3 pairs of train are held out too, and are left out of training: line 1 of train is "
    )
    assert leak.message.endswith("dev.en, line 6")
    assert twins == ("leaks", "warning", "2 pairs of test are in dev too: remove them from test")


def test_swapped_sides_are_found(tmp_path: Path, train: CorpusConfig) -> None:
    texts = ENGLISH[:30]
    straight = corpus(tmp_path, "dev", texts)
    swapped = CorpusConfig(name="dev", source=straight.target or "", target=straight.source)
    census = take_census([train])
    assert shown(check_languages(recipe(train, dev=straight.model_dump()), census)) == []
    (finding,) = check_languages(recipe(train, dev=swapped.model_dump()), census)
    assert (finding.level, finding.message.startswith("dev: source resembles the target")) == ("problem", True)


def test_files_that_contradict_the_recipe_are_found(train: CorpusConfig) -> None:
    census = take_census([train])
    assert shown(check_languages(recipe(train, "source_language=en", "target_language=de"), census)) == []
    (finding,) = check_languages(recipe(train, "source_language=de", "target_language=en"), census)
    assert finding == (
        *("languages", "problem"),
        "the files are en to de, but the recipe says de to en: swap source and target",
    )


def test_one_language_on_both_sides_is_pointed_out(tmp_path: Path) -> None:
    same = corpus(tmp_path, "train", ENGLISH, ENGLISH[::-1])
    (finding,) = check_languages(recipe(same), take_census([same]))
    assert (finding.level, "check that the languages differ" in finding.message) == ("warning", True)


def test_a_vocabulary_that_cannot_be_learned_is_a_problem(train: CorpusConfig) -> None:
    census = take_census([train])

    def found(*changes: str) -> Finding:
        return check_vocabulary(recipe(train, *changes), census)

    assert found().message.startswith("about ")
    assert found("data.vocabulary.size=300").level == "ok"
    large = found("data.vocabulary.size=9000")
    assert (large.level, "too large for a sample" in large.message) == ("problem", True)
    small = found("data.vocabulary.size=262", "data.vocabulary.character_coverage=1.0")
    assert (small.level, "too small for a sample" in small.message) == ("problem", True)


def test_a_vocabulary_may_be_too_large_to_be_seen_often(train: CorpusConfig) -> None:
    census = Census(10_000, 1_300_000, 30.0, 90, frozenset(), frozenset(), is_whole=False)
    assert check_vocabulary(recipe(train, "data.vocabulary.size=15001"), census).level == "warning"
    assert check_vocabulary(recipe(train, "data.vocabulary.size=15000"), census).level == "ok"


def test_the_time_is_held_against_the_data_and_the_warm_up(train: CorpusConfig) -> None:
    census = Census(29_000, 4_000_000, 32.0, 90, frozenset(), frozenset(), is_whole=False)
    tiny = (
        "model.preset=tiny",
        "data.vocabulary.size=6000",
        "training.precision=bfloat16",
        "training.batches_per_update=2",
        "training.schedule.warmup=800",
    )

    def found(*changes: str, machine: Machine = MACHINE) -> tuple[str, str]:
        finding = check_time(recipe(train, *tiny, *changes), census, machine)
        return finding.level, finding.message

    level, message = found("training.stop.updates=6000")
    assert (level, message.startswith("about 6,000 updates, 51.")) == ("ok", True)
    assert message.endswith("hours or so")
    level, message = found("training.stop.time=45m")
    assert (level, message.endswith(", in 45m")) == ("ok", True)
    assert "too few for a warm-up of 4,000" in found("training.stop.time=20m", "training.schedule.warmup=4000")[1]
    assert found("training.stop.time=3m", "training.schedule.warmup=10")[1].endswith(
        "few epochs; give more time, or a smaller model"
    )
    assert "set training.precision=float32" in found(machine=Machine(2, None, bfloat16=False))[1]


def test_pairs_put_aside_are_not_read_in_training(train: CorpusConfig) -> None:
    census = Census(300, 30_000, 32.0, 90, frozenset(), frozenset(), is_whole=True)
    tiny = ("model.preset=tiny", "training.stop.updates=6000", "training.schedule.warmup=10")
    messages = [check_time(recipe(train, *tiny, f"data.split={split}"), census, MACHINE).message for split in (30, 150)]
    few, many = (float(message.split(" updates, ")[1].split(" epochs")[0].replace(",", "")) for message in messages)
    assert many / few == pytest.approx(270 / 150, rel=1e-3)
    finding = check_time(recipe(train, *tiny, "data.split=151"), census, MACHINE)
    assert (finding.level, "data.split to 30" in finding.message) == ("problem", True)


def test_an_epoch_reads_old_pairs_too(train: CorpusConfig) -> None:
    census = Census(4000, 400_000, 32.0, 90, frozenset(), frozenset(), is_whole=True)
    short = ("training.stop.updates=6000", "training.schedule.warmup=10", "data.split=1000")
    num_old = len(Path(train.source).read_text(encoding="utf-8").splitlines())
    plain = recipe(train, "model.preset=tiny", *short)
    keep = KeepSection(source=train.source, target=str(train.target))
    with_keep = plain.model_copy(update={"init": InitSection(bundle="demo", keep=keep)})
    messages = [check_time(each, census, MACHINE).message for each in (plain, with_keep)]
    without, with_old = (float(message.split(" updates, ")[1].split(" epochs")[0]) for message in messages)
    assert without / with_old == pytest.approx(1 + min(3000, 2 * num_old) / 3000, rel=0.01)


def test_a_full_disk_is_found_before_it_is_full(
    tmp_path: Path, train: CorpusConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = RunSetup(recipe(train, "model.preset=tiny"), tmp_path / "new" / "run", 1)
    census = Census(29_000, 2_000_000_000, 32.0, 90, frozenset(), frozenset(), is_whole=False)
    looked_at = []
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: looked_at.append(path) or SimpleNamespace(free=10_100_000_000)
    )
    assert check_disk(setup, census) == ("disk", "ok", "the run writes about 10.02 GB, and 10.1 GB are free")
    assert looked_at == [tmp_path]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10_000_000_000))
    assert check_disk(setup, census).level == "problem"
