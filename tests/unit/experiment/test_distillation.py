"""What a distillation writes: shards, joined files and the student's recipe."""

import gzip
from pathlib import Path

import pytest

from dragoman.bundle import open_bundle
from dragoman.experiment import distillation
from dragoman.experiment.distillation import (
    DistillFolder,
    cut_shards,
    join_shards,
    measure_in_turns,
    parse_size,
    student_overrides,
)
from dragoman.experiment.request import TrainRequest, plan_training
from dragoman.io.progress import ignore_progress
from dragoman.models.config import TransformerShape
from dragoman.translation.translator import Translator

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distillation, "_SHARD_LINES", 3)


def shards(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}


def test_a_size_is_the_layers_of_encoder_and_decoder() -> None:
    assert parse_size("6+1") == (6, 1)
    assert parse_size("12+2") == (12, 2)
    for wrong in ("6", "6-1", "0+1", "6+0", "6+1+1", "six+one"):
        with pytest.raises(ValueError, match="6\\+1"):
            parse_size(wrong)


def test_a_text_is_cut_into_shards_without_blank_lines(tmp_path: Path) -> None:
    source = tmp_path / "mono.en.gz"
    with gzip.open(source, "wt", encoding="utf-8") as file:
        file.write("a\n\n b \r\nc\u2028c\n \nd\ne")
    assert cut_shards(source, tmp_path / "out") == 5
    assert shards(tmp_path / "out") == {"000000.txt": "a\nb\nc\u2028c\n", "000001.txt": "d\ne\n"}


def test_only_what_has_changed_is_written_again(tmp_path: Path) -> None:
    source, out = tmp_path / "mono.en", tmp_path / "out"
    source.write_text("a\nb\nc\nd\ne\nf\ng\n", encoding="utf-8")
    cut_shards(source, out)
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    source.write_text("a\nb\nc\nd\nE\n", encoding="utf-8")
    assert cut_shards(source, out) == 5
    assert shards(out) == {"000000.txt": "a\nb\nc\n", "000001.txt": "d\nE\n"}
    assert (out / "000000.txt").stat().st_mtime_ns == before["000000.txt"]


def test_shards_and_translations_are_joined_in_order_and_not_written_twice(tmp_path: Path) -> None:
    folder, teacher = DistillFolder(tmp_path), open_bundle(GOLDEN / "v1")
    for path, case in ((folder.shards, str.lower), (folder.translations, str.upper)):
        path.mkdir()
        for number in range(12):
            (path / f"{number:06}.txt").write_text(case(f"a{number}\n"), encoding="utf-8")
    (folder.translations / "000099.txt").write_text("of a longer text\n", encoding="utf-8")
    join_shards(folder, teacher)
    source, target = folder.joined(teacher)
    assert (source.name, target.name) == ("text.en", "text.de")
    assert source.read_text(encoding="utf-8") == "".join(f"a{number}\n" for number in range(12))
    assert target.read_text(encoding="utf-8") == source.read_text(encoding="utf-8").upper()
    before = [path.stat().st_mtime_ns for path in (source, target)]
    join_shards(folder, teacher)
    assert [path.stat().st_mtime_ns for path in (source, target)] == before


@pytest.mark.parametrize(("name", "has_width"), [("v1", True), ("v1-recurrent", False)])
def test_the_student_has_the_given_layers_and_the_width_of_a_transformer(
    name: str, has_width: bool, tmp_path: Path
) -> None:
    teacher = open_bundle(GOLDEN / name)
    for side in ("en", "de"):
        (tmp_path / f"text.{side}").write_text("".join(f"{side} {n}\n" for n in range(40)), encoding="utf-8")
    files = {"source": (str(tmp_path / "text.en"),), "target": (str(tmp_path / "text.de"),)}
    overrides = student_overrides(teacher, (5, 2))
    model = plan_training(TrainRequest(tmp_path / "run", overrides=overrides, **files), ignore_progress).recipe.model
    assert isinstance(model, TransformerShape)
    assert (model.num_encoder_layers, model.num_decoder_layers) == (5, 2)
    shape = teacher.info.model
    assert (model.d_model == shape.d_model) == has_width
    if isinstance(shape, TransformerShape):
        assert (model.d_ff, model.num_heads) == (shape.d_ff, shape.num_heads)


def test_a_wide_student_has_a_lower_rate() -> None:
    teacher = open_bundle(GOLDEN / "v1")

    def rate(d_model: int) -> float:
        changes = {"model": teacher.info.model.model_copy(update={"d_model": d_model})}
        info = teacher.info.model_copy(update=changes)
        overrides = student_overrides(type(teacher)(**{**vars(teacher), "info": info}), (6, 1))
        return float(dict(change.split("=") for change in overrides)["training.schedule.rate"])

    assert rate(64) == rate(128) > rate(256) == rate(384) > rate(512)


def test_the_speeds_of_two_models_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = Translator.load(GOLDEN / "v1")
    clock = iter([0.0, 4.0, 4.0, 5.0, 5.0, 7.0, 7.0, 10.0, 10.0, 13.0, 13.0, 15.0])  # 4, 2 and 3 s; 1, 3 and 2 s
    monkeypatch.setattr("dragoman.experiment.distillation.time.perf_counter", lambda: next(clock))
    assert measure_in_turns(teacher, teacher, ["two dogs."] * 8, ignore_progress) == (4.0, 8.0)
