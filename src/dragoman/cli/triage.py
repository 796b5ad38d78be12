"""`dragoman triage`: which translations of a test set need a look, the worst first, each with its reasons."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dragoman.bundle import Bundle
    from dragoman.inspection.triage import Account, Triaged

DEFAULT_TRACES = 20


def triage(
    source: Annotated[str, typer.Option(metavar="FILE", help="Sentences, one a line; - for standard input.")],
    target: Annotated[
        str | None, typer.Option(metavar="FILE", help="Their translations, line by line; else the model's own.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="A model or a run; with neither --target nor --model, the built-in one."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="How many to show.")] = 20,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report that opens the traces.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Write all as JSON lines; - for here.")] = None,
    traces: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="How many of the worst have a trace in the report. [default: 20]"),
    ] = None,
) -> None:
    """Rank translations by what looks wrong with them, each with its evidence.

    Flagged are dropped source words, repetitions, a low source share, untranslated text, numbers and addresses that
    differ, and odd lengths. A flag is a reason to look, not a verdict; what has none may be wrong too.

    Two files are compared by their text, which takes no model:

        dragoman triage --source test.en --target test.de

    With a model, which translates or is led through the target, attention is looked at too:

        dragoman triage --source test.en --model run/ --html report.html
    """
    from dragoman.evaluation.text import read_text, require_same_length

    _refuse_mistakes(source, target, model, html, json, traces)
    sources, targets = read_text(source), None if target is None else read_text(target)
    if targets is not None:
        require_same_length(sources, targets)
    given = None if targets is None else targets.lines
    if model is None and given is not None:
        ranked, account = _of_texts(sources.lines, given)
        pages: dict[int, str] = {}
    else:
        ranked, account, pages = _of_model(_bundle(model), sources.lines, given, html, traces)
    _write(ranked, account, html, json, pages)
    _show(ranked, account, top, html, json)


def _refuse_mistakes(
    source: str, target: str | None, model: Path | None, html: Path | None, json: str | None, traces: int | None
) -> None:
    """Tracing may take an hour: what can be known to fail is said before."""
    if source == target:
        raise ValueError(f"--source and --target are both {source}: give the translations as --target")
    if traces is not None and html is None:
        raise ValueError("--traces is about the report: give --html FILE too")
    if traces and model is None and target is not None:
        raise ValueError("--traces needs a model to trace: give --model FOLDER too, or leave --traces out")
    if html is not None and str(html) == "-":
        raise ValueError("--html -: a report has its traces beside it, so it needs a name, as in --html report.html")
    if html is not None and json is not None and Path(json).resolve() == html.resolve():
        raise ValueError(f"--html and --json are both {json}: give two names")
    written = [*([html] if html else []), *([Path(json)] if json and json != "-" else [])]
    for path in written:
        _require_place(path, [name for name in (source, target) if name])
    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--html {html}: end its name in .html")
    if html is not None:
        _require_folder(html)


def _require_place(path: Path, read: Sequence[str]) -> None:
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise ValueError(f"{path}: this is a folder; name a file")
    if any(path.exists() and Path(name).exists() and path.samefile(name) for name in read):
        raise ValueError(f"{path}: this file is what is read; give another name")


def _require_folder(html: Path) -> None:
    from dragoman.inspection.triage_page import traces_folder

    folder = traces_folder(html)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: the traces need this name for their folder; choose another --html")


def _bundle(model: Path | None) -> "Bundle":
    from dragoman.bundle import demo_folder, open_bundle

    return open_bundle(demo_folder() if model is None else model)


def _of_texts(sources: Sequence[str], targets: Sequence[str]) -> tuple[list["Triaged"], "Account"]:
    from dragoman.inspection.flag import FlagRules
    from dragoman.inspection.triage import Account, Pair, triage, usual_ratio

    pairs = [Pair(source, target) for source, target in zip(sources, targets, strict=True)]
    rules = FlagRules(expected_ratio=usual_ratio(pairs))
    return triage(pairs, rules), Account(rules, num_lines=sum(bool(pair.source and pair.target) for pair in pairs))


def _of_model(
    bundle: "Bundle", sources: Sequence[str], targets: Sequence[str] | None, html: Path | None, traces: int | None
) -> tuple[list["Triaged"], "Account", dict[int, str]]:
    # torch takes seconds to import: whoever has mistyped a name is told before.
    from dragoman.cli.progress import shown
    from dragoman.inspection import triaging
    from dragoman.inspection.inspector import Inspector

    inspector = Inspector.of(bundle)
    with shown() as progress:
        if targets is None:
            lines = triaging.translated(inspector, sources, progress)
        else:
            lines = triaging.forced(inspector, sources, targets)
        ranked, account = triaging.ranked(inspector, lines, progress)
        if html is None:
            return ranked, account, {}
        limit = DEFAULT_TRACES if traces is None else traces
        return ranked, account, triaging.save_traces(inspector, lines, ranked, html, limit, progress)


def _write(
    ranked: Sequence["Triaged"], account: "Account", html: Path | None, json: str | None, pages: dict[int, str]
) -> None:
    from dragoman.inspection.triage import json_lines
    from dragoman.inspection.triage_page import save_report

    if json == "-":
        sys.stdout.buffer.write(json_lines(ranked).encode())
        sys.stdout.buffer.flush()
    elif json is not None:
        Path(json).write_text(json_lines(ranked), encoding="utf-8", newline="\n")
    if html is not None:
        save_report(ranked, account, html, pages)


def _show(ranked: Sequence["Triaged"], account: "Account", top: int, html: Path | None, json: str | None) -> None:
    """JSON lines have standard output to themselves."""
    from rich.console import Console

    from dragoman.inspection.triage import summary, table

    console = Console(stderr=json == "-", highlight=False, markup=False)
    if json == "-" or not any(one.flags for one in ranked):
        console.print(summary(ranked))
    else:
        console.print(table(ranked, top))
    for sentence in account.sentences():
        console.print(sentence)
    if html is not None:
        console.print(f"Report: {html}", soft_wrap=True)
