from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.data.corpus import CorpusConfig
from dragoman.experiment import request as module
from dragoman.experiment.request import TrainRequest, plan_training
from dragoman.experiment.run_folder import check_same_request, check_same_text, save_plan
from dragoman.io.progress import ignore_progress
from dragoman.recipes.recipe import DataSection, Recipe


def test_a_wrong_key_is_refused_before_anything_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for side in ("en", "de"):
        (tmp_path / f"a.{side}").write_text("a line\n" * 30, encoding="utf-8")
    tried: list[object] = []
    monkeypatch.setattr(module, "measure_speed", tried.append)
    request = TrainRequest(
        out=tmp_path / "run",
        overrides=("seed", "training.schedul.rate=1"),
        source=(str(tmp_path / "a.en"),),
        target=(str(tmp_path / "a.de"),),
    )
    steps: list[str] = []

    def report(what: str, done: int, total: int | None = None, unit: str = "") -> None:
        steps.append(what)

    with pytest.raises(ValueError, match=r"^--set seed: .*\n--set training\.schedul\.rate=1: .*schedule"):
        plan_training(request, report)
    assert (tried, steps) == ([], [])


def test_a_recipe_names_its_own_text(tmp_path: Path) -> None:
    request = TrainRequest(out=tmp_path, recipe=Path("r.yaml"), source=("a.en",), target=("a.de",))
    with pytest.raises(ValueError, match=r"r\.yaml.*--source"):
        plan_training(request, ignore_progress)


def test_choices_are_compared_by_absolute_paths_and_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    request = TrainRequest(out=Path("run"), source=("a.en", "s3://b/c.tsv"), time="20m")
    assert request.name == "run"
    assert request.choices["source"] == [str(tmp_path / "a.en"), "s3://b/c.tsv"]
    assert request.choices["time"] == "20m"


def test_files_of_pairs_are_a_choice_of_the_run_and_others_do_not_resume_it(tmp_path: Path) -> None:
    request = TrainRequest(out=tmp_path, pairs=("a.tmx",), fields="en,de")
    corpus = CorpusConfig(source="a.tmx")
    save_plan(tmp_path, request.choices, Recipe(name="run", data=DataSection(train=(corpus,))))
    check_same_request(tmp_path, request.choices)
    check_same_text(tmp_path, request.choices)
    for other in (replace(request, pairs=("b.tmx",)), replace(request, fields="de,en"), replace(request, pairs=())):
        with pytest.raises(ValueError, match="began with other text"):
            check_same_text(tmp_path, other.choices)


def test_a_run_that_began_without_pairs_has_the_same_choices_as_before() -> None:
    assert set(TrainRequest(out=Path("run"), source=("a.en",)).choices) == {"source", "target", "time", "set"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipe": Path("r.yaml"), "init": "demo"}, r"r\.yaml.*init\.bundle.*--from"),
        ({"recipe": Path("r.yaml"), "keep_source": "o.en"}, r"r\.yaml.*init\.keep.*--keep-source"),
        ({"source": ("a.en",), "keep": ("o.en", "o.de")}, "--keep .*--from"),
        ({"source": ("a.en",), "init": "demo", "keep": ("o.en", "o.de"), "keep_source": "o.en"}, "only one"),
    ],
)
def test_options_of_a_parent_that_do_not_fit_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_training(TrainRequest(out=Path("run"), **options), ignore_progress)  # type: ignore[arg-type]


def test_a_parent_and_old_text_are_choices_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "from" not in TrainRequest(out=Path("run"), source=("a.en",)).choices
    request = TrainRequest(out=Path("run"), source=("a.en",), init="base", keep=("o.en", "o.de"))
    assert request.choices["from"] == str(tmp_path / "base")
    assert request.choices["keep"] == [str(tmp_path / "o.en"), str(tmp_path / "o.de")]
    save_plan(tmp_path, request.choices, Recipe(name="r", data=DataSection(train=(CorpusConfig(source="a.tsv"),))))
    for other in (replace(request, init="demo"), replace(request, keep=None)):
        with pytest.raises(ValueError, match="other text"):
            check_same_text(tmp_path, other.choices)
    assert replace(request, init="demo").choices["from"] == "demo"
