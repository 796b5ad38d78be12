"""`dragoman serve`: serve models over HTTP."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dragoman.cli.command import DeviceOption, complete_model, model_folder, option
from dragoman.cli.verbosity import is_quiet
from dragoman.device import AUTO

if TYPE_CHECKING:
    from dragoman.serving.config import Limits
    from dragoman.serving.service import Service

_MAPPINGS: Final = ("models", "glossary", "limit")
"""Settings that are a mapping in a file, and NAME=VALUE on the command line."""
_MISSING: Final = "dragoman serve needs packages that are not installed: pip install 'dragoman[serve]'"


def _read_settings(ctx: typer.Context, file: Path | None) -> Path | None:
    """Take the settings of a file as the defaults of the command line; each limit is a separate setting."""
    if file is not None:
        settings = read_settings(file, {parameter.name or "" for parameter in ctx.command.params} - {"config"})
        ctx.meta["limits"] = settings.pop("limit", [])
        ctx.default_map = settings
    return file


def read_settings(file: Path, known: set[str]) -> dict[str, Any]:
    """Return the settings of a YAML file by the names of options, as the command line has them."""
    import yaml

    try:
        settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ValueError(f"--config {file}: {reason}") from None
    if not isinstance(settings, dict):
        raise ValueError(f"--config {file}: give settings as `name: value`, one per line, such as port: 5000")
    values = {str(name).replace("-", "_"): value for name, value in settings.items()}
    if unknown := [name for name in values if name not in known]:
        names = ", ".join(sorted(name.replace("_", "-") for name in known))
        raise ValueError(f"--config {file}: unknown setting {unknown[0]}: give one of {names}")
    for name in _MAPPINGS:
        if isinstance(values.get(name), dict):
            values[name] = [f"{key}={value}" for key, value in values[name].items()]
    for name in (*_MAPPINGS, "allow_origin"):
        if isinstance(values.get(name), str):
            values[name] = [values[name]]
    return values


def serve(
    ctx: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL", help="Models to serve, as [NAME=]FOLDER, or `demo`.", autocompletion=complete_model
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to bind; 0.0.0.0 needs --keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 chooses a free port.")] = 5000,
    keys: Annotated[Path | None, typer.Option(metavar="FILE", help="Require an API key listed in FILE.")] = None,
    quotas: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Redis where several services count the usage of keys."),
    ] = None,
    engines: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of engine processes; default: cores / --threads, or 1 on GPUs."),
    ] = None,
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="CPU threads per engine process.")] = 1,
    compute: Annotated[str, option("float32|int16|int8|float16", "CTranslate2 compute type.")] = "float32",
    device: DeviceOption = AUTO,
    allow_origin: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="CORS origin that may call the service (repeatable).")
    ] = None,
    glossary: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="Glossary that requests may name: a table of terms (repeatable)."),
    ] = None,
    limit: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Set a limit, such as characters=5000 (repeatable).")
    ] = None,
    config: Annotated[  # noqa: ARG001  # its callback reads it
        Path | None,
        typer.Option(
            metavar="FILE",
            help="YAML file of settings; options given beside it win.",
            callback=_read_settings,
            is_eager=True,
        ),
    ] = None,
) -> None:
    """Serve translations over HTTP, with LibreTranslate's API and a native API that returns more.

    SIGTERM finishes all admitted requests and stops. SIGHUP reloads the models, glossaries and keys; if that fails, the
    old ones stay. The log goes to standard error, one JSON object per line, and contains no texts; with --quiet, it has
    warnings and errors only.

        dragoman serve demo

        dragoman serve en-de=run1/ de-en=run2/ --host 0.0.0.0 --keys keys.yaml

        dragoman serve --config service.yaml
    """
    folders = model_folders(models or [])
    try:
        from dragoman.serving.config import ServiceConfig
        from dragoman.serving.keys import read_keys
        from dragoman.serving.run import run_service
    except ModuleNotFoundError as error:
        raise ValueError(f"{_MISSING} ({error.name} is missing)") from None
    service = ServiceConfig(
        models=folders,
        host=host,
        port=port,
        keys=read_keys(keys) if keys else None,
        keys_file=keys.absolute() if keys else None,
        quotas=quotas,
        engines=engines,
        threads=threads,
        compute=compute,
        device=device,
        origins=tuple(allow_origin or ()),
        glossaries=_glossary_files(glossary or []),
        limits=parse_limits([*ctx.meta.get("limits", []), *(limit or [])]),
    )
    try:
        run_service(service, _print_address, is_quiet())
    except OSError as error:
        wrong = f"cannot listen on {host}:{port} ({error.strerror or error})"
        raise ValueError(f"{wrong}: give another --port or --host") from None


def _print_address(host: str, port: int, service: "Service") -> None:
    print(f"http://{f'[{host}]' if ':' in host else host}:{port}/", flush=True)
    if sys.stderr.isatty() and not is_quiet():  # else it is a log, which has them already
        for model in service.models.values():
            pairs = ", ".join(f"{source} to {target}" for source, target in model.pairs)
            print(f"{model.name}: {pairs}, {model.sha256[:12]}", file=sys.stderr, flush=True)


def model_folders(arguments: list[str]) -> dict[str, Path]:
    """Return the model folders by model name; FOLDER without NAME= is named after the folder."""
    folders: dict[str, Path] = {}
    for argument in arguments:
        name, _, folder = argument.rpartition("=") if not Path(argument).exists() else ("", "", argument)
        path = model_folder(folder).absolute()  # a link is followed again at each reload
        if not name:
            name = "demo" if folder == "demo" else path.parent.name if path.name == "bundle" else path.name
        if name in folders:
            raise ValueError(f"two models are called {name}: give another name with NAME={folder}")
        folders[name] = path
    if not folders:
        raise ValueError("no model: give the folder of a model, or `demo`")
    return folders


def _glossary_files(arguments: list[str]) -> dict[str, Path]:
    """Return the files of glossaries by name, from NAME=FILE arguments."""
    paths: dict[str, Path] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or not name or not path:
            raise ValueError(f"invalid --glossary {argument}: give NAME=FILE, as in it=terms.tsv")
        if name in paths:
            raise ValueError(f"two glossaries are called {name}: give another name with NAME={path}")
        paths[name] = Path(path).absolute()
    return paths


def parse_limits(arguments: list[str]) -> "Limits":
    """Return the default limits with NAME=VALUE arguments applied; raise ValueError for an invalid argument."""
    from pydantic import ValidationError

    from dragoman.serving.config import Limits

    values = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or name not in Limits.model_fields:
            raise ValueError(f"invalid --limit {argument}: give NAME=VALUE for one of {', '.join(Limits.model_fields)}")
        values[name] = value
    try:
        return Limits.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"--limit {first['loc'][0]}={first['input']}: {first['msg']}") from None
