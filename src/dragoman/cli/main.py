"""The `dragoman` command: gathers the commands, and turns what a user can mend into one line instead of a traceback.

Nothing heavy is imported here or at the top of a command's file: help must be instant, and running a model must not
need what training it needs.
"""

import errno
import io
import re
import sys
from importlib.metadata import requires
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from dragoman.cli.align import align
from dragoman.cli.backtranslate import backtranslate
from dragoman.cli.doctor import doctor
from dragoman.cli.evaluate import evaluate
from dragoman.cli.evolve import evolve
from dragoman.cli.example import example
from dragoman.cli.explain import explain
from dragoman.cli.export import export
from dragoman.cli.inspect import inspect
from dragoman.cli.key import key
from dragoman.cli.peek import peek
from dragoman.cli.plan import plan
from dragoman.cli.prepare import prepare
from dragoman.cli.score import score
from dragoman.cli.serve import serve
from dragoman.cli.train import train
from dragoman.cli.translate import translate
from dragoman.cli.translate_dashes import TakesTexts
from dragoman.cli.triage import triage
from dragoman.version import __version__

app = typer.Typer(
    name="dragoman",
    help="Train a Transformer on your own parallel text, ship it, and see what happens inside it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command()(train)
app.command(cls=TakesTexts)(translate)
app.command()(backtranslate)
app.command()(serve)
app.command()(key)
app.command()(export)
app.command()(evaluate)
app.command()(score)
app.command()(inspect)
app.command()(explain)
app.command()(align)
app.command()(triage)
app.command()(evolve)
app.command()(doctor)
app.command()(example)
app.command()(prepare)
app.command()(peek)
app.command()(plan)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dragoman {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. Exit code 2 says that the command, not the program, is to be mended."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter shows a question mark
    try:
        app()
    except ModuleNotFoundError as missing:
        _fail(_which_extra(missing))
    except ValueError as error:
        _fail(str(error))
    except OSError as error:
        _fail(_what_the_system_said(error))


def _which_extra(missing: ModuleNotFoundError) -> str:
    """What to install. A module that no extra brings is our own mistake: it keeps its traceback."""
    module = (missing.name or "").partition(".")[0]
    for requirement in requires("dragoman") or ():
        found = re.fullmatch(r"([\w.-]+).*extra == ['\"](\w+)['\"]", requirement)
        if found and found[1] == module and found[2] != "all":  # the smallest that helps
            return f"this needs {module}: pip install 'dragoman[{found[2]}]'"
    raise missing


def _what_the_system_said(error: OSError) -> str:
    """A full disk, a missing permission: the system knows the file, and the user the mend."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        reason += "; make room and give the same command again"
    return f"{error.filename}: {reason}" if error.filename else reason


def _fail(message: str) -> NoReturn:
    Console(stderr=True).print(Text(f"error: {message}", style="red"), soft_wrap=True)
    raise SystemExit(2)
