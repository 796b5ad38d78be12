"""`dragoman train --from` as installed: what a user reads, what is refused, and what a kill changes: nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from fork_server import DRAGOMAN, INSTALLED
from short import write

sys.path.insert(0, str(Path(__file__).parents[1] / "parity"))  # for marian_packages.py
from marian_packages import ENGLISH, GERMAN, MarianFiles, Words, sentences

from dragoman.bundle import open_bundle
from dragoman.data.dates import dates
from dragoman.text.vocab import BOS, PAD

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


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture(scope="module")
def base(place: Path) -> Path:
    """A model imported from a random Marian model, with pairs and a test set in its languages."""
    words = Words.made(sentences(ENGLISH, 300), sentences(GERMAN, 300), (60, 70))
    shape = {"d_model": 24, "d_ff": 40, "num_heads": 3, "layers": (1, 1)}
    MarianFiles(words, **shape).hugging_face(place / "opus-mt-en-de")
    done = run("import", "opus-mt-en-de", "--out", "base", cwd=place)
    assert done.returncode == 0, done.stderr
    for name, count, seed in (("mine", 200, 1), ("test", 12, 3)):
        for language, words_of in (("en", ENGLISH), ("de", GERMAN)):
            write_lines(place / f"{name}.{language}", sentences(words_of, count, seed))
    return place / "base"


MINE = ("--from", "base", "--source", "mine.en", "--target", "mine.de", "--time", "30m")


def test_an_imported_model_is_trained_evaluated_exported_and_imported_again(place: Path, base: Path) -> None:
    done = run("train", *MINE, "--out", "tuned", *SETTINGS, "--set", "training.stop.metric=loss", cwd=place)
    assert done.returncode == 0, done.stderr
    parent, tuned = open_bundle(base), open_bundle(place / "tuned")
    assert tuned.card.parent is not None
    assert tuned.card.parent.sha256 == parent.model_sha256
    before, after = (bundle.weights()["projection.bias"] for bundle in (parent, tuned))
    assert (before != after).any()
    files = ("--source", "test.en", "--reference", "test.de", "--metrics", "bleu", "--json", "scores.json")
    done = run("evaluate", "base", "tuned", *files, cwd=place)
    assert done.returncode == 0, done.stderr
    systems = json.loads((place / "scores.json").read_text(encoding="utf-8"))["systems"]
    assert [system["name"] for system in systems] == ["base", "tuned"]
    done = run("export", "tuned", "--as", "transformers", "--out", "given", cwd=place)
    assert done.returncode == 0, done.stderr
    done = run("import", "given", "--out", "back", cwd=place)
    assert done.returncode == 0, done.stderr
    back = open_bundle(place / "back")
    for name, array in tuned.weights().items():
        kept = np.array([PAD, BOS]) if name == "projection.bias" else []  # ids that are never written
        np.testing.assert_array_equal(np.delete(back.weights()[name], kept, 0), np.delete(array, kept, 0), name)
    texts = (place / "test.en").read_text(encoding="utf-8").splitlines()
    first, second = (run("translate", name, *texts, cwd=place) for name in ("tuned", "back"))
    assert first.returncode == 0, first.stderr
    assert (first.stdout, len(first.stdout.splitlines())) == (second.stdout, len(texts))


def test_sampling_an_imported_vocabulary_is_refused_before_training(place: Path, base: Path) -> None:
    sampled = (*MINE, "--set", "training.subword_sampling=0.1")
    done = run("train", *sampled, "--out", "sampled", cwd=place)
    assert done.returncode == 2
    assert "training.subword_sampling is 0.1, but " in done.stderr
    assert "set training.subword_sampling to 0" in done.stderr
    assert not (place / "sampled" / "prepared").exists()
    found = run("doctor", *sampled, cwd=place)
    assert found.returncode == 2
    assert "training.subword_sampling is 0.1, but " in found.stdout
    own = run("train", "--from", "parent", *TEXT, "--set", "training.subword_sampling=0.1", *SETTINGS, "--out", "own",
              "--time", "30m", cwd=place)  # fmt: skip
    assert own.returncode == 0, own.stderr
