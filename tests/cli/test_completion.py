"""Completion in a real bash: commands, options, models, recipes, presets and files, quickly."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
SCRIPT = """
eval "$(dragoman --show-completion)"
COMP_WORDS=({words}) COMP_CWORD={last}
_dragoman_completion dragoman
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
HEAVY = {"torch", "numpy", "ctranslate2"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "my.yaml").write_text("name: my\n")
    (tmp_path / "notes.txt").write_text("")
    return tmp_path


def complete(folder: Path, *words: str) -> list[str]:
    """Return what bash offers for the last word of a command."""
    quoted = " ".join(f"'{word}'" for word in ("dragoman", *words))
    script = SCRIPT.format(words=quoted, last=len(words))
    env = {"PATH": f"{BIN}:/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), "HOME": str(folder)}
    done = subprocess.run(["bash", "--norc", "-c", script], cwd=folder, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.slow
def test_a_shell_completes_names(folder: Path) -> None:
    assert complete(folder, "tra") == ["train", "translate"]
    assert complete(folder, "translate", "--no-") == ["--no-split", "--no-protect"]
    assert complete(folder, "translate", "") == ["demo", "run/"]
    assert complete(folder, "score", "de") == ["demo"]
    assert complete(folder, "explain", '"A text."', "--model", "r") == ["run/"]
    assert complete(folder, "inspect", '"A text."', "--kind", "") == ["cross", "encoder", "decoder"]
    assert {"multi30k-en-de", "my.yaml"} < {*complete(folder, "train", "m")}
    assert "dates" in complete(folder, "recipes", "d")
    assert complete(folder, "example", "") == ["dates", "g2p", "parsing", "scan", "scan-length"]
    assert "paper-base" in complete(folder, "plan", "paper-")


@pytest.mark.slow
def test_other_values_are_left_to_the_shell_which_offers_files(folder: Path) -> None:
    assert complete(folder, "translate", "demo", "--input", "no") == []
    assert complete(folder, "train", "--source", "") == []


@pytest.mark.slow
@pytest.mark.parametrize("words", ["dragoman tra", "dragoman translate demo --", "dragoman train m"])
def test_completion_imports_nothing_heavy(words: str, folder: Path) -> None:
    code = "import sys; sys.argv = ['dragoman']; from dragoman.cli.main import main; main()"
    number = str(len(words.split()) - 1)
    env = {"_DRAGOMAN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": number}
    env["PYTHONPATH"] = ":".join(sys.path)
    command = [sys.executable, "-X", "importtime", "-c", code]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert (done.returncode, bool(done.stdout.strip())) == (0, True), done.stderr
    assert {*re.findall(r"\|\s+(\S+)$", done.stderr, flags=re.MULTILINE)} & HEAVY == set()
