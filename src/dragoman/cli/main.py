"""The `dragoman` command line: all commands in groups, with one-line messages for errors that a user can fix.

Heavy modules are imported inside the commands, so that help is instant and translating does not need the packages for
training.
"""

import errno
import io
import re
import sys
import time
from importlib import import_module
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from dragoman.cli import lab
from dragoman.cli.command import DragomanCommand, DragomanGroup, TextCommand
from dragoman.cli.verbosity import with_verbosity
from dragoman.io.torchrun import SECONDS_FOR_MESSAGE, end_torchrun
from dragoman.version import __version__

_HELP: Final = """\
Train a Transformer on your own parallel text, ship it, and see what happens inside it.

To try the built-in model, to train a model of your own, and to look inside it
(dragoman COMMAND --help shows the options of a command, and examples):

    dragoman translate demo "A man sleeps on a bench."

    dragoman train --source a.en --target a.de --out run/ --time 45m

    dragoman inspect "A man sleeps on a bench." --model run/
"""
app = typer.Typer(
    name="dragoman",
    cls=DragomanGroup,
    help=_HELP,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
_PANELS: Final = {
    "Train": ("train", "distill", "recipes", "plan", "doctor", "example"),
    "Translate": ("translate", "backtranslate", "serve", "key", "export", "import"),
    "Measure": ("evaluate", "score"),
    "Look inside": ("studio", "inspect", "explain", "align", "triage", "evolve", "ablate"),
    "Prepare": ("prepare", "peek"),
}
"""Commands by help panel; each name is that of a module and of the function in the module, unless listed below."""
_WITHOUT_NOTES: Final = ("recipes", "plan", "example", "key", "peek")
"""Commands that print results only, so that --quiet would change nothing."""
_WITH_TEXT: Final = ("translate", "inspect", "explain")
_FUNCTIONS: Final = {"import": "import_model"}
"""The function, and its module, of a command whose name is a keyword of Python."""
for _panel, _names in _PANELS.items():
    for _name in _names:
        _function = _FUNCTIONS.get(_name, _name)
        _module = import_module(f"dragoman.cli.{_function}")
        _command = with_verbosity(getattr(_module, _function), _name not in _WITHOUT_NOTES)
        app.command(_name, rich_help_panel=_panel, cls=TextCommand if _name in _WITH_TEXT else DragomanCommand)(
            _command
        )
app.add_typer(lab.app, name="lab", rich_help_panel="Look inside")


def _show_version(is_given: bool) -> bool:
    """Show the version and exit, or return the value of the option."""
    if is_given:
        typer.echo(f"dragoman {__version__}")
        raise typer.Exit
    return False


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; errors that a user can fix end with one line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter shows a question mark
    try:
        app()
    except ModuleNotFoundError as missing:
        _fail_for_good(_missing_extra(missing))
    except ValueError as error:
        _fail_for_good(str(error))
    except OSError as error:  # it may be gone when torchrun has started the processes again
        _fail(_describe_os_error(error))


def _missing_extra(missing: ModuleNotFoundError) -> str:
    """Return an error message that names the extra to install.

    A module in no extra is a bug, so the error is raised again.
    """
    from importlib.metadata import requires  # slow to load

    module = (missing.name or "").partition(".")[0]
    for requirement in requires("dragoman") or ():
        match = re.fullmatch(r"([\w.-]+).*extra == ['\"](\w+)['\"]", requirement)
        if match and match[1] == module and match[2] != "all":  # the smallest that helps
            return f"the package {module} is missing: pip install 'dragoman[{match[2]}]'"
    raise missing


def _describe_os_error(error: OSError) -> str:
    """Return the message of an operating-system error, with the file name and, for a full disk, what to do."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        reason += "; free some space and run the same command again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        reason += "; give another path, or change the permissions"
    if not error.filename:
        return reason
    name = re.sub(r"\.([^/]+)\.[0-9a-f]{8}\.incomplete$", r"\1", str(error.filename))  # its name until it is complete
    return f"{name}: {reason}"


def _fail_for_good(message: str) -> NoReturn:
    """End torchrun, if it has started this process; of its processes, one reports the error."""
    if not end_torchrun():
        time.sleep(SECONDS_FOR_MESSAGE)  # usually torchrun ends this process meanwhile
        raise SystemExit(2)
    _fail(message)


def _fail(message: str) -> NoReturn:
    Console(stderr=True).print(Text(f"error: {message}", style="red"), soft_wrap=True)
    raise SystemExit(2)
