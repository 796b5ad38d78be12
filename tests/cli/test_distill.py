"""`dragoman distill` as installed: killed while it translates and while it trains, it ends with a student."""

import json
import subprocess
import time
from itertools import product
from pathlib import Path

import pytest
from fork_server import DRAGOMAN

WORDS = (("two", "three", "four", "ten"), ("old", "red", "small", "new"), ("dogs", "houses", "tables", "women", "men"))


def write_text(folder: Path) -> None:
    lines = [f"{' '.join(words)}{end}" for words in product(*WORDS) for end in (".", "!", "?")]
    (folder / "mono.en").write_text("\n\n".join(lines), encoding="utf-8")
    (folder / "test.en").write_text("two old dogs.\nten red houses.\n", encoding="utf-8")
    (folder / "test.de").write_text("zwei alte Hunde.\nzehn rote Häuser.\n", encoding="utf-8")


def command(teacher: Path, *more: str) -> list[str]:
    options = ["--source", "mono.en", "--out", "out", "--size", "2+1", "--test", "test.en", "test.de"]
    training = ["--time", "60s", "--processes", "1", "--set", "training.stop.updates=24"]
    checkpoints = ["--set", "training.schedule.warmup=2", "--set", "training.checkpoints.every=4"]
    return [str(DRAGOMAN), "distill", str(teacher), *options, *training, *checkpoints, *more]


def kill_when(exists: Path, folder: Path, arguments: list[str]) -> None:
    """Start a command, and kill it as soon as a file is there."""
    with subprocess.Popen(arguments, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 240
        while not list(exists.parent.glob(exists.name)) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
    assert list(exists.parent.glob(exists.name)), "it ended before the file was there"


@pytest.mark.slow
def test_it_survives_kills_in_each_part_and_ends_with_a_student_and_a_comparison(
    exported: Path, tmp_path: Path
) -> None:
    write_text(tmp_path)
    kill_when(tmp_path / "out/target/bulk.json", tmp_path, command(exported))
    assert not (tmp_path / "out/student").exists()
    kill_when(tmp_path / "out/student/checkpoints/update-*", tmp_path, command(exported))
    translated = (tmp_path / "out/target/000000.txt").stat().st_mtime_ns
    done = subprocess.run(command(exported), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/target/000000.txt").stat().st_mtime_ns == translated
    sides = [(tmp_path / f"out/text.{side}").read_text("utf-8").splitlines() for side in ("en", "de")]
    assert len(sides[0]) == len(sides[1]) == 4 * 4 * 5 * 3
    assert dict(zip(*sides, strict=True))["two red dogs."] == "zwei rote Hunde."
    events = [json.loads(line) for line in (tmp_path / "out/student/log.jsonl").read_text("utf-8").splitlines()]
    assert [event["event"] for event in events].count("end") == 1
    assert any(event["event"] == "resumed" for event in events)
    found = json.loads((tmp_path / "out/comparison.json").read_text("utf-8"))
    assert [system["name"] for system in found["report"]["systems"]] == ["model", "student"]
    teacher, student = (system["scores"][0]["value"] for system in found["report"]["systems"])
    assert teacher == pytest.approx(100.0)
    assert student <= teacher
    assert all(speed > 0 for speed in found["sentences_per_second"])
    assert found["parameters"][0] != found["parameters"][1]
    assert "student" in done.stdout


def test_mistakes_are_found_before_anything_is_translated(exported: Path, tmp_path: Path) -> None:
    write_text(tmp_path)
    (tmp_path / "empty.en").write_text("\n\n", encoding="utf-8")
    (tmp_path / "short.de").write_text("zwei\n", encoding="utf-8")
    for wrong in (
        ("--size", "6"),
        ("--time", "soon"),
        ("--source", "empty.en"),
        ("--test", "test.en", "short.de"),
        ("--to", "fr"),
        ("--set", "model.droput=0.1"),
    ):
        done = subprocess.run(command(exported, *wrong), cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, ""), wrong
        assert done.stderr.startswith("error: ")
    assert not (tmp_path / "out/target").exists()
