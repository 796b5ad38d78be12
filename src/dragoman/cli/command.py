"""Helpers shared by the commands: help without Python types, commands built from request classes, common options."""

import re
import shlex
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from dragoman.cli.verbosity import print_note
from dragoman.decoding.checks import check_choice
from dragoman.device import DEVICE_CHOICES, DEVICE_HELP
from dragoman.io.torchrun import is_under_torchrun

if TYPE_CHECKING:
    from dragoman.bundle import Bundle

_RENAMED: Final = {
    ("translate", "--demo"): "the model `demo`, as in: dragoman translate demo 'A text.'",
    ("serve", "--demo"): "the model `demo`, as in: dragoman serve demo",
    ("align", "--demo"): "the model `demo`, as in: dragoman align demo --source FILE --target FILE",
    ("export", "--to"): "--out",
    ("import", "--tag"): "--to",
    ("evolve", "--out"): "--output",
    ("evaluate", "--hypotheses"): "--output",
    ("inspect", "--png"): "--output FILE.png",
    ("inspect", "--svg"): "--output FILE.svg",
    ("inspect", "--pdf"): "--output FILE.pdf",
    ("key", "--file"): "--keys",
    ("score", "--json-lines"): "--json FILE, with - for standard output",
}
"""Options of earlier versions by command, with their replacements."""
_SHORT: Final = re.compile(r"-[^-]")
_SPACED: Final = re.compile(r"-[^=]*\s")
"""Matches a dash with white space before any equals sign, which no option contains."""


class DragomanCommand(TyperCommand):
    """A Typer command whose help shows metavars such as FILE or N instead of Python types.

    Options renamed since version 0.1 raise an error that names the new option.
    """

    context_class = typer.Context  # as the functions of the commands have it

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # the shell completes a command that is not finished
            return super().parse_args(ctx, args)
        for argument in args[: args.index("--")] if "--" in args else args:
            name = argument.partition("=")[0]
            if new := _RENAMED.get((self.name or "", name)):
                raise ValueError(f"{name} was replaced: give {new}")
        try:
            rest = super().parse_args(ctx, args)
        except Exception as error:
            if not is_under_torchrun() or not hasattr(error, "format_message"):
                raise
            raise ValueError(error.format_message()) from error  # typer would print it once for each process
        if not isinstance(out := ctx.params.get("out"), str):  # a command that takes URLs too checks them
            check_local_folder(out)
        return rest

    def get_params(self, ctx: Any) -> list[Any]:
        return hide_types(super().get_params(ctx))


class TextCommand(DragomanCommand):
    """A command that takes text, with an error message for a text that begins with a dash like an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = [param for param in self.params if isinstance(param, TyperOption)]
        with_value = {name for param in options if not param.is_flag for name in param.opts}
        own = args[: args.index("--")] if "--" in args else args
        for before, argument in zip(["", *own], own, strict=False):
            is_option = argument in (*ctx.help_option_names, *with_value)  # -oFILE without a space is taken for a text
            is_text = _SPACED.match(argument) or (_SHORT.match(argument) and not is_option)
            if is_text and before not in with_value and not ctx.resilient_parsing:
                text = shlex.quote(argument.partition("\n")[0])
                raise ValueError(f"{text} is no option: before a text that begins with a dash, give --: -- {text}")
        return super().parse_args(ctx, args)


class DragomanGroup(TyperGroup):
    """The group of all commands. `dragoman help COMMAND` is `dragoman COMMAND --help`."""

    context_class = typer.Context  # as the commands declare it: Typer would pass its base class

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [*args[1:2], "--help"] if args[:1] == ["help"] else args)

    def get_params(self, ctx: Any) -> list[Any]:
        return hide_types(super().get_params(ctx))


def hide_types(params: list[Any]) -> list[Any]:
    """Return the parameters, without the Python types that Typer shows in the help, such as <bool> or <list[str]>."""
    for param in params:
        if isinstance(param, TyperArgument):
            vars(param)["display_type_rich"] = lambda ctx: None  # noqa: ARG005
        elif isinstance(param, TyperOption) and param.is_flag:
            param.metavar = ""
    return params


def check_local_folder(out: Path | None) -> None:
    """Raise ValueError if --out is empty or a URL, of which a Path keeps one slash."""
    if out is not None and re.match(r"[A-Za-z][\w+.-]+:/", str(out)):
        address = str(out).replace(":/", "://", 1)
        raise ValueError(f"--out {address} is not a local folder: write to a local folder, and copy it from there")
    if out is not None and str(out) == ".":
        raise ValueError("--out is empty, or the current folder: give a new folder")


def check_name(what: str, name: str, names: Sequence[str]) -> None:
    """Raise ValueError unless `name` is one of the names; the message has the nearest."""
    if name not in names:
        near = get_close_matches(name, names, n=1)
        fix = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(names)}"
        raise ValueError(f"no {what} is named {name!r}: {fix}")


def split_languages(languages: str | None, fewest: int = 2) -> tuple[str, ...] | None:
    """Return the two codes of --languages, as in en,de, or as few as `fewest`; None if the option is not given."""
    if languages is None:
        return None
    codes = tuple(code.strip() for code in languages.split(","))
    if not fewest <= len(codes) <= 2 or not all(codes):
        raise ValueError(f"--languages {languages} is not a pair: give two codes, as in en,de")
    return codes


def model_folder(name: str) -> Path:
    """Return the folder of a model; the name `demo` means the built-in model.

    For a folder named demo, give `./demo`. For a run that is not finished, print a note about its weights.
    """
    from dragoman.bundle import demo_folder, unfinished_note

    folder = demo_folder() if name == "demo" else Path(name)
    if note := unfinished_note(folder):
        print_note(f"note: {note}")
    return folder


def open_model(name: str, to: str | None = None) -> "Bundle":
    """Open the model that a user named: a bundle, a run, or `demo`; `to` is the target language to translate into."""
    from dragoman.bundle import open_bundle

    return open_bundle(model_folder(name)).to(to)


def complete_model(incomplete: str) -> list[str]:
    """Return the names that a shell offers for a model: `demo` and folders."""
    return ["demo", *complete_path(incomplete, ())]


def complete_path(incomplete: str, suffixes: tuple[str, ...]) -> list[str]:
    """Return the folders, and the files with one of these suffixes, whose paths begin with a text."""
    start, slash, _ = incomplete.rpartition("/")
    try:
        found = sorted(Path(start + slash).iterdir())
    except OSError:
        return []
    visible = [path for path in found if not path.name.startswith(".")]
    names = [f"{path.name}/" for path in visible if path.is_dir()]
    return [start + slash + name for name in names + [path.name for path in visible if path.suffix in suffixes]]


MODEL_HELP: Final = "Folder of a model or training run, or `demo` for the built-in model."
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP, autocompletion=complete_model)]
OptionalModelArgument = Annotated[
    str | None, typer.Argument(metavar="MODEL", help=MODEL_HELP, autocompletion=complete_model)
]

PAIRS_HELP: Final = "File of sentence pairs: TMX, XLIFF, PO, CSV, TSV, JSONL or Parquet"
FieldsOption = Annotated[
    str | None, typer.Option(metavar="NAME,NAME", help="Columns, keys or languages of --pairs, as in en,de.")
]


def option(metavar: str | None, text: str, *names: str, panel: str | None = None, least: int | None = None) -> Any:
    """Return a Typer option with help text; a flag needs a name such as --words, and has no metavar.

    The shell completes values of a metavar such as `cross|encoder|decoder`, and names of models.
    """
    choices = [name for name in (metavar or "").split("|") if not name.isupper()]
    complete = complete_model if metavar == "MODEL" else (lambda: choices) if metavar and choices else None
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, min=least, autocompletion=complete)


DeviceOption = Annotated[str, option(DEVICE_CHOICES, DEVICE_HELP)]

ToOption = Annotated[
    str | None, option("LANGUAGE", "Target language of a model that translates into several, such as fr.")
]


def out_option(text: str) -> Any:
    """Return the option --out DIR, or -o, of a command that writes a folder."""
    return option("DIR", text, "--out", "-o")


def output_option(text: str, panel: str | None = None) -> Any:
    """Return the option --output FILE, or -o, of a command that writes a file."""
    return option("FILE", text, "--output", "-o", panel=panel)


def json_option(text: str, panel: str | None = None) -> Any:
    """Return the option --json FILE, where - is standard output."""
    return option("FILE", f"{text}; - for standard output.", "--json", panel=panel)


def command_of(name: str, request: type[Any]) -> Callable[..., None]:
    """Return a command that builds a `request` object from its options and calls the object's `run` method.

    The docstring of the request class becomes the help text.
    """

    @wraps(request, updated=())
    def command(**options: Any) -> None:
        request(**options).run()

    command.__name__ = name
    return command


def check_map_options(
    kind: str | None, head: str | None = None, rows: str | None = None, measure: str | None = None
) -> None:
    """Raise ValueError if --kind, --head, --rows or --measure has an invalid value."""
    check_choice("--kind", kind, ("cross", "encoder", "decoder"))
    check_choice("--rows", rows, ("written", "read"))
    check_choice("--measure", measure, ("attention", "norm"))
    if head not in (None, "mean") and not str(head).isdecimal():
        raise ValueError(f"--head {head} is not a head: give a number from 0, or mean")
