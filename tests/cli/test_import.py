"""`dragoman import` as a user runs it, in an installation without torch."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "parity"))  # for marian_packages.py
from marian_packages import ENGLISH, GERMAN, NAMES, MarianFiles, Words, sentences

WITHOUT_TORCH = """
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "torch" else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("import")
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(WITHOUT_TORCH)
    words = Words.made(sentences(ENGLISH, 300), sentences(GERMAN, 300), (60, 70))
    files = MarianFiles(words)
    files.hugging_face(folder / "opus-mt-en-de", readme="* model: transformer-align\n")
    files.opus_mt(folder / "opus")
    named = Words.made(sentences(ENGLISH + NAMES, 300), sentences(GERMAN + NAMES, 300), (120, 130))
    shape = {"d_model": 64, "d_ff": 64, "num_heads": 4, "layers": (1, 2)}
    for name, heads in (("right", [[1, 2]]), ("wrong", [[1, 1]])):
        config = {"alignment_heads": heads}
        MarianFiles(named, **shape, aligned=(1, 2, "written"), config=config).hugging_face(folder / name)
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder / "site"), *sys.path])
    command = [sys.executable, "-m", "dragoman", *arguments]
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_model_is_imported_and_translates_without_torch(folder: Path) -> None:
    done = run(folder, "import", "opus-mt-en-de", "--out", "base")
    assert done.returncode == 0, done.stderr
    assert "imported: base: Transformer, 2+3 layers" in done.stdout
    assert "decoder.layers.2.cross_attention, head 0" in done.stdout
    assert "does not say under which licence" in done.stderr
    translated = run(folder, "translate", "base", "two old dogs run.")
    assert translated.returncode == 0, translated.stderr
    assert translated.stdout.strip()
    again = run(folder, "import", "opus-mt-en-de", "--out", "base")
    assert again.returncode == 2
    assert "not an empty folder" in again.stderr


def test_a_named_alignment_head_is_confirmed_or_doubted(folder: Path) -> None:
    done = run(folder, "import", "right", "--out", "aligned")
    assert done.returncode == 0, done.stderr
    assert "decoder.layers.1.cross_attention, head 2, which the package names; confirmed: " in done.stdout
    assert "--search --store" not in done.stderr
    doubtful = run(folder, "import", "wrong", "--out", "doubtful")
    assert doubtful.returncode == 0, doubtful.stderr
    assert "confirmed" not in doubtful.stdout
    assert "decoder.layers.1.cross_attention, head 2, finds" in doubtful.stderr
    assert "dragoman align doubtful --search --store" in doubtful.stderr


def test_options_are_kept_in_the_model(folder: Path) -> None:
    options = ["--languages", "en,de", "--licence", "CC-BY-4.0", "--positions", "hf", "--out", "npz"]
    done = run(folder, "import", "opus", *options)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("licence") == 0
    readme = (folder / "npz" / "README.md").read_text(encoding="utf-8")
    assert "CC-BY-4.0" in readme
    assert "--positions hf" in readme


def test_weights_of_torch_need_torch_and_the_error_says_how_to_get_it(folder: Path) -> None:
    pickled = Path(shutil.copytree(folder / "opus-mt-en-de", folder / "pickled"))
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")  # it is not read
    done = run(folder, "import", "pickled", "--out", "unread")
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'dragoman[train]'" in done.stderr
    assert not (folder / "unread").exists()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--positions", "other"], "--positions"),
        (["--languages", "en"], "--languages en is not a pair"),
        (["--to", "deu"], "leave out --to"),
    ],
    ids=str,
)
def test_a_mistake_is_explained_and_nothing_is_written(folder: Path, options: list[str], error: str) -> None:
    done = run(folder, "import", "opus", "--out", "new", *options)
    assert done.returncode == 2
    assert error in done.stderr
    assert not (folder / "new").exists()
