"""`dragoman key`: a new key for somebody who may use a service."""

from pathlib import Path
from typing import Annotated

import typer


def key(
    name: Annotated[str, typer.Argument(help="Whose key it is, for the log: letters, digits, dots and dashes.")],
    file: Annotated[Path, typer.Option(metavar="FILE", help="The service's file of keys; made if it is not there.")],
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="Without it, no limit.")] = None,
    characters_per_day: Annotated[int | None, typer.Option(min=1, help="Without it, no limit.")] = None,
) -> None:
    """Make a key for a service, and print it: it is shown once, and only its hash is kept.

    To take a key back, delete its entry from the file. A running service reads the file when it is started.

        dragoman key shop --file keys.yaml --requests-per-minute 600
    """
    from dragoman.serving.keys import add_key

    print(add_key(name, file, requests_per_minute, characters_per_day))
