"""The options --quiet and --verbose, added to the commands: how much a command prints beside its results."""

import inspect
import logging
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.version import __version__

Quiet = Annotated[bool, typer.Option("--quiet", help="Show results and errors only: no progress, no notes.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Show versions, log lines, time, memory and the traceback of an error.")
]

_is_quiet: ContextVar[bool] = ContextVar("is_quiet", default=False)
_is_verbose: ContextVar[bool] = ContextVar("is_verbose", default=False)


def is_quiet() -> bool:
    """Return True while a command runs with --quiet."""
    return _is_quiet.get()


def is_verbose() -> bool:
    """Return True while a command runs with --verbose."""
    return _is_verbose.get()


def print_note(text: str) -> None:
    """Print a note on standard error, unless the command runs with --quiet."""
    if not is_quiet():
        print(text, file=sys.stderr, flush=True)


def with_verbosity(command: Callable[..., None], has_notes: bool) -> Callable[..., None]:
    """Return the command with the option --verbose and, if it prints notes or progress, --quiet."""

    @wraps(command)
    def run(*, quiet: bool = False, verbose: bool = False, **options: Any) -> None:
        token, verbose_token = _is_quiet.set(quiet), _is_verbose.set(verbose)
        try:
            if verbose and quiet:
                raise ValueError("--quiet and --verbose cannot be combined: give one of them")
            with _details() if verbose else nullcontext():
                command(**options)
        finally:
            _is_quiet.reset(token)
            _is_verbose.reset(verbose_token)

    types = {"quiet": Quiet, "verbose": Verbose} if has_notes else {"verbose": Verbose}
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, kind, default=False, annotation=type_) for name, type_ in types.items()]
    signature = inspect.signature(command, eval_str=True)
    vars(run)["__signature__"] = signature.replace(parameters=[*signature.parameters.values(), *added])
    return run


@contextmanager
def _details() -> Iterator[None]:
    """Print versions before, time and memory after, and log lines and the traceback of an error between."""
    import resource  # which Windows lacks

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    start = time.monotonic()
    print_note(f"dragoman {__version__}, Python {platform.python_version()}, {platform.platform()}")
    print_note(f"{os.cpu_count()} CPU cores; current folder: {Path.cwd()}")
    try:
        yield
    except Exception as error:
        if not isinstance(error, typer.Exit):
            traceback.print_exc()
        raise
    finally:
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
        print_note(f"{time.monotonic() - start:.1f} s, {kilobytes / 1024:,.0f} MB of memory at most")
