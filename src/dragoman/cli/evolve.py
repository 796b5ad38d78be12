"""`dragoman evolve`: how a run's attention came to be, from the sentences that were traced while it trained."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from dragoman.inspection.evolution import Evolution
    from dragoman.inspection.trace import Kind

_PICTURES: Final = (".svg", ".pdf", ".png")


class Which(StrEnum):
    """Kinds of attention, as they are typed."""

    cross = "cross"
    encoder = "encoder"
    decoder = "decoder"


def evolve(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run; it may still be training.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: FILE.png, FILE.svg or FILE.pdf.")] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with a slider over the updates.")
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every number of every head.")] = None,
    kind: Annotated[
        Which | None, typer.Option(help="Which attention; else cross, with the roles of all heads.")
    ] = None,
    sentence: Annotated[int, typer.Option(min=1, metavar="N", help="Whose maps are drawn, from 1.")] = 1,
    layer: Annotated[
        int | None, typer.Option(metavar="N", help="Whose map is drawn, from 0; else the head that stands out.")
    ] = None,
    head: Annotated[int | None, typer.Option(metavar="N", help="Its head, from 0.")] = None,
) -> None:
    """Show how a model's attention came to be while it trained.

    A run traces a few dev sentences before its first update and at each validation (validation.probe in its recipe),
    always with the reference as the target. A line for each such moment: how sharp attention was, which head aligned
    best, and how many heads had which role.

        dragoman evolve run/

        dragoman evolve run/ --out evolution.png --html evolution.html
    """
    _refuse_mistakes(out, html, json, layer, head)
    from rich.console import Console

    from dragoman.cli.progress import shown
    from dragoman.inspection.evolution import read_evolution

    chosen: Kind | None = kind.value if kind else None
    with shown() as progress:
        evolution = read_evolution(run, progress)
    evolution.of(chosen)
    if sentence > len(evolution.sentences):
        raise ValueError(f"there is no sentence {sentence}: choose 1 to {len(evolution.sentences)}")
    which = chosen or evolution.kinds[0]
    course = None if layer is None or head is None else evolution.course(which, layer, head)
    if json:
        from dragoman.inspection.evolution_record import save_record

        save_record(evolution, json)
    if html:
        from dragoman.inspection.evolution_page import save_page

        save_page(evolution, html, chosen, sentence - 1)
    if out:
        from dragoman.inspection.plots.course import picture
        from dragoman.inspection.plots.saving import save

        save(picture(evolution, which, sentence - 1, course), out)
    _print(evolution, chosen, Console(highlight=False))


def _refuse_mistakes(
    out: Path | None, html: Path | None, json: Path | None, layer: int | None, head: int | None
) -> None:
    """All that can be known before anything is read."""
    if out and out.suffix.lower() not in _PICTURES:
        mend = "; a page is asked for with --html" if out.suffix.lower() in (".html", ".htm") else ""
        raise ValueError(f"--out {out}: end its name in {', '.join(_PICTURES)}{mend}")
    for option, path in (("--out", out), ("--html", html), ("--json", json)):
        if path and not path.absolute().parent.is_dir():
            raise ValueError(f"{option} {path}: there is no folder {path.parent}; make it first")
        if path and path.is_dir():
            raise ValueError(f"{option} {path}: this is a folder; name a file in it")
    if (layer is None) != (head is None):
        raise ValueError("one head is meant: give both --layer and --head, or neither")


def _print(evolution: "Evolution", kind: "Kind | None", console: object) -> None:
    from rich.console import Console

    from dragoman.inspection.evolution_table import legend, summary, table
    from dragoman.inspection.view import CAVEAT, KINDS

    assert isinstance(console, Console)
    lines = summary(evolution, kind)
    shown = lines[0].head.kind
    console.print(f"{KINDS[shown].capitalize()}; {evolution.about}.\n", markup=False)
    console.print(table(lines, plain_letters=console.options.ascii_only))
    count = len(evolution.of(shown))
    whose = f"the mean of {count} heads" if count > 1 else "that of the only head"
    console.print(f"\nEntropy is {whose}: 0 one token, 1 all alike.")
    if shown == "cross":
        console.print(
            f"Alignment, between {evolution.units}: the weight of the source word that has most, times the share of "
            "words so chosen."
        )
    console.print(f"{legend(lines)} {CAVEAT}")
    if not (evolution.run / "bundle").is_dir():
        console.print("The run is not over, or was broken off: this is how far it has come.")
