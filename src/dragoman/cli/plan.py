"""`dragoman plan`: what a model would cost, before anything is built or trained."""

from typing import Annotated

import typer


def plan(
    preset: Annotated[
        str | None, typer.Argument(metavar="PRESET", help="The model to look at; without it, a list of them all.")
    ] = None,
    vocabulary: Annotated[int, typer.Option(min=1, metavar="N", help="Token ids on either side.")] = 37_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show what a model would cost: parameters, FLOPs and memory by part.

    Nothing is built: the numbers follow from the model's sizes alone. Those of the paper's models stand beside what the
    paper prints.
    """
    import json

    from rich.console import Console

    from dragoman.cli import plan_page, plan_record

    if as_json:
        record = plan_record.of_preset(preset, vocabulary) if preset is not None else plan_record.of_all(vocabulary)
        typer.echo(json.dumps(record, indent=2))
    else:
        page = plan_page.of_preset(preset, vocabulary) if preset is not None else plan_page.of_all(vocabulary)
        Console(highlight=False, markup=False).print(page)
