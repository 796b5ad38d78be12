"""Check output files before a command begins, and write files atomically; `-` is standard output."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dragoman.io.streams import file_identity, is_same_file

STDOUT: Final = Path("-")
PICTURES: Final = (".svg", ".pdf", ".png")


def check_output_file(option: str, path: Path, suffixes: Sequence[str] = (), inputs: Sequence[str] = ()) -> None:
    """Raise ValueError if an output file cannot be written, before a long computation starts.

    With `suffixes`, the file name must have one of these extensions, and standard output is not allowed. `inputs` are
    files that must not be overwritten.
    """
    if suffixes and path.suffix.lower() not in suffixes:
        raise ValueError(f"{option} {path} has an unsupported extension: give a name ending in {' or '.join(suffixes)}")
    if path == STDOUT:
        return
    if not path.resolve().parent.is_dir():
        raise ValueError(f"{option} {path}: folder {path.parent} does not exist: create the folder first")
    if path.is_dir():
        raise ValueError(f"{option} {path} is a folder: give the name of a file")
    if any(is_same_file(path, name) for name in inputs):
        raise ValueError(f"{option} {path} is an input file: give another output file")


def check_different(*outputs: tuple[str, Path | None]) -> None:
    """Raise ValueError if two options name the same output file."""
    first: dict[object, str] = {}
    for option, path in outputs:
        if path is not None and (file := file_identity(path)) in first:
            raise ValueError(f"{first[file]} and {option} are both {path}: give two different files")
        if path is not None:
            first[file] = option


def write_output(path: Path, text: str) -> None:
    """Write text as UTF-8 to a file (atomically) or to standard output (-)."""
    content = text.encode(errors="replace")
    if path == STDOUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    from dragoman.io.durable import write_durably

    write_durably(path.resolve(), content)
