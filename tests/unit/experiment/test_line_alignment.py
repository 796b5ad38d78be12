from pathlib import Path
from random import Random

import pytest

from dragoman.data.corpus import CorpusConfig
from dragoman.data.misalignment import Block, LineAlignment
from dragoman.experiment.doctor import check_run
from dragoman.experiment.launchers import Launcher
from dragoman.experiment.line_alignment import alignment_warnings, check_alignment, describe_misalignment
from dragoman.experiment.log import Event
from dragoman.experiment.machine import Machine
from dragoman.experiment.preflight import RunSetup
from dragoman.experiment.request import TrainRequest
from dragoman.experiment.run_training import run_training
from dragoman.io.progress import ignore_progress
from dragoman.recipes.recipe import DataSection, Recipe

WORDS = ["".join(Random(i).choices("bcdfgklmnprst", k=5)) for i in range(150)]
CORPUS = CorpusConfig(source="a.en", target="a.de")


def recipe(folder: Path, shift_from: int, num: int = 900) -> Recipe:
    """Pairs of which each target from one line on stands one line too late."""
    draw = Random(1)
    rows = [draw.choices(WORDS, k=draw.randint(4, 9)) for _ in range(num)]
    source = [" ".join(row) for row in rows]
    target = [" ".join(word[::-1] for word in row) for row in rows]
    target = [*target[:shift_from], "eltit", *target[shift_from:]][:num]
    for name, lines in (("a.en", source), ("a.de", target)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    train = CorpusConfig(source=str(folder / "a.en"), target=str(folder / "a.de"))
    return Recipe(name="x", data=DataSection(train=(train,)))


def test_the_doctor_warns_of_shifted_targets_with_line_share_and_offset(tmp_path: Path) -> None:
    setup = RunSetup(recipe(tmp_path, shift_from=600), None, 1)
    machine = Machine(cores=2, memory=80_000_000_000, bfloat16=True)
    (finding,) = (f for f in check_run(setup, machine, ignore_progress) if f.check == "alignment")
    assert finding.level == "warning"
    assert all(part in finding.message for part in ("train", "line 601 on", "1 line before", "33%"))


def test_aligned_pairs_are_ok_and_too_few_are_a_note_without_a_warning(tmp_path: Path) -> None:
    assert [finding.level for finding in check_alignment(recipe(tmp_path, shift_from=900), ignore_progress)] == ["ok"]
    few = recipe(tmp_path, shift_from=20, num=60)
    (finding,) = check_alignment(few, ignore_progress)
    assert finding.level == "note"
    assert all(part in finding.message for part in ("train", "not judged", "350 pairs"))
    assert alignment_warnings(few, tmp_path / "run", ignore_progress) == ()


def test_train_warns_before_a_new_run_and_not_when_it_resumes(tmp_path: Path) -> None:
    events: list[Event] = []
    recipe(tmp_path, shift_from=600)
    request = TrainRequest(out=tmp_path / "run", source=(str(tmp_path / "a.en"),), target=(str(tmp_path / "a.de"),))

    def stop_at_the_note(event: Event) -> None:
        events.append(event)
        if event["event"] == "note":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_training(request, Launcher(), on_event=stop_at_the_note)
    assert any("line 601 on" in event["message"] for event in events if event["event"] == "note")
    shifted = recipe(tmp_path, shift_from=600)
    assert len(alignment_warnings(shifted, tmp_path / "run", ignore_progress)) == 1
    (tmp_path / "run/checkpoints/update-1").mkdir(parents=True)
    assert alignment_warnings(shifted, tmp_path / "run", ignore_progress) == ()


def test_files_that_cannot_be_read_are_left_to_other_checks(tmp_path: Path) -> None:
    missing = recipe(tmp_path, shift_from=600)
    (tmp_path / "a.de").unlink()
    assert alignment_warnings(missing, tmp_path / "run", ignore_progress) == ()
    with pytest.raises(ValueError, match=r"a\.de"):
        list(check_alignment(missing, ignore_progress))


@pytest.mark.parametrize(
    ("result", "parts"),
    [
        (LineAlignment(0.12, 41, (), 9_000), ("12%", "line 42")),
        (LineAlignment(0.2, 2_000, (Block(2_000, 3_800, None),), 9_000), ("20%", "line 2,001 to line 3,800")),
        (LineAlignment(0.2, 2_000, (Block(2_000, 3_800, -3),), 9_000), ("line 2,001 to line 3,800", "3 lines after")),
        (
            LineAlignment(0.5, 500_000, (Block(500_000, 999_500, 2),), 10**6, True),
            ("about line 500,001 on", "2 lines before"),
        ),
    ],
)
def test_a_misalignment_is_described(result: LineAlignment, parts: tuple[str, ...]) -> None:
    assert result.first is not None
    message = describe_misalignment(CORPUS, result, result.first)
    assert [part for part in parts if part not in message] == []
