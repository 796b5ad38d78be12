"""`dragoman train --from` as installed: what a user reads, what is refused, and what a kill changes: nothing."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fork_server import DRAGOMAN, INSTALLED
from short import write

from dragoman.bundle import open_bundle
from dragoman.data.dates import dates

FEW = ("training.stop.updates=12", "training.schedule.warmup=2", "training.checkpoints.every=2", "training.ema=0.9")
TEXT = ("--source", "b.en", "--target", "b.iso", "--keep", "a.en", "a.iso")
OTHERS = ("training.validate_every=5", "training.stop.patience=null")
SETTINGS = ["--processes", "1", *(part for key in (*FEW, *OTHERS) for part in ("--set", key))]


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [DRAGOMAN, *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False, timeout=300
    )  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained model, its pairs as old ones, and new pairs."""
    folder = tmp_path_factory.mktemp("finetune")
    write(folder)
    for side, texts in zip(("en", "iso"), zip(*dates(150, seed=8), strict=True), strict=True):
        (folder / f"b.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    done = run("train", "r.yaml", "--out", "parent", "--processes", "1", "--quiet", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_it_shows_its_choices_and_compares_with_the_parent(place: Path) -> None:
    done = run("train", "--from", "parent", *TEXT, "--out", "child", "--time", "30m", *SETTINGS, cwd=place)
    assert done.returncode == 0, done.stderr
    output = " ".join(done.stdout.split())
    for choice in ("parent short", "data 150 pairs", "old text 400 pairs", "learning rate", "validation"):
        assert f" {choice}" in f" {output}"
    assert "test set pairs BLEU before after difference p dev 37 " in output
    assert " kept 40 " in output
    assert "likely" not in output
    card = open_bundle(place / "child").card
    assert card.parent is not None
    assert (card.parent.title, card.parent.sha256) == ("short", open_bundle(place / "parent").model_sha256)
    again = run("train", "--from", "parent", *TEXT, "--out", "child", "--time", "30m", *SETTINGS, cwd=place)
    assert (again.returncode, again.stdout.startswith("finished already")) == (0, True)
    other = run("train", "--from", "demo", *TEXT, "--out", "child", "--time", "30m", *SETTINGS, cwd=place)
    assert (other.returncode, "from: " in other.stderr) == (2, True)


def test_a_killed_training_is_resumed_to_the_same_weights(place: Path) -> None:
    command = ("train", "--from", "parent", *TEXT, "--time", "30m", *SETTINGS)
    straight = run(*command, "--out", "straight", cwd=place)
    assert straight.returncode == 0, straight.stderr
    slow = subprocess.Popen([INSTALLED, *command, "--out", "killed"], cwd=place, env=environment())
    while not list((place / "killed" / "checkpoints").glob("update-*")):
        assert slow.poll() is None
        time.sleep(0.01)
    slow.send_signal(signal.SIGKILL)
    slow.wait()
    resumed = run(*command, "--out", "killed", cwd=place)
    assert resumed.returncode == 0, resumed.stderr
    assert "resuming from here" in resumed.stderr
    one, other = ((place / name / "bundle" / "model.safetensors").read_bytes() for name in ("straight", "killed"))
    assert one == other


def test_the_doctor_takes_the_same_options(place: Path) -> None:
    done = run("doctor", "--from", "parent", *TEXT, "--time", "30m", cwd=place)
    assert done.returncode == 0, done.stdout
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    found = {(check, level) for level, check, _ in lines}
    assert {("parent", "ok"), ("vocabulary", "ok"), ("files", "ok")} <= found
    missing = run("doctor", "--from", "parent", *TEXT[:4], "--keep", "none.en", "a.iso", "--time", "30m", cwd=place)
    assert (missing.returncode, "none.en" in missing.stdout) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from", "nowhere", *TEXT), "there is no such folder"),
        (TEXT, "add --from MODEL"),
        (("r.yaml", "--from", "demo"), "init.bundle"),
        (("--from", "demo", "--source", "a.de", "--target", "a.en"), "swap"),
        (("--from", "parent", *TEXT, "--set", "model.d_model=64"), "has d_model 32: remove d_model"),
        (("--from", "parent", *TEXT, "--set", "data.vocabulary={size: 400}"), "remove data.vocabulary"),
    ],
)
def test_what_does_not_fit_is_an_error_with_a_fix(place: Path, options: tuple[str, ...], message: str) -> None:
    (place / "a.de").write_bytes((place / "a.iso").read_bytes())
    done = run("train", *options, "--out", "refused", cwd=place)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not (place / "refused" / "prepared").exists()
