"""`--device` on a machine that lacks the device: one clear line from every command that has the option."""

import subprocess
from pathlib import Path

import pytest
from fork_server import DRAGOMAN

from dragoman.device import choose_kind

pytestmark = pytest.mark.usefixtures("forks")

PAIRS = ("--source", "a.en", "--target", "a.de")
COMMANDS = {
    "translate": ("translate", "demo", "A dog."),
    "translate on torch": ("translate", "demo", "A dog.", "--engine", "torch"),
    "translate many files": ("translate", "demo", "--shards", "a.en", "--out", "out"),
    "evaluate": ("evaluate", "demo", "--source", "a.en", "--reference", "a.de"),
    "inspect": ("inspect", "A dog."),
    "serve": ("serve", "demo"),
    "train": ("train", *PAIRS, "--out", "run"),
    "doctor": ("doctor", *PAIRS),
}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    for language, text in (("en", "A dog.\n"), ("de", "Ein Hund.\n")):
        (folder / f"a.{language}").write_text(text, encoding="utf-8")
    return subprocess.run([DRAGOMAN, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.skipif(choose_kind() != "cpu", reason="this machine has an accelerator")
@pytest.mark.parametrize("device", ["cuda", "mps"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_device_that_is_not_there_is_one_line(name: str, device: str, tmp_path: Path) -> None:
    done = run(tmp_path, *COMMANDS[name], "--device", device)
    assert done.returncode == 2, done.stderr
    lines = [line for line in (done.stdout + done.stderr).splitlines() if device in line]
    assert len(lines) == 1, (done.stdout, done.stderr)
    assert f"device {device} is not available" in lines[0] or f"does not run on {device} devices" in lines[0]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run" / "prepared").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_no_device_is_an_error_of_the_option(name: str, tmp_path: Path) -> None:
    done = run(tmp_path, *COMMANDS[name], "--device", "GPU")
    assert done.returncode == 2, done.stderr
    assert "--device GPU is not a device: give one of auto, cpu, cuda, mps" in done.stdout + done.stderr
