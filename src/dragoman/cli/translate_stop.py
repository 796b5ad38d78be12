"""How `dragoman translate` ends before its time: by Ctrl-C, by a kill, or since nobody reads what it writes."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import typer

_SIGNALLED: Final = 128
"""What a shell adds to the number of the signal that has ended a program."""


class _Terminated(KeyboardInterrupt):
    """A kill is like Ctrl-C: what is half written is removed on the way out."""


@contextmanager
def ending_well(output: Path | None) -> Iterator[None]:
    """Says that it was stopped and what has become of the output, and ends with the exit code that shells know."""
    there = output is not None and output.exists()
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except KeyboardInterrupt as stop:
        what = f"; {output} {'is as it was' if there else 'was not written'}" if output else ""
        print(f"stopped{what}", file=sys.stderr)
        ended = signal.SIGTERM if isinstance(stop, _Terminated) else signal.SIGINT
        raise typer.Exit(_SIGNALLED + ended) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is not tried again at the end
        raise typer.Exit(_SIGNALLED + signal.SIGPIPE) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(*_: object) -> NoReturn:
    raise _Terminated
