"""`dragoman serve`: models as an HTTP service."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast, get_args

import typer

if TYPE_CHECKING:
    from dragoman.decoding.given import Compute
    from dragoman.serving.limits import Limits
    from dragoman.serving.service import Service

_MISSING: Final = "dragoman serve needs more than is installed: pip install 'dragoman[serve]'"


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL...", help="Folders of models or runs; NAME=FOLDER gives one another name."),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve the small English-German model that is built in.")
    ] = False,
    host: Annotated[str, typer.Option(help="Where to listen; any but this machine needs --keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 5000,
    keys: Annotated[Path | None, typer.Option(metavar="FILE", help="Who may ask: a file made by dragoman key.")] = None,
    engines: Annotated[
        int | None, typer.Option(min=1, help="Processes that translate, each with all models; else one a core.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Of each of these processes.")] = 1,
    compute: Annotated[
        str, typer.Option(metavar="TYPE", help="What is multiplied: float32, or int16 or int8, faster and less exact.")
    ] = "float32",
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="A web site whose pages may ask, such as https://example.org. Repeatable."),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Another limit than usual, such as characters=5000. Repeatable."),
    ] = None,
) -> None:
    """Serve translations over HTTP: LibreTranslate's API, and one of our own that tells more.

    SIGTERM lets all who were let in finish; SIGHUP opens the models anew, and the old ones go on if that fails. What
    happens is logged to standard error, a JSON object a line, without a word of the texts.

        dragoman serve run/

        dragoman serve en-de=run1/ de-en=run2/ --host 0.0.0.0 --keys keys.yaml
    """
    folders = _folders(models or [], demo)
    try:
        from dragoman.serving.keys import read_keys
        from dragoman.serving.run import Setup, run
    except ModuleNotFoundError as error:
        raise ValueError(f"{_MISSING} ({error.name} is missing)") from None
    from dragoman.decoding.given import Compute, a_word

    a_word("--compute", compute, get_args(Compute))
    setup = Setup(
        models=folders,
        host=host,
        port=port,
        keys=read_keys(keys) if keys else None,
        engines=engines,
        threads=threads,
        compute=cast("Compute", compute),
        origins=tuple(allow_origin or ()),
        limits=_limits(limit or []),
    )
    try:
        run(setup, _started)
    except OSError as error:
        raise ValueError(f"{host}:{port} cannot be listened on: {error.strerror or error}; try --port 0") from None


def _started(host: str, port: int, service: "Service") -> None:
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{port}/", flush=True)
    for facts in service.models.values() if sys.stderr.isatty() else ():  # elsewhere it is a log, and has them already
        print(f"{facts.name}: {facts.source} to {facts.target}, {facts.sha256[:12]}", file=sys.stderr, flush=True)


def _folders(models: list[str], demo: bool) -> dict[str, Path]:
    """Every model by its name; a folder's own name, unless another is given."""
    from dragoman.bundle import demo_folder

    found: dict[str, Path] = {"demo": demo_folder()} if demo else {}
    for given in models:
        name, _, folder = given.rpartition("=") if not Path(given).exists() else ("", "", given)
        path = Path(folder)
        name = name or _own_name(path.absolute())
        if name in found:
            raise ValueError(f"two models are called {name}: give one another name, as NAME={folder}")
        found[name] = path.absolute()  # not resolved: a link that leads to another release is followed at a reload
    if not found:
        raise ValueError("nothing to serve: give the folder of a model, or --demo")
    return found


def _own_name(folder: Path) -> str:
    return folder.parent.name if folder.name == "bundle" else folder.name


def _limits(given: list[str]) -> "Limits":
    from pydantic import ValidationError

    from dragoman.serving.limits import Limits

    values = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or name not in Limits.model_fields:
            raise ValueError(f"--limit {one}: give NAME=VALUE; the names are {', '.join(Limits.model_fields)}")
        values[name] = value
    try:
        return Limits.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"--limit {first['loc'][0]}={first['input']}: {first['msg']}") from None
