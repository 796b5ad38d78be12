"""`dragoman evaluate`: how good translations are, beside those of other systems and beside the literature."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    systems: Annotated[
        list[str],
        typer.Argument(metavar="SYSTEM", help="Model folders, or files with translations; the first is the baseline."),
    ],
    reference: Annotated[list[str], typer.Option(metavar="FILE", help="What is right; several may be given.")],
    source: Annotated[str | None, typer.Option(metavar="FILE", help="What models have to translate.")] = None,
    metrics: Annotated[
        str, typer.Option(metavar="NAMES", help="Which scores: bleu, chrf, chrf++, ter.")
    ] = "bleu,chrf,ter",
    tokenised: Annotated[
        bool, typer.Option("--tokenised", help="All text is tokenised already: BLEU adds nothing.")
    ] = False,
    lower_case: Annotated[bool, typer.Option("--lower-case", help="Do not tell A from a.")] = False,
    compounds: Annotated[bool, typer.Option("--compounds", help="Split compounds for BLEU, as the paper did.")] = False,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the whole report there.")] = None,
    hypotheses: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Write a model's translations there; once for each model.")
    ] = None,
) -> None:
    """Score translations: BLEU, chrF and TER with intervals and signatures.

    The numbers are those of the sacrebleu command. With several systems, each is compared with the first by paired
    bootstrap. For papers that report tokenised lower-cased BLEU: --tokenised --lower-case.
    """
    from rich.console import Console

    from dragoman.cli.progress import shown
    from dragoman.evaluation import report
    from dragoman.evaluation.metrics import parse_names
    from dragoman.evaluation.output import gather, is_bundle
    from dragoman.evaluation.reading import Reading
    from dragoman.evaluation.text import read_text

    options = report.EvaluateOptions(
        metrics=parse_names(metrics),
        reading=Reading(tokenised=tokenised, lower_case=lower_case, compounds=compounds),
        command=shlex.join(["dragoman", *sys.argv[1:]]),
    )
    if compounds and "bleu" not in options.metrics:
        raise ValueError("--compounds is about BLEU: add bleu to --metrics")
    _require_places(hypotheses or [], sum(is_bundle(system) for system in systems), json)
    sentences = read_text(source) if source is not None else None
    references = [read_text(address) for address in reference]
    with shown() as progress:
        outputs = gather(systems, sentences, references, progress)
        bundles = [output for output in outputs if output.kind == "bundle"]
        for path, output in zip(hypotheses or [], bundles, strict=False):
            path.write_text("".join(f"{line}\n" for line in output.lines), encoding="utf-8", newline="\n")
        progress("score", 0, None)
        made = report.evaluate(outputs, sentences, references, options)
    if json is not None:
        json.write_text(made.model_dump_json(indent=2) + "\n", encoding="utf-8")
    console = Console(highlight=False, markup=False)
    console.print(made.table())
    for signature in made.signatures:
        console.print(signature, soft_wrap=True)
    for note in made.notes:
        console.print(note)


def _require_places(hypotheses: list[Path], num_models: int, json: Path | None) -> None:
    """Translating may take an hour: whether its result has a place is asked before."""
    if hypotheses and len(hypotheses) != num_models:
        raise ValueError(f"{len(hypotheses)} --hypotheses but {num_models} models: give one for each, in their order")
    for path in (*hypotheses, *([json] if json else [])):
        if not path.parent.is_dir():
            raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
        if path.is_dir():
            raise ValueError(f"{path}: this is a folder; name a file")
