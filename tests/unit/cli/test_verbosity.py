"""--quiet and --verbose: what a command prints beside its results."""

from collections.abc import Callable

import pytest
import typer

from dragoman.cli.progress import show_progress
from dragoman.cli.verbosity import is_quiet, print_note, with_verbosity


def noisy() -> None:
    with show_progress() as progress:
        progress("sort", 1, 2)
    print_note("a note")
    print("a result")


def mistaken() -> None:
    raise ValueError("a mistake")


@pytest.fixture
def run() -> Callable[..., None]:
    return with_verbosity(noisy, has_notes=True)


def test_a_command_prints_progress_notes_and_results(
    run: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    assert capsys.readouterr() == ("a result\n", "sort\na note\n")


def test_quiet_leaves_the_results_only(run: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    run(quiet=True)
    assert capsys.readouterr() == ("a result\n", "")
    assert not is_quiet()


def test_verbose_adds_versions_and_time(run: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    run(verbose=True)
    out, err = capsys.readouterr()
    assert out == "a result\n"
    first, *_, last = err.splitlines()
    assert "Python" in first
    assert "MB of memory" in last


def test_verbose_shows_where_an_error_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="a mistake"):
        with_verbosity(mistaken, has_notes=True)(verbose=True)
    assert "in mistaken" in capsys.readouterr().err
    with pytest.raises(ValueError, match="a mistake"):
        with_verbosity(mistaken, has_notes=True)()
    assert capsys.readouterr().err == ""


def test_an_exit_code_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    def stop() -> None:
        raise typer.Exit(3)

    with pytest.raises(typer.Exit):
        with_verbosity(stop, has_notes=True)(verbose=True)
    assert "Traceback" not in capsys.readouterr().err


def test_both_are_refused(run: Callable[..., None]) -> None:
    with pytest.raises(ValueError, match="--quiet and --verbose"):
        run(quiet=True, verbose=True)
