from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.data.corpus import CorpusConfig
from dragoman.experiment.machine import Machine, training_memory
from dragoman.experiment.preflight import (
    Finding,
    RunSetup,
    check_files,
    check_folder,
    check_memory,
    check_processes,
    check_tensorboard,
    preflight,
    raise_problems,
)
from dragoman.models import cost
from dragoman.models.config import TransformerShape, with_vocabulary
from dragoman.recipes.recipe import DataSection, Recipe
from dragoman.training.config import TrainingConfig

MACHINE = Machine(cores=4, memory=8_000_000_000, bfloat16=True)


@pytest.fixture(autouse=True)
def _no_threads_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def corpus(folder: Path, name: str, source: bytes = b"one\ntwo\n", target: bytes = b"eins\nzwei\n") -> CorpusConfig:
    (folder / f"{name}.en").write_bytes(source)
    (folder / f"{name}.de").write_bytes(target)
    return CorpusConfig(name=name, source=str(folder / f"{name}.en"), target=str(folder / f"{name}.de"))


def recipe(*train: CorpusConfig, batches: int = 1, **held_out: object) -> Recipe:
    data = DataSection.model_validate({"train": train or (CorpusConfig(source="a", target="b"),), **held_out})
    return Recipe(name="x", data=data, training=TrainingConfig(batches_per_update=batches))


def level(finding: Finding) -> str:
    return finding.level


def test_only_problems_are_refused_and_all_of_them() -> None:
    raise_problems([Finding("a", "ok", "fine"), Finding("b", "warning", "hm")])
    with pytest.raises(ValueError, match=r"\Aone\ntwo\Z"):
        raise_problems([Finding("a", "problem", "one"), Finding("b", "warning", "hm"), Finding("c", "problem", "two")])


def test_a_new_folder_is_fine_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    assert level(check_folder(tmp_path / "new" / "run")) == "ok"
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder_nor_above_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert check_folder(tmp_path / "file") == (
        "folder",
        "problem",
        f"{tmp_path / 'file'} is a file: give a folder as --out",
    )
    assert "(Not a directory): give another --out" in check_folder(tmp_path / "file" / "run").message


def test_a_finished_run_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    assert check_folder(tmp_path).message.endswith("give another --out")


def test_files_that_are_there_are_named_with_their_pairs(tmp_path: Path) -> None:
    described = recipe(corpus(tmp_path, "train"), dev=corpus(tmp_path, "dev"), test=(corpus(tmp_path, "test"),))
    assert [finding.message for finding in check_files(described)] == [
        "train: train.en and train.de can be read",
        "dev: 2 pairs in dev.en and dev.de",
        "test: 2 pairs in test.en and test.de",
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (b"one\n", r"dev\.en has 1 lines but .*dev\.de has 2"),
        (b"one\nt\xffo\n", r"dev\.en: line 2 is not UTF-8"),
        (b"", r"dev\.en: the file is empty"),
    ],
)
def test_held_out_files_are_read_to_their_end(tmp_path: Path, source: bytes, expected: str) -> None:
    described = recipe(corpus(tmp_path, "train"), dev=corpus(tmp_path, "dev", source))
    with pytest.raises(ValueError, match=expected):
        raise_problems(check_files(described))


def test_a_training_file_that_is_missing_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"train\.enn: there is no such file; did you mean .*train\.en\?"):
        raise_problems(
            check_files(recipe(corpus(tmp_path, "train").model_copy(update={"source": str(tmp_path / "train.enn")})))
        )


def test_nothing_can_be_split_off_standard_input(tmp_path: Path) -> None:
    stream = CorpusConfig(source="-", format="tsv")
    with pytest.raises(ValueError, match=r"split off standard input: set data\.dev"):
        raise_problems(check_files(recipe(stream)))
    raise_problems(check_files(recipe(stream, dev=corpus(tmp_path, "dev"))))


@pytest.mark.parametrize(
    ("batches", "processes", "found"), [(4, 4, "ok"), (4, 2, "ok"), (4, 3, "problem"), (1, 2, "problem")]
)
def test_processes_share_an_update_evenly(batches: int, processes: int, found: str) -> None:
    assert level(check_processes(RunSetup(recipe(batches=batches), None, processes), MACHINE)) == found


def test_cores_that_would_idle_or_be_overcrowded_are_pointed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = check_processes(RunSetup(recipe(batches=1), None, 1), MACHINE)
    assert (idle.level, "training.batches_per_update=4" in idle.message) == ("warning", True)
    setup = RunSetup(recipe(batches=2), None, 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert level(check_processes(setup, MACHINE)) == "ok"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert "2 x 3 threads (OMP_NUM_THREADS) on 4 cores" in check_processes(setup, MACHINE).message


def test_memory_is_that_of_all_processes() -> None:
    described, model = recipe(batches=2), with_vocabulary(TransformerShape(), 37_000, 37_000)
    one, two = (training_memory(described, model, processes) for processes in (1, 2))
    weights = 4 * 63_045_632  # the paper's base model, as `dragoman plan paper-base` counts it
    assert two == 2 * one > 2 * (6 * weights + 500_000_000)
    setup = RunSetup(described, None, 2)
    for memory, found in ((two - 1, "problem"), (2 * two, "warning"), (4 * two, "ok"), (None, "ok")):
        assert level(check_memory(setup, Machine(4, memory, True))) == found


GPUS = Machine(4, 1_000_000_000, True, device="cuda", num_devices=2, device_memory=100_000_000_000)


@pytest.mark.parametrize(
    ("batches", "processes", "found"), [(6, 2, "ok"), (6, 3, "problem"), (6, 1, "warning"), (3, 2, "problem")]
)
def test_each_process_has_a_device(batches: int, processes: int, found: str) -> None:
    assert level(check_processes(RunSetup(recipe(batches=batches), None, processes), GPUS)) == found


def test_processes_of_other_machines_need_no_device_here() -> None:
    assert level(check_processes(RunSetup(recipe(batches=8), None, 8, local_processes=2), GPUS)) == "ok"


def test_memory_is_that_of_one_device() -> None:
    described, model = recipe(batches=2), with_vocabulary(TransformerShape(), 37_000, 37_000)
    one = training_memory(described, model, 1)
    setup = RunSetup(described, None, 2)
    for memory, found in ((one - 1, "problem"), (2 * one, "warning"), (4 * one, "ok"), (None, "ok")):
        finding = check_memory(setup, replace(GPUS, device_memory=memory))
        assert level(finding) == found
        assert "on each device" in finding.message


def test_bfloat16_keeps_half_as_much() -> None:
    described, model = recipe(), with_vocabulary(TransformerShape(), 9_000, 9_000)
    half = described.model_copy(update={"training": TrainingConfig(precision="bfloat16")})
    fixed = 500_000_000 + 6 * 4 * cost.parameters(model)
    assert training_memory(half, model, 1) - fixed == (training_memory(described, model, 1) - fixed) // 2


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.experiment.preflight.find_spec", lambda _: None)
    assert check_tensorboard().message.endswith("pip install 'dragoman[tensorboard]'")


def test_everything_quick_is_looked_at(tmp_path: Path) -> None:
    described = recipe(corpus(tmp_path, "train"), batches=4)
    setup = RunSetup(described, tmp_path / "run", 4, tensorboard=True)
    checks = [finding.check for finding in preflight(setup, MACHINE)]
    assert checks == ["files", "processes", "memory", "extras"]
