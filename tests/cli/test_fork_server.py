"""The command of fork_server.py behaves as the installed one, and is not the installed one in disguise."""

import os
import subprocess
from pathlib import Path

from fork_server import DRAGOMAN, INSTALLED

MODEL = Path(__file__).parents[1] / "golden" / "v1"


def run(command: Path, *arguments: str, text: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | variables
    return subprocess.run([command, *arguments], env=env, input=text, capture_output=True, text=True, check=False)


def test_it_has_the_output_and_the_exit_code_of_the_installed_command() -> None:
    for arguments in (["translate", str(MODEL)], ["translate", "absent"], ["--version"]):
        ours, theirs = (run(command, *arguments, text="two red dogs.\n\n") for command in (DRAGOMAN, INSTALLED))
        assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


def test_it_is_the_installed_command_only_if_python_must_start_in_another_way() -> None:
    no_command = {"DRAGOMAN_INSTALLED": "/absent"}
    assert run(DRAGOMAN, "--version", **no_command).stdout.startswith("dragoman ")
    assert run(DRAGOMAN, "--version", PYTHONIOENCODING="ascii", **no_command).returncode == 1
