"""`dragoman studio`: a web page to translate with a model and to look inside it."""

from typing import Annotated, Final

import typer

from dragoman.cli.command import DeviceOption, complete_model
from dragoman.cli.serve import model_folders
from dragoman.cli.verbosity import print_note
from dragoman.device import AUTO, check_device

_MISSING: Final = "dragoman studio needs packages that are not installed: pip install 'dragoman[serve]'"


def studio(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="Models or runs to open, as [NAME=]FOLDER; default: `demo`.",
            autocompletion=complete_model,
        ),
    ] = None,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 chooses a free port.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")] = False,
    device: DeviceOption = AUTO,
) -> None:
    """Open a web page to translate sentences and to see every attention head, the search, and the model with heads off.

    The folder of a training run opens with its curves, sample translations and attention over time, finished or while
    it trains.

    The page is for this machine and user alone: it listens on 127.0.0.1, and the printed address contains a random
    token. Ctrl-C ends it. Without torch, the page shows the stored alignment head; pip install 'dragoman[train]' adds
    the other heads, the search and the switches.

        dragoman studio

        dragoman studio run/ --port 8000 --no-browser
    """
    check_device(device, "--device")
    folders = model_folders(models or ["demo"])
    try:
        from dragoman.studio.studio_server import run_studio
        from dragoman.studio.tracing import has_torch
    except ModuleNotFoundError as error:
        raise ValueError(f"{_MISSING} ({error.name} is missing)") from None
    if not has_torch():
        print_note("note: torch is not installed, so only the stored alignment head is shown: dragoman[train] has it")

    def show(address: str) -> None:
        print(address, flush=True)
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    try:
        run_studio(folders, port, show, device)
    except OSError as error:
        raise ValueError(f"cannot listen on port {port} ({error.strerror or error}): give another --port") from None
