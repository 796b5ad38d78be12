"""The README and the guides do what they show: every ```console and ```python block is run, and its output compared."""

import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def pages_with(language: str) -> list[Any]:
    return [pytest.param(page, id=page.stem) for page in PAGES if blocks(page, language)]


def run(command: str, place: Path) -> str:
    beside_python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": beside_python, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(command, shell=True, cwd=place, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"$ {command}\n{done.stderr}"
    return done.stdout


def pattern(shown: str) -> re.Pattern[str]:
    """What is shown, where a line of three dots stands for any lines."""
    lines = [".*?" if line == "..." else re.escape(line) for line in shown.strip().split("\n")]
    return re.compile("\n".join(lines), re.DOTALL)


def without_trailing_space(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


@pytest.mark.parametrize("page", pages_with("console"))
def test_commands_print_what_is_shown(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "console"):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            printed = without_trailing_space(run(command, tmp_path))
            assert pattern(shown).fullmatch(printed), f"$ {command}\n{printed}"


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_prints_what_its_comments_say(page: Path) -> None:
    code = "\n".join(blocks(page, "python"))
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, page.name, "exec"), {"__name__": page.stem})
    said = re.findall(r"^ *print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert printed.getvalue().splitlines() == said


def test_the_readme_shows_both() -> None:
    assert len(blocks(PAGES[0], "console")) == 1
    assert len(blocks(PAGES[0], "python")) == 4


def test_three_dots_stand_for_lines_and_nothing_else_does() -> None:
    assert pattern("one\n...\nfour").fullmatch("one\ntwo\nthree\nfour")
    assert not pattern("one\n...\nfour").fullmatch("one\ntwo\nthree\nfive")
    assert not pattern("o.e").fullmatch("one")
