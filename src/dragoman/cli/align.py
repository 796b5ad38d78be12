"""`dragoman align`: which words of two files belong together, line by line, and which head of a model knows best."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, get_args

import typer

if TYPE_CHECKING:
    from dragoman.bundle import Bundle
    from dragoman.cli.align_head import HeadOptions
    from dragoman.cli.align_links import Work
    from dragoman.data.moses import Gold

_HEAD: Final = "Which head of MODEL"
_GOLD: Final = "Against what people said"
_BOTH: Final = "Both directions"


Sources = Annotated[str, typer.Option(metavar="FILE", help="Sentences, one a line; - for standard input.")]
Targets = Annotated[str, typer.Option(metavar="FILE", help="Their translations, line by line.")]
Model = Annotated[
    Path | None, typer.Argument(metavar="MODEL", help="The folder of a model or of a run; left out with --demo.")
]
Demo = Annotated[bool, typer.Option("--demo", help="Use the small English-German model that is built in.")]
Output = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the links here, when all are there.")]
Reverse = Annotated[
    Path | None,
    typer.Option(metavar="MODEL", rich_help_panel=_BOTH, help="The model of the other direction, to join with."),
]
Symmetrise = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        rich_help_panel=_BOTH,
        help="intersection, union, grow-diag or grow-diag-final-and; without it, the last.",
    ),
]
GoldFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", rich_help_panel=_GOLD, help="Right links, words from 1: 1-1 2p3 (sure, possible)."),
]
SwapGold = Annotated[
    bool, typer.Option("--swap-gold", rich_help_panel=_GOLD, help="The gold file has the target's words first.")
]
Search = Annotated[
    bool,
    typer.Option(
        "--search", rich_help_panel=_HEAD, help="Rank all heads, by --gold or else by agreement with --reverse."
    ),
]
Store = Annotated[
    bool, typer.Option("--store", rich_help_panel=_HEAD, help="Keep the head in the model, for the next time.")
]
GridFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=_HEAD, help="Draw the search by gold: .png, .svg or .pdf."),
]
Layer = Annotated[int | None, typer.Option(metavar="N", rich_help_panel=_HEAD, help="Its layer, from 0; -1 is last.")]
Head = Annotated[str | None, typer.Option(metavar="N", rich_help_panel=_HEAD, help="Its number, from 0; or mean.")]
RowsOption = Annotated[
    str | None, typer.Option("--rows", metavar="ROWS", rich_help_panel=_HEAD, help="A row: the token written, or read.")
]
MeasureOption = Annotated[
    str | None,
    typer.Option("--measure", metavar="MEASURE", rich_help_panel=_HEAD, help="attention, or norm of what it brought."),
]


class Lines(NamedTuple):
    """What is to be aligned."""

    sources: list[str]
    targets: list[str]
    gold: "list[Gold] | None"


def align(
    source: Sources,
    target: Targets,
    model: Model = None,
    demo: Demo = False,
    output: Output = None,
    reverse: Reverse = None,
    symmetrise: Symmetrise = None,
    gold: GoldFile = None,
    swap_gold: SwapGold = False,
    search: Search = False,
    store: Store = False,
    grid: GridFile = None,
    layer: Layer = None,
    head: Head = None,
    rows: RowsOption = None,
    measure: MeasureOption = None,
) -> None:
    """Say which words of two files belong together.

    For each pair a line of links as in 0-1 2-2: a word of the source and one of the target, from 0, split at white
    space; an empty line has none. They are where the model looks while it is led through the target: by its stored
    alignment head or, without one, by the mean of its second last layer, a guess. With --search the result is the
    ranking of all heads, and links go to --output alone.

        dragoman align run/ --source a.en --target a.de > a.links

        dragoman align run/ --source dev.en --target dev.de --gold dev.gold --search --store

        dragoman align en-de/ --source a.en --target a.de --reverse de-en/ --symmetrise intersection
    """
    from dragoman.cli.align_head import HeadOptions

    named = HeadOptions(layer, head, rows, measure)
    _refuse_model(model, demo, store)
    _refuse_search(named, search, store, gold, reverse, grid)
    method = _method(symmetrise, reverse)
    _require_places([source, target, gold or ""], output, grid)
    if [source, target, gold].count("-") > 1:
        raise ValueError("- is standard input: it can be only one of --source, --target and --gold")
    lines = _read(source, target, gold, swap_gold)
    bundles = _opened(model, reverse)
    from dragoman.cli.align_links import Work  # torch takes seconds: whoever has mistyped a name is told before

    work = Work(bundles, lines.sources, lines.targets, lines.gold, method)
    _run(work, named, search, store, output, (grid, gold or ""))


def _run(
    work: "Work", named: "HeadOptions", search: bool, store: bool, output: Path | None, picture: tuple[Path | None, str]
) -> None:
    from dragoman.cli import align_search

    work.require_short()
    heads = align_search.searched(work, *picture) if search else work.named(named)
    found = work.links(heads)
    if output or not search:
        _write([*found.values()][-1], output)
    work.show_scores(found)
    if store:
        align_search.store(work, heads)


def _refuse_model(model: Path | None, demo: bool, store: bool) -> None:
    if demo and model is not None:
        raise ValueError(f"--demo has a model of its own: leave out {model}, or leave out --demo")
    if demo and store:
        raise ValueError("--store would change the built-in model: give what --search finds as --layer and --head")
    if not demo and model is None:
        raise ValueError("which model? give its folder: dragoman align run/ --source a.en --target a.de; or try --demo")


def _refuse_search(
    named: "HeadOptions", search: bool, store: bool, gold: str | None, reverse: Path | None, grid: Path | None
) -> None:
    named.refuse_mistakes()
    if search and named.layer is not None:
        raise ValueError("--search tries every head: leave out --layer and --head, or --search")
    if search and gold is None and reverse is None:
        raise ValueError("--search needs something to go by: --gold, or --reverse with a model to agree with")
    if grid is not None and not (search and gold is not None):
        raise ValueError("--grid draws what a search by gold finds: give --search and --gold with it")
    if store and not search and named.layer is None:
        raise ValueError("--store has nothing to keep: let --search find a head, or name one with --layer and --head")


def _method(symmetrise: str | None, reverse: Path | None) -> str:
    from dragoman.data.symmetrise import Symmetrisation

    allowed = get_args(Symmetrisation)
    if symmetrise is not None and symmetrise not in allowed:
        raise ValueError(f"--symmetrise {symmetrise}: give {', '.join(allowed[:-1])} or {allowed[-1]}")
    if symmetrise is not None and reverse is None:
        raise ValueError("--symmetrise joins two directions: give the model of the other one with --reverse")
    return symmetrise or "grow-diag-final-and"


def _require_places(inputs: list[str], output: Path | None, grid: Path | None) -> None:
    for name, path in (("--output", output), ("--grid", grid)):
        if path is None:
            continue
        if not path.resolve().parent.is_dir() or (path.exists() and not path.is_file()):
            raise ValueError(f"{name} {path}: give the name of a file in a folder that is there")
        if any(given and path.resolve() == Path(given).resolve() for given in inputs):
            raise ValueError(f"{name} {path} is one of the files to be read: give another name")
    if grid is not None:
        from dragoman.inspection.plots.saving import FORMATS

        if grid.suffix[1:].lower() not in FORMATS:
            raise ValueError(f"--grid {grid}: end its name in .{', .'.join(FORMATS)}")


def _read(source: str, target: str, gold: str | None, swap: bool) -> Lines:
    from dragoman.data.moses import read_gold
    from dragoman.evaluation.text import read_text, require_same_length

    sources, targets = read_text(source), read_text(target)
    require_same_length(sources, targets)
    if gold is None:
        return Lines(sources.lines, targets.lines, None)
    said = read_text(gold)
    require_same_length(sources, said)
    right = [one.swapped() if swap else one for one in read_gold(said.lines, gold)]
    if not any(one.sure for one in right):
        raise ValueError(f"{gold}: there is no sure link at all, and no error rate without one; write them as 1-1")
    _require_fit(gold, right, sources.lines, targets.lines)
    return Lines(sources.lines, targets.lines, right)


def _require_fit(name: str, gold: "Sequence[Gold]", sources: Sequence[str], targets: Sequence[str]) -> None:
    """Gold of other text, or the wrong way round, would give a score that means nothing."""
    for number, (said, *pair) in enumerate(zip(gold, sources, targets, strict=True), 1):
        for side, line, words in zip(("source", "target"), pair, zip(*said.possible, strict=True), strict=False):
            size = len(line.split())
            if max(words) >= size:
                raise ValueError(
                    f"{name}, line {number:,}: it speaks of word {max(words) + 1} of a {side} with {size} words; "
                    "is it of other text, or has it the target's words first (--swap-gold turns it)?"
                )


def _opened(model: Path | None, reverse: Path | None) -> "list[Bundle]":
    """The model, and that of the other direction if there is one."""
    from dragoman.bundle import demo_folder, open_bundle

    forward = open_bundle(model or demo_folder())
    if reverse is None:
        return [forward]
    backward = open_bundle(reverse)
    there, back = ((each.info.source_language, each.info.target_language) for each in (forward, backward))
    if forward.folder.samefile(backward.folder) or (None not in there + back and there == back):
        way = f", {there[0]} to {there[1]}" if None not in there else ""
        raise ValueError(f"--reverse {reverse} goes the same way as the model{way}: give one that translates back")
    return [forward, backward]


def _write(links: "Sequence[frozenset[tuple[int, int]]]", output: Path | None) -> None:
    from dragoman.data.durable import write_durably
    from dragoman.data.moses import to_moses

    text = "".join(f"{to_moses(of_pair)}\n" for of_pair in links)
    if output:
        write_durably(output.resolve(), lambda sink: sink.write(text.encode()))
    else:
        sys.stdout.write(text)
        sys.stdout.flush()
