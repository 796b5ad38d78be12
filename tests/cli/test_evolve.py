"""`dragoman evolve` as installed: a line for each snapshot, pictures, a page, and mistakes in one line."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fork_server import DRAGOMAN

from dragoman.alignment.tokens import Tokens
from dragoman.inspection.evolution import ProbeSnapshot, save_snapshot
from dragoman.inspection.trace import Trace

pytestmark = pytest.mark.slow

PAIRS = (("drei alte Hunde", "three old dogs"), ("ein Haus", "a house"))


def tokens(text: str) -> Tokens:
    words = text.split()
    ends = [sum(len(word) + 1 for word in words[: i + 1]) - 1 for i in range(len(words))]
    spans = (*zip([0, *ends], ends, strict=False), (len(text), len(text)))
    pieces = (*(f"▁{word}" for word in words), "</s>")
    return Tokens(text, tuple(range(len(pieces))), pieces, spans, (*range(len(words)), -1))


def trace(source: str, target: str, sharpness: float) -> Trace:
    read, written = tokens(source), tokens(target)
    attention = {}
    for layer in range(2):
        scores = sharpness * np.stack([np.eye(len(written), len(read), k) for k in range(3)])
        raised = np.exp(scores)
        weights = (raised / raised.sum(-1, keepdims=True)).astype(np.float32)
        attention[f"decoder.layers.{layer}.cross_attention"] = weights
    nothing = np.zeros((len(written), 0), np.float32)
    zeros = np.zeros(len(written), np.float32)
    return Trace(read, written, False, zeros, nothing.astype(np.int64), nothing, attention)


def write(folder: Path, num_snapshots: int = 3) -> None:
    for i in range(num_snapshots):
        scores = {"loss": 2.0, "bleu": 20.0 * i, "chrf": 30.0} if i else {}
        snapshot = ProbeSnapshot(update=500 * i, which=f"update {500 * i:,}", best=i == 2, **scores)
        save_snapshot(snapshot, [trace(*pair, sharpness=3.0 * i) for pair in PAIRS], folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "run")
    return tmp_path


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "80"} | variables
    return subprocess.run(
        [DRAGOMAN, "evolve", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def test_a_line_for_each_snapshot_plain_when_piped(folder: Path) -> None:
    done = run(folder, "run")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r" *[\d,]+ ", line)]
    assert [row[:2] for row in rows] == [["0", "-"], ["500", "20.0"], ["1,000", "*"]]
    printed = " ".join(done.stdout.split())
    for part in (
        "forced (teacher forcing) on the reference",
        "between source words and target words",
        "Where it looked, not why.",
        "The run is still training, or was interrupted: this is its state so far.",
    ):
        assert part in printed
    (folder / "run" / "bundle").mkdir()
    assert "still training" not in run(folder, "run").stdout


def test_every_file_is_written(folder: Path) -> None:
    arguments = ("run", "--html", "e.html", "--json", "e.json", "--sentence", "2", "--layer", "-1", "--head", "2")
    for name, start in (("e.png", b"\x89PNG"), ("e.svg", b"<?xml"), ("e.pdf", b"%PDF")):
        done = run(folder, *arguments, "--output", name)
        assert done.returncode == 0, done.stderr
        assert (folder / name).read_bytes().startswith(start)
    written = (folder / "e.svg").read_text("utf-8")
    assert "decoder.layers.1.cross_attention, head 2 of 3" in " ".join(re.sub("<[^>]+>", " ", written).split())
    assert len(json.loads((folder / "e.json").read_text("utf-8"))["heads"]) == 6
    assert "ein Haus" in (folder / "e.html").read_text("utf-8")
    assert sorted(path.name for path in folder.iterdir()) == ["e.html", "e.json", "e.pdf", "e.png", "e.svg", "run"]


def test_numbers_can_go_to_standard_output(folder: Path) -> None:
    done = run(folder, "run", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["snapshots"]) == 3
    assert "Where it looked, not why." in " ".join(done.stderr.split())


def test_a_run_that_has_only_begun_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "run", num_snapshots=1)
    done = run(tmp_path, "run", "--output", "e.png", "--html", "e.html")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "e.png").is_file()


def test_a_terminal_without_blocks_gets_other_bars(folder: Path) -> None:
    done = run(folder, "run", PYTHONIOENCODING="ascii")
    assert "########" in done.stdout
    assert "?" not in done.stdout


def test_looking_needs_no_torch(folder: Path) -> None:
    code = "import sys; from dragoman.cli.main import app; app(['evolve', 'run', '--html', 'e.html'], "
    code += "standalone_mode=False); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / "e.html").is_file()


MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "no such run": (("nowhere",), "nowhere: there is no such folder; give the folder of a run"),
    "a file for a run": (("a.txt",), "a.txt: this is a file; give the folder of a run"),
    "a folder of something else": (("other",), "other: this is not the folder of a run"),
    "a run without probes": (("old",), "train again with validation.probe=1"),
    "a run that has just begun": (("new",), "new: the first probe is not complete"),
    "a part of a run": (("run/bundle",), "run/bundle: this is a folder inside a run"),
    "a picture of no known kind": (
        ("run", "--output", "e.jpg"),
        "--output e.jpg has an unsupported extension: give a name ending in .svg",
    ),
    "an unknown kind": (("run", "--kind", "self"), "--kind self: give cross, encoder or decoder"),
    "a place that is not there": (("run", "--html", "no/e.html"), "--html no/e.html: folder no does not exist"),
    "a folder for a file": (("run", "--json", "run"), "--json run is a folder: give the name of a file"),
    "a sentence too far": (("run", "--sentence", "3"), "--sentence 3 does not exist: choose 1 to 2"),
    "a head without its layer": (("run", "--head", "1"), "give both, or neither"),
    "a layer too high": (("run", "--layer", "2", "--head", "0"), "there is no layer 2: choose 0 to 1"),
    "a head too far": (("run", "--layer", "0", "--head", "3"), "there is no head 3: choose 0 to 2"),
    "a kind it does not have": (("run", "--kind", "encoder"), "this model has no encoder attention; choose cross"),
    "a damaged snapshot": (("hurt",), "remove the folder 00000000 to see the other snapshots"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(name: str, folder: Path) -> None:
    (folder / "a.txt").write_text("no run\n", encoding="utf-8")
    (folder / "other").mkdir()
    (folder / "old").mkdir()
    (folder / "old" / "recipe.yaml").write_text("name: old\n", encoding="utf-8")
    (folder / "new" / "probe" / ".00000000.unfinished").mkdir(parents=True)
    (folder / "run" / "bundle").mkdir()
    write(folder / "hurt")
    (folder / "hurt" / "probe" / "00000000" / "1.trace").write_bytes(b"nothing")
    arguments, expected = MISTAKES[name]
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (last,) = [line for line in done.stderr.splitlines() if line != "read the probes"]
    assert last.startswith("error: ")
    assert expected in last
    assert not [path for path in folder.iterdir() if path.name.startswith(("e.", ".e."))]
