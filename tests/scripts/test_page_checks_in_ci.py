"""CI fails where Node or chromium is missing; a checkout on a machine without them works."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_without_tools(tmp_path: Path, in_ci: bool, *command: str | Path) -> "subprocess.CompletedProcess[str]":
    for name in ("bash", "dirname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    environment = {name: value for name, value in os.environ.items() if name != "CI"} | {"PATH": str(tmp_path)}
    environment |= {"CI": "true"} if in_ci else {}
    tests = ROOT / "tests" / "unit" / "inspection"
    return subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("in_ci", [False, True])
def test_the_pages_of_the_studio_need_node(tmp_path: Path, in_ci: bool) -> None:
    done = run_without_tools(tmp_path, in_ci, ROOT / "scripts" / "studio")
    assert done.stdout.startswith("no Node")
    assert done.returncode == int(in_ci)


@pytest.mark.parametrize("in_ci", [False, True])
def test_the_tests_of_pages_need_chromium(tmp_path: Path, in_ci: bool) -> None:
    done = run_without_tools(tmp_path, in_ci, sys.executable, "-c", "import browser")
    assert ("install chromium" in done.stderr) is in_ci
    assert done.returncode == int(in_ci)
