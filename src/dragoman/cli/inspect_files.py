"""The files of `dragoman inspect` and `explain`: whether they can be written is asked before anything is computed."""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dragoman.cli.inspect_asked import Seen
    from dragoman.inspection.choice import Choice
    from dragoman.inspection.heads import HeadHabit
    from dragoman.inspection.trace import Trace

ENDINGS: Final = {
    "svg": (".svg",),
    "png": (".png",),
    "pdf": (".pdf",),
    "html": (".html", ".htm"),
    "json": (".json",),
    "csv": (".csv",),
    "moses": (),
    "save": (".trace",),
}
"""By option: how the name of its file ends; any way, if none is given."""
TEXTS: Final = ("json", "csv", "moses")
STANDARD_OUTPUT: Final = Path("-")


def refuse(paths: dict[str, Path]) -> None:
    """Every file of a kind that its option makes, in a folder that is there; at most one on standard output."""
    for option, path in paths.items():
        if path == STANDARD_OUTPUT and option in TEXTS:
            continue
        endings = ENDINGS[option]
        if endings and path.suffix.lower() not in endings:
            raise ValueError(f"--{option} {path}: end its name in {endings[0]}")
        if not path.resolve().parent.is_dir():
            raise ValueError(f"--{option} {path}: there is no folder {path.parent}; make it first")
        if path.exists() and not path.is_file():
            raise ValueError(f"--{option} {path}: this is no file; give another name")
    printed = [option for option in paths if paths[option] == STANDARD_OUTPUT]
    if len(printed) > 1:
        raise ValueError(f"--{printed[0]} - and --{printed[1]} - would run together: give one of them a file")


def write(paths: dict[str, Path], seen: "Seen", choice: "Choice", habits: "list[HeadHabit] | None") -> Iterator[Path]:
    """Each file as it is there. With `habits` they are about all heads instead of the one map that was chosen."""
    trace, told = seen.trace, set[str]()
    for option, path in paths.items():
        if option in ("svg", "png", "pdf"):
            missing = _draw(path, trace, choice, every_head=habits is not None)
            for warning in sorted(missing - told):
                print(warning, file=sys.stderr)
            told |= missing
        elif option == "html":
            from dragoman.inspection.page import save_page

            save_page(trace, path, choice, seen.notes())
        elif option == "save":
            from dragoman.inspection.trace_file import save

            save(trace, path.resolve())
        else:
            put(path, _text(option, seen, choice, habits))
        if path != STANDARD_OUTPUT:
            yield path


def _text(option: str, seen: "Seen", choice: "Choice", habits: "list[HeadHabit] | None") -> str:
    from dragoman.inspection import exports

    trace = seen.trace
    match option, habits:
        case "moses", _:
            return exports.moses(trace, choice)
        case "json", None:
            return exports.map_json(trace, choice, seen.notes())
        case "json", list():
            return exports.habits_json(trace, habits, seen.notes())
        case _, None:
            return exports.map_csv(choice.view(trace))
        case _:
            return exports.habits_csv(habits)


def put(path: Path, text: str) -> None:
    """UTF-8 wherever it goes."""
    content = text.encode(errors="replace")
    if path == STANDARD_OUTPUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    from dragoman.data.durable import write_durably

    write_durably(path.resolve(), lambda sink: sink.write(content))


def _draw(path: Path, trace: "Trace", choice: "Choice", every_head: bool) -> set[str]:
    """Gives what is to be told of letters that could not be drawn."""
    from dragoman.inspection import plots

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ax = plots.heads(trace, choice.kind, choice.measure) if every_head else _map(trace, choice)
        plots.save(ax, path)
    # An SVG is drawn with its viewer's fonts: what is missing here may be there.
    return set() if path.suffix.lower() == ".svg" else {str(one.message) for one in said}


def _map(trace: "Trace", choice: "Choice") -> "Axes":
    from dragoman.inspection.plots.heat import heat

    seen = choice.view(trace)
    scale = "share of the row" if choice.measure == "attention" or choice.hide_sinks else "norm"
    return heat(seen.matrix, seen.rows, seen.columns, seen.caption, scale=scale, empty=seen.emptied)
