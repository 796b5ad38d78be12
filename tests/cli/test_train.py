"""`dragoman train` as installed: two files and nothing else, and what a user does wrong."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fork_server import DRAGOMAN
from short import RECIPE, write


def run(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if name != "DRAGOMAN_DATA"}
    env = {**plain, "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(
        [DRAGOMAN, *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=170
    )


def test_two_files_and_a_time_are_enough(folder: Path) -> None:
    done = run("train", "--source", "a.en", "--target", "a.iso", "--out", "run", "--time", "20s", cwd=folder)
    assert done.returncode == 0, done.stderr
    output = " ".join(done.stdout.split())
    assert output.startswith("data 400 pairs: about ")
    for choice in ("validation pairs", "vocabulary", "model", "dropout", "update", "learning rate", "precision", "end"):
        assert f" {choice} " in output
    assert "note: 400 pairs " in output
    assert "the model is in run/bundle, its curves in run/curves.png" in output
    trial = done.stdout.splitlines()[-1]
    sentence = shlex.split(trial.partition(": ")[2])[3]
    assert sentence in (folder / "run" / "dev.source").read_text("utf-8").splitlines()
    assert output.count(sentence) == 2  # once with its translation, and once to try the model
    assert "\x1b" not in done.stdout + done.stderr
    assert "exported for CTranslate2: " in done.stderr
    assert {"bundle", "curves.png", "log.jsonl", "prepared", "recipe.yaml"} <= {
        p.name for p in (folder / "run").iterdir()
    }

    lines = ["3 May 1999", "", "the first of June 2001"]
    translate = [DRAGOMAN, "translate", "run"]
    text = "".join(f"{line}\n" for line in lines)
    translated = subprocess.run(translate, cwd=folder, input=text, capture_output=True, text=True, check=True)
    assert translated.stdout.count("\n") == len(lines)
    assert translated.stdout.split("\n")[1] == ""

    before = (folder / "run" / "bundle" / "model.safetensors").stat()
    expected = "finished already: the model is in run/bundle, its curves in run/curves.png\n"
    files = ("--source", "a.en", "--target", "a.iso")
    for same in ([*files, "--time", "20s"], ["run/recipe.yaml"]):
        again = run("train", *same, "--out", "run", cwd=folder)
        assert (again.returncode, again.stdout.startswith(expected), again.stderr) == (0, True, "")
    for other in ([*files, "--time", "21s"], ["run/recipe.yaml", "--set", "seed=9"]):
        refused = run("train", *other, "--out", "run", cwd=folder)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "holds a finished model" in refused.stderr
        assert " before, " in refused.stderr
        assert "--changed" not in refused.stderr
    after = (folder / "run" / "bundle" / "model.safetensors").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_recipe_trains_in_one_process_or_two_and_keeps_the_command(folder: Path) -> None:
    (folder / "random.py").write_text("raise SystemExit('taken for the random of Python')", encoding="utf-8")
    for processes in ("1", "2"):
        out = f"run-{processes}"
        done = run("train", "r.yaml", "--out", out, "--processes", processes, "--set", "seed=3", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert "all updates are made" in done.stderr
        card = json.loads((folder / out / "bundle" / "card.json").read_text(encoding="utf-8"))
        assert card["command"] == f"dragoman train r.yaml --out {out} --processes {processes} --set seed=3"


def test_it_reports_how_many_training_pairs_are_held_out_too(folder: Path) -> None:
    for side in ("en", "iso"):
        lines = (folder / f"a.{side}").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / f"dev.{side}").write_text("".join(lines[:30]), encoding="utf-8")
    dev = "data.dev={source: dev.en, target: dev.iso}"
    done = run("train", "r.yaml", "--out", "run", "--processes", "1", "--set", dev, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("30 training pairs left out: also held out for validation or test\n")


def test_what_fails_in_a_training_process_is_one_line(folder: Path) -> None:
    keys = ("guard.spike=1.0001", "guard.most=0", "schedule.rate=0.09", "stop.updates=200")
    strict = [part for key in keys for part in ("--set", f"training.{key}")]
    done = run("train", "r.yaml", "--out", "run", "--processes", "2", *strict, cwd=folder)
    assert done.returncode == 2
    *_, last = done.stderr.splitlines()
    assert last.startswith("error: 1 updates in a row were left out (see log.jsonl): lower training.schedule.rate")
    assert "Traceback" not in done.stderr
    assert not (folder / "run" / "bundle").exists()


def test_the_chosen_recipe_can_be_had_to_edit_it(folder: Path) -> None:
    files = ("--source", "a.en", "--target", "a.iso")
    done = run("train", *files, "--out", "run", "--recipe-only", "--set", "training.stop.updates=77", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "training.stop.updates=77: " in " ".join(done.stdout.split())
    assert [path.name for path in (folder / "run").iterdir()] == ["recipe.yaml"]
    assert "    updates: 77\n" in (folder / "run" / "recipe.yaml").read_text(encoding="utf-8")
    checked = run("doctor", "run/recipe.yaml", cwd=folder)
    assert checked.returncode == 0, checked.stdout


LONG = ("training.stop.updates=1000000", "training.validate_every=1000000", "training.log_every=1")


def begun(folder: Path, processes: str) -> subprocess.Popen[str]:
    """A training that has no end of its own, and is under way in run/."""
    changes = [part for change in LONG for part in ("--set", change)]
    command = [DRAGOMAN, "train", "r.yaml", "--out", "run", "--processes", processes, *changes]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    training = subprocess.Popen(command, cwd=folder, env=env, stdout=-1, stderr=-1, text=True)
    log = folder / "run" / "log.jsonl"
    deadline = time.monotonic() + 300
    while not (log.exists() and '"event": "update"' in log.read_text("utf-8")):
        if training.poll() is not None or time.monotonic() > deadline:
            training.kill()
            raise AssertionError(training.communicate()[1])
        time.sleep(0.1)
    return training


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_training_locks_its_folder_and_reports_how_far_it_came_when_interrupted(folder: Path, processes: str) -> None:
    training = begun(folder, processes)
    try:
        recipe = (folder / "run" / "recipe.yaml").read_bytes()
        for more in ([], ["--recipe-only"]):
            second = run("train", "r.yaml", "--out", "run", "--set", "seed=4", *more, cwd=folder)
            refusal = "error: another training is running in run: wait until it ends, or give another --out\n"
            assert (second.returncode, second.stdout, second.stderr) == (2, "", refusal)
        assert (folder / "run" / "recipe.yaml").read_bytes() == recipe
        training.send_signal(signal.SIGINT)
        _, output = training.communicate(timeout=60)
    finally:
        training.kill()
    assert training.returncode == 130, output
    assert "Traceback" not in output
    last = output.splitlines()[-1]
    assert re.fullmatch(r"stopped at update [\d,]+; .* resumes from update [\d,]+", last), output
    translated = run("translate", "run", "3 May 1999", cwd=folder)
    assert (translated.returncode, translated.stdout) == (2, "")
    assert translated.stderr.startswith("error: run is a run without a model yet")
    peeked = run("peek", "run", cwd=folder)
    assert (peeked.returncode, peeked.stderr.endswith("did you mean run/prepared?\n")) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
def test_sigterm_saves_a_checkpoint_and_the_same_command_resumes(folder: Path, processes: str) -> None:
    training = begun(folder, processes)
    try:
        training.send_signal(signal.SIGTERM)
        _, output = training.communicate(timeout=60)
    finally:
        training.kill()
    assert training.returncode == 143, output
    assert "Traceback" not in output
    found = re.fullmatch(r"stopped at update [\d,]+; .* from update ([\d,]+)", output.splitlines()[-1])
    assert found, output
    update = int(found[1].replace(",", ""))
    assert [path.name for path in (folder / "run" / "checkpoints").iterdir()] == [f"update-{update:09}"]

    changes = [part for change in LONG for part in ("--set", change)]
    shorter = [*changes, "--set", f"training.stop.updates={update + 6}", "--processes", processes]
    refused = run("train", "r.yaml", "--out", "run", *shorter, cwd=folder)
    assert refused.returncode == 2
    assert f" before, {update + 6} now\n" in refused.stderr
    finished = run("train", "r.yaml", "--out", "run", *shorter, "--changed", cwd=folder)
    assert finished.returncode == 0, finished.stderr
    assert f"{update:>7,}  " in finished.stderr
    assert "resuming from here" in finished.stderr
    assert (folder / "run" / "bundle" / "model.safetensors").exists()
    assert not (folder / "run" / "checkpoints").exists()


def test_a_command_with_a_space_in_it_can_be_pasted(folder: Path) -> None:
    done = run("train", "r.yaml", "--out", "my run", "--recipe-only", cwd=folder)
    assert done.stdout.endswith("and then: dragoman train 'my run/recipe.yaml' --out 'my run'\n")


Mistake = Callable[[Path], list[str]]


def typed(*arguments: str) -> Mistake:
    return lambda _: [*arguments]


def recipe(*arguments: str, old: str = "", new: str = "") -> Mistake:
    def mistake(folder: Path) -> list[str]:
        (folder / "r.yaml").write_text(RECIPE.replace(old, new) if old else RECIPE, encoding="utf-8")
        return ["r.yaml", "--out", "run", *arguments]

    return mistake


def files(*arguments: str, source: bytes | None = None, lines: int | None = None) -> Mistake:
    def mistake(folder: Path) -> list[str]:
        if lines is not None:
            write(folder, lines)
        if source is not None:
            (folder / "a.en").write_bytes(source)
        return ["--source", "a.en", "--target", "a.iso", "--out", "run", *arguments]

    return mistake


def existing(make: Callable[[Path], object]) -> Mistake:
    def mistake(folder: Path) -> list[str]:
        make(folder / "run")
        return ["r.yaml", "--out", "run"]

    return mistake


MISTAKES: dict[str, tuple[Mistake, str]] = {
    "nothing to train on": (
        typed("--out", "run"),
        "give a recipe, two text files, or a file of pairs:\n  dragoman train recipe.yaml",
    ),
    "a recipe and files": (files("r.yaml"), "leave out --source and --target"),
    "no such recipe": (typed("q.yaml", "--out", "run"), "did you mean r.yaml?"),
    "a folder as recipe": (typed(".", "--out", "run"), ". is a folder: give a recipe file"),
    "text as recipe": (typed("a.en", "--out", "run"), "if a.en is training text, give --source and"),
    "two texts as recipe": (
        typed("a.en", "a.iso", "--out", "run"),
        "error: a.en and a.iso are not recipes: give text with --source and --target:\n"
        "  dragoman train --source a.en --target a.iso\n",
    ),
    "an unknown key": (
        recipe(old="split: 20", new="splt: 20"),
        "r.yaml:6: data.splt: unknown key; did you mean split?",
    ),
    "a set without =": (recipe("--set", "seed"), "--set seed: not KEY=VALUE"),
    "a set key unknown": (files("--set", "model.layers=3"), "--set model.layers=3: unknown key"),
    "a time without a unit": (recipe("--time", "45"), "--time: '45' is not a duration: write a number and a unit"),
    "no time at all": (files("--time", "0m"), "--time: '0m' is not a duration"),
    "a wrong number of processes": (recipe("--processes", "3"), "3 processes cannot share 2 batches evenly"),
    "a file as folder": (existing(Path.touch), "run is a file"),
    "a folder that cannot be made": (
        typed("r.yaml", "--out", "/proc/dragoman-run"),
        "cannot write to /proc/dragoman-run (",
    ),
    "a finished model": (
        existing(lambda run: (run / "bundle").mkdir(parents=True)),
        "run holds a finished model in run/bundle",
    ),
    "a source without its target": (typed("--source", "a.en", "--out", "run"), "a.en: a text corpus needs a target"),
    "a target without its source": (
        typed("--target", "a.iso", "--out", "run"),
        "0 --source but 1 --target",
    ),
    "one file as both sides": (typed("--source", "a.en", "--target", "a.en", "--out", "run"), "are the same file"),
    "an empty file": (files(source=b""), "a.en: the file is empty"),
    "different numbers of lines": (files(source=b"one\n" * 30), "a.en has 30 lines but a.iso has 400"),
    "too few pairs": (files(lines=19), "a.en: 19 pairs are too few to train on"),
    "a file that is not there": (recipe(old="a.iso", new="b.iso"), "b.iso: there is no such file; did you mean"),
    "a variable that is not set": (
        recipe(old="a.en", new="${DRAGOMAN_DATA}/a.en"),
        "export DRAGOMAN_DATA=",
    ),
    "validation pairs cut short": (
        recipe("--set", "data.dev={source: a.en, target: r.yaml}", old="a.en", new="b.en"),
        "a.en has 400 lines but",
    ),
    "a model larger than memory": (recipe("--set", "model.d_model=65536"), "GB are free"),
    "r-drop without dropout": (
        recipe("--set", "training.loss.r_drop=5", "--set", "model.dropout=0.0"),
        "R-Drop needs dropout",
    ),
    "r-drop below nothing": (recipe("--set", "training.loss.r_drop=-1"), "--set training.loss.r_drop=-1: "),
    "a warm-up longer than the run": (recipe("--set", "training.stop.updates=5"), "training.schedule.warmup: "),
}


@pytest.mark.parametrize(("mistake", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_a_clear_message_and_exit_code_2(folder: Path, mistake: Mistake, expected: str) -> None:
    done = run("train", *mistake(folder), cwd=folder)
    assert done.returncode == 2, done.stderr
    assert re.search("^error: ", done.stderr, re.MULTILINE), done.stderr
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "run" / "prepared").exists()


def test_a_missing_extra_is_named_before_anything_is_prepared(folder: Path) -> None:
    arguments = ["dragoman", "train", "r.yaml", "--out", "run", "--tensorboard"]
    blocked = f"import sys; sys.modules['tensorboard'] = None; sys.argv = {arguments!r}"
    code = f"{blocked}; from dragoman.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    message = "error: --tensorboard needs tensorboard: pip install 'dragoman[tensorboard]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
    assert not (folder / "run").exists()
