"""The installed command: quick, light, and plain about what went wrong."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import __version__
from dragoman.cli import main as command

DRAGOMAN = Path(sys.executable).with_name("dragoman")
HEAVY = {"torch", "numpy", "jaxtyping"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DRAGOMAN, *arguments], capture_output=True, text=True, check=False)


def imported(*arguments: str) -> set[str]:
    """Every module the command imports on its way."""
    code = f"import sys; sys.argv = ['dragoman', *{arguments!r}]; from dragoman.cli.main import main; main()"
    run = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=False)
    return set(re.findall(r"\|\s+(\S+)$", run.stderr, flags=re.MULTILINE))


def failing(error: Exception) -> object:
    def app() -> None:
        raise error

    return app


def test_it_says_its_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"dragoman {__version__}\n", "")


def test_help_names_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert re.search(r"plan +Show the parameters", done.stdout)


def test_without_a_command_it_shows_its_help() -> None:
    assert run().stdout.split() == run("--help").stdout.split()


def test_python_dash_m_is_the_same_command() -> None:
    module = [sys.executable, "-m", "dragoman", "--version"]
    assert subprocess.run(module, capture_output=True, text=True, check=True).stdout == run("--version").stdout


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("plan", "--help")], ids=" ".join)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    modules = imported(*arguments)
    assert "dragoman.cli.number_format" in modules  # by way of plan: what import_module itself loads is not listed
    assert modules & HEAVY == set()


def test_a_mistake_is_one_line_on_stderr_and_exit_code_2() -> None:
    done = run("plan", "papr-base")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: unknown preset 'papr-base': did you mean paper-base or .*\?\n", done.stderr)


def test_a_long_mistake_stays_one_line_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(command, "app", failing(ValueError("word " * 50 + "[red]end")))
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert capsys.readouterr().err == "error: " + "word " * 50 + "[red]end\n"


def test_a_mistake_is_red_in_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(command, "app", failing(ValueError("no")))
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert capsys.readouterr().err == "\x1b[31merror: no\x1b[0m\n"


@pytest.mark.parametrize("module", ["torch", "torch.nn", "matplotlib"])
def test_a_missing_module_says_which_extra_brings_it(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "app", failing(ModuleNotFoundError(f"No module named {module!r}", name=module)))
    with pytest.raises(SystemExit, match="2"):
        command.main()
    top = module.partition(".")[0]
    assert capsys.readouterr().err == f"error: the package {top} is missing: pip install 'dragoman[train]'\n"


@pytest.mark.parametrize("error", [ModuleNotFoundError("our own", name="dragoman.nowhere"), KeyError("our own")])
def test_our_own_mistakes_keep_their_traceback(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "app", failing(error))
    with pytest.raises(type(error), match="our own"):
        command.main()
