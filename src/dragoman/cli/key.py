"""`dragoman key`: create an API key for a service."""

from pathlib import Path
from typing import Annotated

import typer

Requests = Annotated[int | None, typer.Option(metavar="N", min=1, help="Requests per minute; default: no limit.")]
Characters = Annotated[int | None, typer.Option(metavar="N", min=1, help="Characters per day; default: no limit.")]


def key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="User name: letters, digits, dots and dashes.")],
    keys: Annotated[Path, typer.Option(metavar="FILE", help="Key file of the service; created if missing.")],
    requests_per_minute: Requests = None,
    characters_per_day: Characters = None,
    metrics: Annotated[bool, typer.Option("--metrics", help="Allow the key to read /metrics.")] = False,
) -> None:
    """Create an API key for a service and print the key once; only a hash is stored.

    To revoke a key, delete its entry from the file. A service reads the file when it starts, with
    dragoman serve MODEL --keys FILE.

        dragoman key shop --keys keys.yaml --requests-per-minute 600

        dragoman key prometheus --keys keys.yaml --metrics
    """
    from dragoman.serving.keys import add_key

    print(add_key(name, keys, requests_per_minute, characters_per_day, metrics))
