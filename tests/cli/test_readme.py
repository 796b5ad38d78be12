"""The README and the guides do what they show: every ```console and ```python block is run, and its output compared.

    python tests/cli/test_readme.py --write [PAGE ...]

writes what the blocks print now into the pages (default: all but the README, which trains a model). Output that is
shown with a line of three dots is left as it is, and named.
"""

import io
import os
import re
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from html import unescape
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    """The blocks in these languages, in the order of the page."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [(language, block) for language, block in found if language in languages]


def pages() -> list[Any]:
    """The README trains a model, which takes a minute or two."""
    shown = [page for page in PAGES if blocks(page, "console", "python")]
    return [pytest.param(page, id=page.stem, marks=[pytest.mark.learning] * (page.stem == "README")) for page in shown]


def run(command: str, place: Path) -> str:
    beside_python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": beside_python, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(command, shell=True, cwd=place, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"$ {command}\n{done.stderr}"
    return done.stdout


def pattern(shown: str) -> re.Pattern[str]:
    """What is shown, where a line of three dots stands for any lines, or none."""
    lines = [r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in shown.strip().split("\n")]
    return re.compile("".join(lines))


def without_trailing_space(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


@pytest.mark.parametrize("page", pages())
def test_what_is_shown_is_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From top to bottom, in one folder and one interpreter: what one block makes, the next may use."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    for language, block in blocks(page, "console", "python"):
        if language == "console":
            check_commands(block, tmp_path)
        else:
            check_python(block, page.name, names, text_below(page, block))


def check_commands(block: str, place: Path) -> None:
    for command, shown in COMMAND.findall(block):
        printed = without_trailing_space(run(command, place))
        assert pattern(shown).fullmatch(printed + "\n"), f"$ {command}\n{printed}"


def text_below(page: Path, block: str) -> str | None:
    """A block of text that follows a block of Python at once shows what it prints."""
    below = page.read_text(encoding="utf-8").partition(f"{block}```\n")[2]
    found = re.match(r"\n```text\n(.*?)^```$", below, re.MULTILINE | re.DOTALL)
    return found and found[1]


def check_python(block: str, page: str, names: dict[str, object], below: str | None) -> None:
    """What is printed stands below, or beside each `print`."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(block, page, "exec"), names)
    if below is not None:
        assert without_trailing_space(printed.getvalue()) == without_trailing_space(below)
    else:
        assert printed.getvalue().splitlines() == re.findall(r"^ *print\(.*\)  # (.*)$", block, re.MULTILINE)


COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
"""A command and its output."""


def recorded() -> list[tuple[str, str]]:
    """The commands of the recording and their output, in its last frame."""
    svg = (ROOT / "docs" / "guides" / "pictures" / "terminal.svg").read_text(encoding="utf-8")
    last = re.findall(r'<text class="\w+" y="(\d+)"[^>]*>(.*)</text>', svg)
    lines = [unescape(re.sub(r"<.*?>", "", line)) for _, line in sorted(last, key=lambda row: int(row[0]))]
    return COMMAND.findall("".join(f"{line}\n" for line in lines).replace("\u00a0", " "))


def test_the_recording_shows_what_the_readme_shows() -> None:
    """The blocks below are run by the test above, so the recording cannot become old unnoticed."""
    shown = COMMAND.findall("".join(block for _, block in blocks(PAGES[0], "console")))
    assert [command for command, _ in recorded()] == [command for command, _ in shown]
    for (command, output), (_, expected) in zip(recorded(), shown, strict=True):
        assert pattern(expected).fullmatch(without_trailing_space(output) + "\n"), f"$ {command}\n{output}"


@pytest.mark.slow
def test_the_recording_shows_what_the_product_prints_now(tmp_path: Path) -> None:
    for command, output in recorded()[:2]:
        assert without_trailing_space(run(command, tmp_path)) == without_trailing_space(output)


def test_the_readme_shows_both() -> None:
    assert [language for language, _ in blocks(PAGES[0], "console", "python")] == ["console", "console", "python"]


def test_three_dots_stand_for_lines_and_nothing_else_does() -> None:
    assert pattern("one\n...\nfour").fullmatch("one\ntwo\nthree\nfour\n")
    assert pattern("...\nfour").fullmatch("four\n")
    assert not pattern("one\n...\nfour").fullmatch("one\ntwo\nthree\nfive\n")
    assert not pattern("one\n...\nfour").fullmatch("one twofour\n")
    assert not pattern("o.e").fullmatch("one\n")


def rewrite(page: Path, place: Path) -> None:
    """Run the blocks of a page, and write their output into it where another is shown."""
    text, names = page.read_text(encoding="utf-8"), dict[str, object](__name__=page.stem)
    os.chdir(place)
    for language, block in blocks(page, "console", "python"):
        if language == "console":
            new = COMMAND.sub(lambda command: rewrite_command(page, *command.groups(), place=place), block)
            text = text.replace(f"```console\n{block}", f"```console\n{new}")
            continue
        printed, below = io.StringIO(), text_below(page, block)
        with redirect_stdout(printed):
            exec(compile(block, page.name, "exec"), names)
        if below is not None:
            text = text.replace(f"{block}```\n\n```text\n{below}", f"{block}```\n\n```text\n{printed.getvalue()}")
        else:
            text = text.replace(block, rewrite_prints(block, printed.getvalue().splitlines()))
    page.write_text(text, encoding="utf-8")


def rewrite_prints(block: str, printed: list[str]) -> str:
    lines = iter(printed)
    return re.sub(r"^( *print\(.*\)  # ).*$", lambda line: line[1] + next(lines, ""), block, flags=re.MULTILINE)


def rewrite_command(page: Path, command: str, shown: str, place: Path) -> str:
    printed = without_trailing_space(run(command, place)) + "\n"
    if pattern(shown).fullmatch(printed):
        return f"$ {command}\n{shown}"
    if "..." in shown.split("\n"):
        print(f"{page.name}: other output than shown, to be changed by hand: $ {command}\n{printed}")
        return f"$ {command}\n{shown}"
    blank = "\n" if shown.endswith("\n\n") else ""
    return f"$ {command}\n{printed.lstrip(chr(10))}{blank}"


if __name__ == "__main__" and sys.argv[1:2] == ["--write"]:
    for changed in [Path(name).resolve() for name in sys.argv[2:]] or PAGES[1:]:
        if blocks(changed, "console", "python"):
            with tempfile.TemporaryDirectory() as folder:
                rewrite(changed, Path(folder))
