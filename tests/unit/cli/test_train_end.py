"""How a training ends, in words."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli.train_end import is_lost_neighbour, stopped


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
    assert stopped(folder) == "stopped at update 1,030; the same command goes on from update 20"


def test_without_a_checkpoint_it_begins_anew(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    rest = ", before the first checkpoint; the same command begins anew (the text stays prepared)"
    assert stopped(folder) == f"stopped{rest}"
    a_line = json.dumps({"event": "update", "update": 7}) + "\n"
    (folder / "log.jsonl").write_text(a_line, encoding="utf-8")
    assert stopped(folder) == f"stopped at update 7{rest}"


def test_before_the_text_is_prepared_and_after_the_last_update_other_work_is_left(tmp_path: Path) -> None:
    assert stopped(tmp_path) == "stopped before the text was prepared; the same command goes on with that"
    folder = a_run(tmp_path, {"event": "end", "update": 9}, saved=(9,))
    assert "while the model was scored" in stopped(folder)


def test_only_what_gloo_says_is_about_a_neighbour() -> None:
    assert is_lost_neighbour(RuntimeError("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer"))
    assert not is_lost_neighbour(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_lost_neighbour(ValueError("gloo"))


@pytest.mark.parametrize("alive", [True, False])
def test_that_it_goes_on_is_said_only_if_somebody_is_left_to_start_it(alive: bool) -> None:
    launcher = os.getpid() if alive else os.getpid() + 1
    code = f"from dragoman.cli.train_end import leave; leave({launcher})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    said = "a training process was lost; going on from the last checkpoint\n" if alive else ""
    assert (done.returncode, done.stderr) == (1, said)
