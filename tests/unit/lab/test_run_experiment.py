"""Running experiments: finished seeds stay, other code runs again, and the stored JSON keeps its schema."""

import json
import time
from pathlib import Path

import pytest

from dragoman.lab.run_experiment import (
    ExperimentResult,
    SeedResult,
    experiment_names,
    fingerprint,
    load_experiment,
    read_result,
    read_results,
    run_experiment,
    summarise,
)

NAME = "relative-offsets"


def times(folder: Path) -> list[int]:
    return [file.stat().st_mtime_ns for file in sorted((folder / NAME).glob("seed-*.json"))]


def test_a_finished_seed_is_not_run_again(tmp_path: Path) -> None:
    first = run_experiment(NAME, tmp_path, 2, is_smallest=True)
    before = times(tmp_path)
    second = run_experiment(NAME, tmp_path, 3, is_smallest=True)
    assert times(tmp_path)[:2] == before
    assert second.seeds[:2] == first.seeds
    assert [seed.seed for seed in second.seeds] == [0, 1, 2]
    assert read_result(tmp_path / NAME / "result.json") == second


def test_a_seed_of_other_code_another_size_or_half_a_file_is_run_again(tmp_path: Path) -> None:
    run_experiment(NAME, tmp_path, 1, is_smallest=True)
    whole = (tmp_path / NAME / "seed-0.json").read_bytes()
    for damaged in (whole.replace(fingerprint(NAME, True).encode(), b"0" * 16), whole[:-40], b""):
        (tmp_path / NAME / "seed-0.json").write_bytes(damaged)
        result = run_experiment(NAME, tmp_path, 1, is_smallest=True)
        assert result.seeds[0].fingerprint == fingerprint(NAME, True)
        assert SeedResult.model_validate_json(whole).measurement == result.seeds[0].measurement
    assert fingerprint(NAME, True) != fingerprint(NAME, False)


def test_the_numbers_of_a_seed_are_always_the_same_and_those_of_another_are_not() -> None:
    measure = load_experiment(NAME).measure
    assert measure(4, True) == measure(4, True)
    assert measure(4, True).numbers != measure(5, True).numbers


def test_no_seed_is_begun_when_the_time_is_up_and_the_next_call_goes_on(tmp_path: Path) -> None:
    assert len(run_experiment(NAME, tmp_path, 3, seconds=1e-9, is_smallest=True).seeds) == 1
    assert len(run_experiment(NAME, tmp_path, 3, seconds=1e-9, is_smallest=True).seeds) == 2
    start = time.monotonic()
    assert len(run_experiment(NAME, tmp_path, 3, seconds=3600.0, is_smallest=True).seeds) == 3
    assert time.monotonic() - start < 3600


def test_the_stored_json_keeps_its_schema(tmp_path: Path) -> None:
    run_experiment(NAME, tmp_path, 2, is_smallest=True)
    stored = json.loads((tmp_path / NAME / "result.json").read_text())
    assert stored["schema_version"] == 1
    top = {"schema_version", "name", "is_smallest", "criteria", "seeds", "intervals", "verdict"}
    assert set(stored) == top
    assert set(stored["seeds"][0]) == {
        "seed", "fingerprint", "version", "seconds", "processor_seconds", "measurement",
    }  # fmt: skip
    assert set(stored["seeds"][0]["measurement"]) == {"numbers", "panels"}
    panel = stored["seeds"][0]["measurement"]["panels"][0]
    assert set(panel) == {"title", "x_label", "y_label", "x", "lines", "log_x", "log_y"}
    assert set(stored["intervals"]) == set(stored["seeds"][0]["measurement"]["numbers"])
    assert set(stored["criteria"][0]) == {"number", "side", "bound", "reason"}
    assert set(next(iter(stored["intervals"].values()))) == {"mean", "low", "high"}


def test_one_seed_has_no_interval_and_no_verdict(tmp_path: Path) -> None:
    result = run_experiment(NAME, tmp_path, 1, is_smallest=True)
    assert (result.intervals, result.verdict) == ({}, "undecided")


def test_a_verdict_is_computed_from_the_seeds(tmp_path: Path) -> None:
    result = run_experiment(NAME, tmp_path, 2, is_smallest=True)
    assert summarise(NAME, load_experiment(NAME), list(result.seeds), True) == result
    worse = [
        seed.model_copy(
            update={
                "measurement": seed.measurement.model_copy(
                    update={"numbers": {**seed.measurement.numbers, "rotation_error": 1.0}}
                )
            }
        )
        for seed in result.seeds
    ]
    assert (result.verdict, summarise(NAME, load_experiment(NAME), worse).verdict) == ("holds", "depends")


def test_results_are_read_from_a_folder_and_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no results"):
        read_results(tmp_path)
    result = run_experiment(NAME, tmp_path, 1, is_smallest=True)
    assert read_results(tmp_path) == [result]
    (tmp_path / "other.json").write_text('{"name": "other"}')
    with pytest.raises(ValueError, match=r"other\.json"):
        read_results(tmp_path)


def test_the_schema_of_results_has_a_description_for_every_field() -> None:
    for model in (ExperimentResult, SeedResult):
        assert all(field.description for field in model.model_fields.values())
    assert NAME in experiment_names()
