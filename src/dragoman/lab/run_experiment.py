"""Find experiments, run them seed by seed, and store the results; a finished seed is not run again."""

import ast
import hashlib
import inspect
import pkgutil
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final, Literal

from pydantic import Field, ValidationError

from dragoman.config import Config
from dragoman.io.durable import write_durably
from dragoman.io.progress import Progress, ignore_progress
from dragoman.lab import experiments
from dragoman.lab.experiment import Criterion, Experiment, Interval, Measurement, VerdictName
from dragoman.version import __version__

RESULT_FILE: Final = "result.json"


class SeedResult(Config):
    """The file of one finished seed."""

    seed: int = Field(ge=0, description="seed of all random numbers")
    fingerprint: str = Field(description="hash of the experiment's code and criteria")
    version: str = Field(description="version of dragoman")
    seconds: float = Field(ge=0, description="duration of the measurement")
    processor_seconds: float = Field(ge=0, description="processor time of the measurement")
    measurement: Measurement = Field(description="numbers and panels")


class ExperimentResult(Config):
    """The result of an experiment, over all its finished seeds."""

    schema_version: Literal[1] = Field(1, description="version of this format")
    name: str = Field(description="name of the experiment")
    is_smallest: bool = Field(description="whether the smallest size was run, which shows only that the code works")
    criteria: tuple[Criterion, ...] = Field(description="rule of the verdict")
    seeds: tuple[SeedResult, ...] = Field(description="results by seed")
    intervals: dict[str, Interval] = Field(description="interval of each number; empty with fewer than two seeds")
    verdict: VerdictName = Field(description="verdict, computed from the intervals by the rule")


def experiment_names() -> list[str]:
    """Return the names of all experiments."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(experiments.__path__))


def load_experiment(name: str) -> Experiment:
    """Return the experiment with this name."""
    experiment = _module(name).EXPERIMENT
    assert isinstance(experiment, Experiment)
    return experiment


def fingerprint(name: str, is_smallest: bool = False) -> str:
    """Return a hash of an experiment's code, criteria and size; the texts about it do not count."""
    module = _module(name)
    source = inspect.getsource(module)
    nodes = ast.parse(source).body[1:]  # the first is the docstring
    code = [node for node in nodes if not (isinstance(node, ast.Assign) and _assigns(node, "EXPERIMENT"))]
    parts = [ast.get_source_segment(source, node) or "" for node in code]
    parts += [criterion.model_dump_json(exclude={"reason"}) for criterion in module.EXPERIMENT.criteria]
    return hashlib.sha256("\n".join([*parts, str(is_smallest)]).encode()).hexdigest()[:16]


def run_experiment(
    name: str,
    out: Path,
    num_seeds: int = 3,
    seconds: float | None = None,
    is_smallest: bool = False,
    progress: Progress = ignore_progress,
) -> ExperimentResult:
    """Run the missing seeds of an experiment and store the result in the folder `out`/`name`.

    With `seconds`, no further seed is begun that would probably end too late; the first missing seed is always run.
    """
    experiment, mark, folder = load_experiment(name), fingerprint(name, is_smallest), out / name
    folder.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    longest: float | None = None
    finished: list[SeedResult] = []
    for seed in range(num_seeds):
        progress(name, seed, num_seeds, "seeds")
        file = folder / f"seed-{seed}.json"
        result = _read_seed(file, mark)
        if result is None:
            if seconds is not None and longest is not None and time.monotonic() - start + longest > seconds:
                break
            result = _measure(experiment, seed, mark, is_smallest)
            longest = max(longest or 0.0, result.seconds)
            write_durably(file, result.model_dump_json(indent=1).encode())
        finished.append(result)
        progress(name, seed + 1, num_seeds, "seeds")
    summary = summarise(name, experiment, finished, is_smallest)
    write_durably(folder / RESULT_FILE, summary.model_dump_json(indent=1).encode())
    return summary


def summarise(
    name: str, experiment: Experiment, seeds: list[SeedResult], is_smallest: bool = False
) -> ExperimentResult:
    """Compute the intervals and the verdict from the results of single seeds."""
    intervals: dict[str, Interval] = {}
    if len(seeds) > 1:
        intervals = {key: Interval.of([one.measurement.numbers[key] for one in seeds]) for key in experiment.numbers}
    return ExperimentResult(
        name=name,
        is_smallest=is_smallest,
        criteria=experiment.criteria,
        seeds=tuple(seeds),
        intervals=intervals,
        verdict=experiment.decide(intervals),
    )


def read_result(file: Path) -> ExperimentResult:
    """Read the result of an experiment; raise ValueError if the file is none."""
    try:
        return ExperimentResult.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise ValueError(f"{file} is not a result of dragoman lab run: run the experiment again") from error


def read_results(folder: Path) -> list[ExperimentResult]:
    """Read all results in a folder, in the order of their names: those of `run_experiment`, or of a written report."""
    files = [*folder.glob(f"*/{RESULT_FILE}"), *folder.glob("*.json")]
    if not files:
        raise ValueError(f"{folder} has no results: run dragoman lab run NAME --out {folder}")
    known = experiment_names()
    return sorted((result for file in files if (result := read_result(file)).name in known), key=lambda one: one.name)


def _measure(experiment: Experiment, seed: int, mark: str, is_smallest: bool) -> SeedResult:
    start, processor = time.monotonic(), time.process_time()
    measurement = experiment.measure(seed, is_smallest)
    missing = experiment.numbers.keys() ^ measurement.numbers.keys()
    assert not missing, f"numbers measured but not described, or described but not measured: {missing}"
    return SeedResult(
        seed=seed,
        fingerprint=mark,
        version=__version__,
        seconds=round(time.monotonic() - start, 2),
        processor_seconds=round(time.process_time() - processor, 2),
        measurement=measurement,
    )


def _read_seed(file: Path, mark: str) -> SeedResult | None:
    """Return the stored result of a seed, or None if there is none, or one of other code."""
    try:
        result = SeedResult.model_validate_json(file.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return result if result.fingerprint == mark else None


def _module(name: str) -> ModuleType:
    return import_module(f"{experiments.__name__}.{name.replace('-', '_')}")


def _assigns(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
