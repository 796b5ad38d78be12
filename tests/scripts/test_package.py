"""The sdist holds all that a build and the tests need; the wheel built from it holds the program, licences and demo."""

import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

from dragoman.version import __version__

ROOT = Path(__file__).parents[2]
FOLDERS = (".ci", "bench", "deploy", "docs", "scripts", "src", "studio", "tests")
MAX_BYTES = 22_000_000


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1763500000"} | environment
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind: str, source: Path, out: Path) -> Path:
    run(sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", out, source, folder=out)
    (built,) = [path for path in out.iterdir() if path.is_file()]
    return built


def files_below(folder: Path) -> set[str]:
    """Return the files of a folder that belong to the project, by their paths from its parent."""
    ignored = {"__pycache__", "node_modules", "build", "dist"}
    return {
        str(path.relative_to(folder.parent))
        for path in folder.rglob("*")
        if path.is_file() and not ignored & set(path.parts) and not any(part.endswith("_cache") for part in path.parts)
    }


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(build("sdist", ROOT, folder)) as archive:
        archive.extractall(folder, filter="data")
    return folder / f"dragoman-{__version__}"


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", sdist, tmp_path_factory.mktemp("wheel"))


@pytest.mark.slow
def test_the_sdist_holds_the_whole_tree(sdist: Path) -> None:
    held = {str(path.relative_to(sdist)) for path in sdist.rglob("*") if path.is_file()}
    needed = {path.name for path in ROOT.glob("*.*") if path.is_file() and not path.name.startswith(".")} | {"LICENSE"}
    for name in FOLDERS:
        needed |= files_below(ROOT / name)
    assert needed - held == set()
    assert not any("node_modules" in name for name in held)


@pytest.mark.slow
def test_the_wheel_holds_the_program_and_every_licence(wheel: Path) -> None:
    assert wheel.stat().st_size <= MAX_BYTES
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = message_from_string(archive.read(f"dragoman-{__version__}.dist-info/METADATA").decode())
    program = {name.removeprefix("src/") for name in files_below(ROOT / "src")}
    assert program - names == set()
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0 AND CC-BY-2.0 AND MPL-2.0"
    texts = metadata.get_all("License-File")
    assert {Path(text).name for text in texts} == {"LICENSE", "CC-BY-2.0.txt", "MPL-2.0.txt"}
    assert {f"dragoman-{__version__}.dist-info/licenses/{text}" for text in texts} <= names


@pytest.mark.slow
def test_the_wheel_translates(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = [sys.executable, "-m", "dragoman"]
    where = {"PYTHONPATH": str(tmp_path)}
    assert run(*program, "--version", folder=tmp_path, **where) == f"dragoman {__version__}\n"
    module = run(sys.executable, "-c", "import dragoman; print(dragoman.__file__)", folder=tmp_path, **where)
    assert Path(module.strip()).is_relative_to(tmp_path)
    translation = run(*program, "translate", "demo", "Where is the station?", folder=tmp_path, **where)
    assert translation == "Wo ist der Bahnhof?\n"
