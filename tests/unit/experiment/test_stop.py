"""The message of a training that was stopped."""

import json
import re
from pathlib import Path

from dragoman.experiment.run_folder import describe_stop


def a_run(folder: Path, *events: dict[str, object], saved: tuple[int, ...] = ()) -> Path:
    (folder / "prepared").mkdir()
    (folder / "prepared" / "manifest.json").touch()
    (folder / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    for update in saved:
        (folder / "checkpoints" / f"update-{update:09}").mkdir(parents=True)
    return folder


def test_it_names_the_checkpoint_that_is_there_whatever_the_log_says(tmp_path: Path) -> None:
    """A run that went on has forgotten the saves of its first half; one whose disk was full has tried later ones."""
    events = [{"event": "resumed", "update": 20}, {"event": "update", "update": 1030}]
    folder = a_run(tmp_path, *events, saved=(10, 20))
    assert re.match(r"stopped at update 1,030\b.* update 20$", describe_stop(folder))


def test_without_a_checkpoint_it_starts_over(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    assert "before the first checkpoint" in describe_stop(folder)
    a_line = json.dumps({"event": "update", "update": 7}) + "\n"
    (folder / "log.jsonl").write_text(a_line, encoding="utf-8")
    assert re.match("stopped at update 7, before the first checkpoint", describe_stop(folder))


def test_before_the_text_is_prepared_and_after_the_last_update_other_work_is_left(tmp_path: Path) -> None:
    assert "before the text was prepared" in describe_stop(tmp_path)
    folder = a_run(tmp_path, {"event": "end", "update": 9}, saved=(9,))
    assert "while the model was scored" in describe_stop(folder)


def test_a_run_that_was_given_more_time_is_stopped_in_training(tmp_path: Path) -> None:
    events = [{"event": "end", "update": 9}, {"event": "resumed", "update": 9}, {"event": "update", "update": 12}]
    folder = a_run(tmp_path, *events, saved=(9,))
    assert re.match(r"stopped at update 12\b.* update 9$", describe_stop(folder))
